// A small residual tower with its heads in floats, from planes to logits, values and what else it has, in one thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "network/aligned_array.h"
#include "network/tower_heads.h"
#include "network/winograd.h"

namespace shusaku {

// Of rows of positions, where the tower has such heads, else null.
struct FurtherAnswers {
  float *ownership, *scores;  // [rows, H, W], [rows]
};

// Whose each cell will be: a 1x1 convolution to one number, tanh.
class OwnershipHead {
 public:
  explicit OwnershipHead(const TowerSizes& sizes)
      : sizes_(sizes), layer_(kFloatDense, sizes.filters, 1), answers_(std::size_t(sizes.width * layer_.outputs())) {}

  // [1, F] and [1].
  void set(const float* weights, const float* bias) { layer_.set(1, sizes_.filters, weights, bias); }

  // Features of the tower -> [boards, H, W].
  void run(const float* x, const BoardPlaces& places, int boards, float* owners) {
    const std::size_t filters = std::size_t(sizes_.filters), outputs = std::size_t(layer_.outputs());
    for (int b = 0; b < boards; ++b)
      for (int row = 0; row < sizes_.height; ++row) {
        kFloatDense.multiply(layer_.layer(), x + places.row(b, row) * filters, filters, sizes_.width, answers_.data(),
                             outputs);
        for (int column = 0; column < sizes_.width; ++column)
          *owners++ = std::tanh(answers_[std::size_t(column) * outputs]);
      }
  }

 private:
  TowerSizes sizes_;
  Dense<float> layer_;
  AlignedArray<float> answers_;
};

class FloatTower {
 public:
  // The filters are a multiple of 16.
  explicit FloatTower(const TowerSizes& sizes)
      : sizes_(sizes),
        shape_(WinogradBoard::of(sizes.height, sizes.width)),
        planes_((sizes.planes + kLanes - 1) / kLanes * kLanes),
        at_once_(shape_.at_once()),
        heads_(kFloatDense, sizes, kBoards),
        inputs_(std::size_t(shape_.padded() * planes_)),
        x_(kBoards * board()),
        y_(kBoards * board()),
        numbers_(std::size_t(shape_.points()) * rows() * std::size_t(std::max(planes_, sizes.filters))),
        sums_(std::size_t(shape_.points()) * rows() * std::size_t(sizes.filters)) {
    layers_.emplace_back(shape_, planes_, sizes.filters);
    for (int layer = 0; layer < 2 * sizes.blocks; ++layer) layers_.emplace_back(shape_, sizes.filters, sizes.filters);
  }

  const TowerSizes& sizes() const { return sizes_; }
  TowerHeads<float>& heads() { return heads_; }

  // `weights` [F, inputs, 3, 3], `bias` [F]; layer 0 is the first one, whose inputs are the planes.
  void set_layer(int layer, const float* weights, const float* bias) {
    Layer& own = layers_.at(std::size_t(layer));
    const int inputs = layer == 0 ? sizes_.planes : sizes_.filters, outputs = sizes_.filters;
    std::copy_n(bias, outputs, own.bias.data());
    kWinograd.transform_kernels(shape_, weights, {inputs * 9, 9, 1}, inputs, own.inputs, outputs, own.weights.data());
  }

  // These make the head, if the tower has none yet; see OwnershipHead and NumberHead.
  void set_ownership(const float* weights, const float* bias) {
    if (!ownership_) ownership_.emplace(sizes_);
    ownership_->set(weights, bias);
  }
  NumberHead<float>& score() {
    if (!score_) score_.emplace(kFloatDense, sizes_, kBoards);
    return *score_;
  }
  bool has_ownership() const { return ownership_.has_value(); }
  bool has_score() const { return score_.has_value(); }

  // Planes [rows, H, W, C] -> logits [rows, A] and values [rows], and what `further` asks of the heads that there are.
  void run(const float* planes, std::size_t rows, float* logits, float* values, FurtherAnswers further = {}) {
    const BoardPlaces places{std::size_t(shape_.padded()), std::size_t(shape_.at(0, 0)), std::size_t(shape_.pitch())};
    for (std::size_t row = 0; row < rows; row += kBoards) {
      const int boards = int(std::min<std::size_t>(kBoards, rows - row));
      run_stem(planes + row * std::size_t(sizes_.cells() * sizes_.planes), boards);
      for (std::size_t layer = 1; layer < layers_.size(); layer += 2) {
        run_layer(layers_[layer], x_.data(), nullptr, y_.data(), boards);
        run_layer(layers_[layer + 1], y_.data(), x_.data(), x_.data(), boards);
      }
      heads_.run(x_.data(), places, boards, logits + row * std::size_t(sizes_.actions), values + row);
      if (further.ownership)
        ownership_->run(x_.data(), places, boards, further.ownership + row * std::size_t(sizes_.cells()));
      if (further.scores) score_->run(x_.data(), places, boards, further.scores + row);
    }
  }

 private:
  static constexpr int kLanes = 8;
  static constexpr int kBoards = 16;  // that share what is read of a head's weights

  struct Layer {
    Layer(const WinogradBoard& shape, int inputs, int outputs)
        : inputs(inputs),
          outputs(outputs),
          weights(std::size_t(shape.points()) * of_point()),
          bias(std::size_t(outputs)) {}
    std::size_t of_point() const { return std::size_t(inputs) * std::size_t(outputs); }

    int inputs, outputs;
    AlignedArray<float> weights;  // [points] of a linear layer
    AlignedArray<float> bias;
  };

  std::size_t board() const { return std::size_t(shape_.padded()) * std::size_t(sizes_.filters); }
  std::size_t rows() const { return std::size_t(at_once_ * shape_.tiles()); }

  void run_stem(const float* planes, int boards) {
    const Layer& stem = layers_.front();
    for (int first = 0; first < boards; first += at_once_) {
      const int some = std::min(at_once_, boards - first);
      for (int b = 0; b < some; ++b, planes += sizes_.cells() * sizes_.planes) {
        lay_out(planes);
        transform(inputs_.data(), stem.inputs, b);
      }
      multiply(stem, some);
      for (int b = 0; b < some; ++b) finish(stem, b, nullptr, x_.data() + std::size_t(first + b) * board());
    }
  }

  // to = ReLU(layer(from) + skip), boards [boards, padded, F].
  void run_layer(const Layer& layer, const float* from, const float* skip, float* to, int boards) {
    for (int first = 0; first < boards; first += at_once_) {
      const int some = std::min(at_once_, boards - first);
      const std::size_t at = std::size_t(first) * board();
      for (int b = 0; b < some; ++b) transform(from + at + std::size_t(b) * board(), layer.inputs, b);
      multiply(layer, some);
      for (int b = 0; b < some; ++b) {
        const std::size_t own = at + std::size_t(b) * board();
        finish(layer, b, skip == nullptr ? nullptr : skip + own, to + own);
      }
    }
  }

  // Planes [H, W, C] into the board of inputs.
  void lay_out(const float* planes) {
    for (int row = 0; row < shape_.height; ++row)
      for (int column = 0; column < shape_.width; ++column, planes += sizes_.planes)
        std::copy_n(planes, sizes_.planes, inputs_.data() + std::size_t(shape_.at(row, column) * planes_));
  }

  void transform(const float* board, int channels, int b) {
    kWinograd.transform_inputs(shape_, board, channels, numbers_.data() + std::size_t(b * shape_.tiles() * channels),
                               rows() * std::size_t(channels));
  }

  void multiply(const Layer& layer, int boards) {
    kWinograd.multiply(shape_, layer.weights.data(), layer.inputs, layer.outputs, numbers_.data(),
                       rows() * std::size_t(layer.inputs), boards * shape_.tiles(), sums_.data(),
                       rows() * std::size_t(layer.outputs));
  }

  void finish(const Layer& layer, int b, const float* skip, float* board) {
    const std::size_t first = std::size_t(shape_.at(0, 0) * layer.outputs);
    kWinograd.transform_outputs(shape_, sums_.data() + std::size_t(b * shape_.tiles() * layer.outputs),
                                rows() * std::size_t(layer.outputs), layer.outputs, layer.bias.data(),
                                skip == nullptr ? nullptr : skip + first, {board + first, shape_.pitch()});
  }

  TowerSizes sizes_;
  WinogradBoard shape_;
  int planes_;   // of the inputs, a multiple of a register
  int at_once_;  // boards of a convolution
  std::vector<Layer> layers_;
  TowerHeads<float> heads_;
  std::optional<OwnershipHead> ownership_;
  std::optional<NumberHead<float>> score_;
  // Of a group of boards, but for the inputs; zeros around each board of inputs, `x` and `y` stay.
  AlignedArray<float> inputs_;
  AlignedArray<float> x_, y_;           // the skips, which are the inputs of first layers; inputs of second ones
  AlignedArray<float> numbers_, sums_;  // at the points
};

}  // namespace shusaku
