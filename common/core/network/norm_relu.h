// Batch norm, a skip and ReLU of a training step on a CPU, forward and backward: two passes over memory each.
//
// Rows are cells of boards, channels lie next to each other (torch: channels_last): [rows, channels] of float or bf16,
// computed in float.  Mean and variance of each channel are those of pieces of a few rows, merged in double as in Chan,
// Golub and LeVeque (1979), so that neither a large mean nor many rows cost precision.  Equal inputs and an equal
// number of threads give equal bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "network/norm_loops.h"
#include "search/parallel_parts.h"

namespace shusaku {

// The rows of a tensor, several of them as one wide row, so that few channels fill registers, too.
class NormRows {
 public:
  NormRows(const NormLoops& loops, std::size_t rows, int channels, std::size_t bytes_a_number, int threads)
      : loops_(loops), rows_(rows), channels_(channels), bytes_(bytes_a_number) {
    while (channels_ * together_ < kWide && rows_ % (2 * std::size_t(together_)) == 0) together_ *= 2;
    const std::size_t numbers = rows_ * std::size_t(channels_);
    parts_ = int(std::clamp<std::size_t>(numbers / kNumbersAThread, 1, std::size_t(std::max(1, threads))));
  }

  bool fits() const { return rows_ > 0 && width() % loops_.lanes == 0; }
  int width() const { return channels_ * together_; }
  int channels() const { return channels_; }
  double count() const { return double(rows_); }
  const NormLoops& loops() const { return loops_; }
  const char* at(const void* data, std::size_t row) const {
    return static_cast<const char*>(data) + row * std::size_t(width()) * bytes_;
  }
  char* at(void* data, std::size_t row) const { return static_cast<char*>(data) + row * std::size_t(width()) * bytes_; }

  // `work(part, begin, end)` of equal parts of the wide rows, each but the first in a thread of its own.
  template <class Work>
  void in_parts(Work work) const {
    const std::size_t all = rows_ / std::size_t(together_),
                      share = (all + std::size_t(parts_) - 1) / std::size_t(parts_);
    run_parts(parts_, [&](int part) {
      const std::size_t begin = std::min(all, std::size_t(part) * share);
      work(part, begin, std::min(all, begin + share));
    });
  }
  int parts() const { return parts_; }

  // `work(begin, rows)` of the pieces of a part, small enough to stay in the first-level cache.
  template <class Work>
  void in_pieces(std::size_t begin, std::size_t end, Work work) const {
    const std::size_t piece = std::max<std::size_t>(1, kPiece / std::size_t(width()));
    for (std::size_t row = begin; row < end; row += piece) work(row, std::min(piece, end - row));
  }

  // [channels] -> [width]: of each of the rows that stand together.
  std::vector<float> repeated(const std::vector<double>& values) const {
    std::vector<float> wide(static_cast<std::size_t>(width()));
    for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = float(values[i % std::size_t(channels_)]);
    return wide;
  }

 private:
  static constexpr int kWide = 64;                         // numbers of four registers
  static constexpr std::size_t kPiece = 8192;              // numbers: 16 KiB in bf16
  static constexpr std::size_t kNumbersAThread = 1 << 20;  // below that a thread takes longer to start than to work

  const NormLoops& loops_;
  std::size_t rows_;
  int channels_;
  std::size_t bytes_;
  int together_ = 1, parts_ = 1;
};

// Count, mean and sum of squared distances from it, of each column.
struct Moments {
  double rows = 0;
  std::vector<double> mean, squares;

  explicit Moments(std::size_t width) : mean(width), squares(width) {}

  // Of another `more` rows, with their sums and squared distances from their own mean.
  template <class Number>
  void merge(double more, const Number* sums, const Number* distances) {
    const double share = more / (rows + more), weight = rows * share, inverse = 1 / more;
    for (std::size_t c = 0; c < mean.size(); ++c) {
      const double gap = double(sums[c]) * inverse - mean[c];
      mean[c] += gap * share;
      squares[c] += double(distances[c]) + gap * gap * weight;
    }
    rows += more;
  }
};

// What a layer has learned, and the statistics that it keeps for play: [channels] each.
struct NormState {
  const float *weight, *bias;
  float *running_mean, *running_variance;
  float momentum, epsilon;
};

// y = ReLU(norm(x) + skip); [channels] of mean and of 1 / deviation for the way back.  `skip` may be null.
inline void norm_relu_forward(const NormRows& rows, const void* x, const void* skip, const NormState& state, void* y,
                              float* mean, float* scale) {
  const std::size_t width = std::size_t(rows.width()), channels = std::size_t(rows.channels());
  std::vector<Moments> of_part(static_cast<std::size_t>(rows.parts()), Moments{width});
  rows.in_parts([&](int part, std::size_t begin, std::size_t end) {
    std::vector<float> sums(width), distances(width);
    rows.in_pieces(begin, end, [&](std::size_t row, std::size_t count) {
      rows.loops().moments(rows.at(x, row), count, rows.width(), sums.data(), distances.data());
      of_part[std::size_t(part)].merge(double(count), sums.data(), distances.data());
    });
  });
  Moments all(channels);
  std::vector<double> sums(channels);
  for (const Moments& part : of_part)
    for (std::size_t first = 0; part.rows > 0 && first < width; first += channels) {
      for (std::size_t c = 0; c < channels; ++c) sums[c] = part.mean[first + c] * part.rows;
      all.merge(part.rows, sums.data(), part.squares.data() + first);
    }
  std::vector<double> slope(channels), shift(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const double own_scale = 1 / std::sqrt(all.squares[c] / all.rows + double(state.epsilon));
    mean[c] = float(all.mean[c]);
    scale[c] = float(own_scale);
    slope[c] = double(state.weight[c]) * own_scale;
    shift[c] = double(state.bias[c]) - all.mean[c] * slope[c];
    const double m = double(state.momentum), variance = all.squares[c] / std::max(1., all.rows - 1);
    state.running_mean[c] = float((1 - m) * double(state.running_mean[c]) + m * all.mean[c]);
    state.running_variance[c] = float((1 - m) * double(state.running_variance[c]) + m * variance);
  }
  const std::vector<float> slopes = rows.repeated(slope), shifts = rows.repeated(shift);
  rows.in_parts([&](int, std::size_t begin, std::size_t end) {
    rows.loops().forward(rows.at(x, begin), skip ? rows.at(skip, begin) : nullptr, end - begin, rows.width(),
                         slopes.data(), shifts.data(), rows.at(y, begin));
  });
}

// From the gradient of y to those of x, weight and bias, and of the skip where `skip_gradient` is not null.
inline void norm_relu_backward(const NormRows& rows, const void* gradient, const void* y, const void* x,
                               const float* weight, const float* mean, const float* scale, void* x_gradient,
                               void* skip_gradient, float* weight_gradient, float* bias_gradient) {
  const std::size_t width = std::size_t(rows.width()), channels = std::size_t(rows.channels());
  const std::vector<float> means = rows.repeated(std::vector<double>(mean, mean + channels));
  std::vector<double> sums(2 * width * std::size_t(rows.parts()));  // [parts, 2, width] of g, and of g (x - mean)
  rows.in_parts([&](int part, std::size_t begin, std::size_t end) {
    std::vector<float> of_g(width), of_product(width);
    double* const own = sums.data() + 2 * width * std::size_t(part);
    rows.in_pieces(begin, end, [&](std::size_t row, std::size_t count) {
      rows.loops().sums(rows.at(gradient, row), rows.at(y, row), rows.at(x, row), count, rows.width(), means.data(),
                        of_g.data(), of_product.data());
      for (std::size_t c = 0; c < width; ++c) {
        own[c] += double(of_g[c]);
        own[width + c] += double(of_product[c]);
      }
    });
  });
  std::vector<double> g(channels), product(channels);
  for (std::size_t i = 0; i < sums.size(); ++i) (i / width % 2 == 0 ? g : product)[i % width % channels] += sums[i];
  // dx = weight scale (g - mean(g) - (x - mean) scale^2 mean(g (x - mean))) (Ioffe and Szegedy 2015, section 3)
  std::vector<double> slope(channels), per_x(channels), shift(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const double own_scale = double(scale[c]), own_slope = double(weight[c]) * own_scale;
    bias_gradient[c] = float(g[c]);
    weight_gradient[c] = float(product[c] * own_scale);
    slope[c] = own_slope;
    per_x[c] = -own_slope * own_scale * own_scale * product[c] / rows.count();
    shift[c] = -own_slope * g[c] / rows.count() - per_x[c] * double(mean[c]);
  }
  const std::vector<float> slopes = rows.repeated(slope), per_xs = rows.repeated(per_x), shifts = rows.repeated(shift);
  rows.in_parts([&](int, std::size_t begin, std::size_t end) {
    rows.loops().backward(rows.at(gradient, begin), rows.at(y, begin), rows.at(x, begin), end - begin, rows.width(),
                          slopes.data(), per_xs.data(), shifts.data(), rows.at(x_gradient, begin),
                          skip_gradient ? rows.at(skip_gradient, begin) : nullptr);
  });
}

}  // namespace shusaku
