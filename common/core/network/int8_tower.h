// A small residual tower with its policy and value heads, whose 3x3 convolutions are of 8-bit numbers: what
// `learner/quantisation.py` describes, from planes to logits and values, in one thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "games/expand_planes.h"
#include "network/int8_kernels.h"

namespace shusaku {

// Zeros, aligned for registers of 64 bytes, and some bytes more behind the end.
template <class T>
class AlignedArray {
 public:
  explicit AlignedArray(std::size_t size)
      : data_(static_cast<T*>(::operator new(size * sizeof(T) + kAlignment, std::align_val_t(kAlignment)))) {
    std::fill_n(data_.get(), size, T());
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T& operator[](std::size_t i) { return data_.get()[i]; }

 private:
  static constexpr std::size_t kAlignment = 64;
  struct Free {
    void operator()(T* p) const { ::operator delete(p, std::align_val_t(kAlignment)); }
  };
  std::unique_ptr<T, Free> data_;
};

struct TowerSizes {
  int planes, height, width, actions, filters, blocks, policy_filters, value_filters, value_hidden;
  bool is_policy_by_cell;  // one linear layer for all cells, from a cell to its actions

  int cells() const { return height * width; }
  int cell_actions() const { return is_policy_by_cell ? actions / cells() : 0; }
};

// A linear layer in bf16; inputs and outputs are rounded up, to a multiple of 2 and of 16, by zeros.
class Dense {
 public:
  Dense(int inputs, int outputs)
      : inputs_((inputs + 1) / 2 * 2),
        outputs_((outputs + 15) / 16 * 16),
        weights_(std::size_t(inputs_) * std::size_t(outputs_)),
        bias_(std::size_t(outputs_)) {}
  int outputs() const { return outputs_; }
  DenseLayer layer() const { return {weights_.data(), bias_.data(), inputs_, outputs_}; }
  void set_weight(int input, int output, float weight) {
    set_number(weight, weights_[packed_place(inputs_, outputs_, 2, input, output)]);
  }
  void set_bias(int output, float bias) { bias_[std::size_t(output)] = bias; }

 private:
  int inputs_, outputs_;
  AlignedArray<std::uint16_t> weights_;
  AlignedArray<float> bias_;
};

class Int8Tower {
 public:
  Int8Tower(const Int8Kernels& kernels, const TowerSizes& sizes)
      : kernels_(kernels),
        sizes_(sizes),
        shape_{sizes.height, sizes.width},
        planes_((sizes.planes + 1) / 2 * 2),
        stem_(std::size_t(9 * planes_ * sizes.filters)),
        stem_bias_(std::size_t(sizes.filters)),
        policy_features_(sizes.filters, sizes.policy_filters),
        policy_(sizes.is_policy_by_cell ? policy_features_.outputs() : sizes.cells() * policy_features_.outputs(),
                sizes.is_policy_by_cell ? sizes.cell_actions() : sizes.actions),
        value_features_(sizes.filters, sizes.value_filters),
        value_hidden_(sizes.cells() * value_features_.outputs(), sizes.value_hidden),
        value_(std::size_t(value_hidden_.outputs())),
        inputs_(std::size_t(shape_.padded() * planes_)),
        x_(kBoards * board()),
        own_(kBoards * board()),
        other_(kBoards * board()),
        rounded_(kBoards * board()),
        features_(kBoards *
                  std::size_t(sizes.cells() * std::max(policy_features_.outputs(), value_features_.outputs()))),
        answers_(std::size_t(std::max(policy_.outputs(), value_hidden_.outputs())) *
                 std::size_t(std::max<int>(kBoards, sizes.cells()))) {
    for (int layer = 0; layer < 2 * sizes.blocks; ++layer) layers_.emplace_back(sizes.filters);
  }

  const TowerSizes& sizes() const { return sizes_; }

  // `weights` [F, C, 3, 3], `bias` [F]; `steps` a unit of its output, for the next layer.
  void set_stem(const float* weights, const float* bias, float steps) {
    std::copy_n(bias, sizes_.filters, stem_bias_.data());
    for (int f = 0; f < sizes_.filters; ++f)
      for (int c = 0; c < sizes_.planes; ++c)
        for (int tap = 0; tap < 9; ++tap)
          set_number(weights[(f * sizes_.planes + c) * 9 + tap],
                     stem_[packed_place(9 * planes_, sizes_.filters, 2, tap * planes_ + c, f)]);
    stem_steps_ = steps;
  }

  // `weights` [F, F, 3, 3]; see Int8Layer.
  void set_layer(int layer, const std::int8_t* weights, const float* slope, const float* shift, float steps) {
    Layer& own = layers_.at(std::size_t(layer));
    const int n = sizes_.filters;
    std::copy_n(slope, n, own.slope.data());
    std::copy_n(shift, n, own.shift.data());
    own.steps = steps;
    for (int o = 0; o < n; ++o)
      for (int i = 0; i < n; ++i)
        for (int tap = 0; tap < 9; ++tap)
          own.weights[packed_place(9 * n, n, 4, tap * n + i, o)] = weights[(o * n + i) * 9 + tap];
  }

  // Features [P, F] and [P]; output [A, P * H * W] and [A], or by cell [K, P] and [K].
  void set_policy(const float* features, const float* features_bias, const float* output, const float* output_bias) {
    set_dense(policy_features_, sizes_.policy_filters, sizes_.filters, features, features_bias);
    if (sizes_.is_policy_by_cell)
      set_dense(policy_, sizes_.cell_actions(), sizes_.policy_filters, output, output_bias);
    else
      set_over_cells(policy_, sizes_.actions, sizes_.policy_filters, policy_features_.outputs(), output, output_bias);
  }

  // Features [V, F] and [V]; hidden [N, V * H * W] and [N]; output [N] and [1].
  void set_value(const float* features, const float* features_bias, const float* hidden, const float* hidden_bias,
                 const float* output, const float* output_bias) {
    set_dense(value_features_, sizes_.value_filters, sizes_.filters, features, features_bias);
    set_over_cells(value_hidden_, sizes_.value_hidden, sizes_.value_filters, value_features_.outputs(), hidden,
                   hidden_bias);
    std::copy_n(output, sizes_.value_hidden, value_.data());
    value_bias_ = output_bias[0];
  }

  // Planes [rows, H, W, C] of bf16 -> logits [rows, A] and values [rows].
  void run(const std::uint16_t* planes, std::size_t rows, float* logits, float* values) {
    for (std::size_t row = 0; row < rows; row += kBoards)
      run_group(planes + row * std::size_t(sizes_.cells() * sizes_.planes), int(std::min(kBoards, rows - row)),
                logits + row * std::size_t(sizes_.actions), values + row);
  }

 private:
  // At once: the second-level cache holds them, and all share what is read of a layer's weights.
  static constexpr std::size_t kBoards = 16;

  struct Layer {
    explicit Layer(int n) : weights(std::size_t(9 * n * n)), slope(std::size_t(n)), shift(std::size_t(n)) {}
    AlignedArray<std::int8_t> weights;
    AlignedArray<float> slope, shift;
    float steps = 0;
  };

  std::size_t board() const { return std::size_t(shape_.padded() * sizes_.filters); }

  // [outputs, inputs] and [outputs].
  static void set_dense(Dense& dense, int outputs, int inputs, const float* weights, const float* bias) {
    for (int o = 0; o < outputs; ++o) {
      dense.set_bias(o, bias[o]);
      for (int i = 0; i < inputs; ++i) dense.set_weight(i, o, weights[o * inputs + i]);
    }
  }

  // From [outputs, channels * cells] to the order in which features lie in memory: cell by cell, `stride` channels.
  void set_over_cells(Dense& dense, int outputs, int channels, int stride, const float* weights, const float* bias) {
    const int cells = sizes_.cells();
    for (int o = 0; o < outputs; ++o) {
      dense.set_bias(o, bias[o]);
      for (int channel = 0; channel < channels; ++channel)
        for (int cell = 0; cell < cells; ++cell)
          dense.set_weight(cell * stride + channel, o, weights[(o * channels + channel) * cells + cell]);
    }
  }

  void run_group(const std::uint16_t* planes, int boards, float* logits, float* values) {
    const PlanesLayer stem{stem_.data(), stem_bias_.data(), planes_, stem_steps_};
    for (int b = 0; b < boards; ++b) {
      lay_out(planes + std::size_t(b) * std::size_t(sizes_.cells() * sizes_.planes));
      kernels_.begin(stem, shape_, inputs_.data(), x(b), own(b));
    }
    for (std::size_t number = 0; number < layers_.size(); ++number) {
      const Layer& layer = layers_[number];
      const Int8Layer given{layer.weights.data(), layer.slope.data(), layer.shift.data(), layer.steps};
      const bool is_first = number % 2 == 0;
      for (int b = 0; b < boards; ++b)
        kernels_.convolve(given, shape_, is_first ? own(b) : other(b), x(b), is_first ? other(b) : own(b));
    }
    kernels_.round(x_.data(), std::size_t(boards) * board(), rounded_.data());
    run_policy(boards, logits);
    run_value(boards, values);
  }

  // Planes [H, W, C] into the board of inputs.
  void lay_out(const std::uint16_t* planes) {
    for (int row = 0; row < shape_.height; ++row)
      for (int column = 0; column < shape_.width; ++column, planes += sizes_.planes)
        std::copy_n(planes, sizes_.planes, inputs_.data() + shape_.at(row, column) * planes_);
  }

  // [boards, cells, outputs] of ReLU(dense(x)).
  void find_features(const Dense& dense, int boards) {
    const std::size_t outputs = std::size_t(dense.outputs()), row = std::size_t(shape_.width) * outputs;
    for (int b = 0; b < boards; ++b)
      for (int r = 0; r < shape_.height; ++r)
        kernels_.features(dense.layer(),
                          rounded_.data() + std::size_t(b) * board() + std::size_t(shape_.at(r, 0) * sizes_.filters),
                          std::size_t(sizes_.filters), shape_.width,
                          features_.data() + std::size_t(b * shape_.height + r) * row, outputs);
  }

  void run_policy(int boards, float* logits) {
    find_features(policy_features_, boards);
    const std::size_t of_cell = std::size_t(policy_features_.outputs());
    const std::size_t of_board = std::size_t(sizes_.cells()) * of_cell, outputs = std::size_t(policy_.outputs());
    // One row of features a board, or one a cell.
    const bool by_cell = sizes_.is_policy_by_cell;
    const int groups = by_cell ? boards : 1, rows = by_cell ? sizes_.cells() : boards;
    const int wanted = by_cell ? sizes_.cell_actions() : sizes_.actions;
    for (int group = 0; group < groups; ++group) {
      kernels_.multiply(policy_.layer(), features_.data() + std::size_t(group) * of_board, by_cell ? of_cell : of_board,
                        rows, answers_.data(), outputs);
      for (int row = 0; row < rows; ++row, logits += wanted)
        std::copy_n(answers_.data() + std::size_t(row) * outputs, wanted, logits);
    }
  }

  void run_value(int boards, float* values) {
    find_features(value_features_, boards);
    const std::size_t of_board = std::size_t(sizes_.cells() * value_features_.outputs());
    const std::size_t outputs = std::size_t(value_hidden_.outputs());
    kernels_.multiply(value_hidden_.layer(), features_.data(), of_board, boards, answers_.data(), outputs);
    for (int b = 0; b < boards; ++b) {
      const float* const hidden = answers_.data() + std::size_t(b) * outputs;
      float sum = value_bias_;
      for (std::size_t i = 0; i < outputs; ++i) sum += std::max(0.f, hidden[i]) * value_[i];
      values[b] = std::tanh(sum);
    }
  }

  float* x(int b) { return x_.data() + std::size_t(b) * board(); }
  std::uint8_t* own(int b) { return own_.data() + std::size_t(b) * board(); }
  std::uint8_t* other(int b) { return other_.data() + std::size_t(b) * board(); }

  const Int8Kernels& kernels_;
  TowerSizes sizes_;
  BoardShape shape_;
  int planes_;  // of the inputs, even
  AlignedArray<std::uint16_t> stem_;
  AlignedArray<float> stem_bias_;
  float stem_steps_ = 0, value_bias_ = 0;
  std::vector<Layer> layers_;
  Dense policy_features_, policy_, value_features_, value_hidden_;
  AlignedArray<float> value_;
  // Of a group of boards, but for the inputs; zeros around each board of inputs, of `own` and of `other` stay.
  AlignedArray<std::uint16_t> inputs_;
  AlignedArray<float> x_;                   // the skips
  AlignedArray<std::uint8_t> own_, other_;  // inputs of first and second layers
  AlignedArray<std::uint16_t> rounded_, features_;
  AlignedArray<float> answers_;
};

}  // namespace shusaku
