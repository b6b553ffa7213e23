// The policy and value heads of a small residual tower, from its features to logits and values, in numbers of type T.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "games/expand_planes.h"
#include "network/aligned_array.h"
#include "network/dense_layer.h"

namespace shusaku {

struct TowerSizes {
  int planes, height, width, actions, filters, blocks, policy_filters, value_filters, value_hidden;
  bool is_policy_by_cell;  // one linear layer for all cells, from a cell to its actions

  int cells() const { return height * width; }
  int cell_actions() const { return is_policy_by_cell ? actions / cells() : 0; }
};

// A linear layer; inputs and outputs are rounded up, to what the loops take, by zeros.
template <class T>
class Dense {
 public:
  Dense(int inputs, int outputs)
      : inputs_((inputs + Packing<T>::kTogether - 1) / Packing<T>::kTogether * Packing<T>::kTogether),
        outputs_((outputs + 15) / 16 * 16),
        weights_(std::size_t(inputs_) * std::size_t(outputs_)),
        bias_(std::size_t(outputs_)) {}
  int outputs() const { return outputs_; }
  DenseLayer<T> layer() const { return {weights_.data(), bias_.data(), inputs_, outputs_}; }
  void set_weight(int input, int output, float weight) {
    set_number(weight, weights_[Packing<T>::place(inputs_, outputs_, input, output)]);
  }
  void set_bias(int output, float bias) { bias_[std::size_t(output)] = bias; }

 private:
  int inputs_, outputs_;
  AlignedArray<T> weights_;
  AlignedArray<float> bias_;
};

// Where boards of features lie: a board of `padded` cells, the first cell of a row `pitch` cells behind that of the
// row above it.
struct BoardPlaces {
  std::size_t padded, first, pitch;
};

template <class T>
class TowerHeads {
 public:
  // For `boards` at once, at most.
  TowerHeads(const DenseKernels<T>& kernels, const TowerSizes& sizes, int boards)
      : kernels_(kernels),
        sizes_(sizes),
        policy_features_(sizes.filters, sizes.policy_filters),
        policy_(sizes.is_policy_by_cell ? policy_features_.outputs() : sizes.cells() * policy_features_.outputs(),
                sizes.is_policy_by_cell ? sizes.cell_actions() : sizes.actions),
        value_features_(sizes.filters, sizes.value_filters),
        value_hidden_(sizes.cells() * value_features_.outputs(), sizes.value_hidden),
        value_(std::size_t(value_hidden_.outputs())),
        features_(
            std::size_t(boards * sizes.cells() * std::max(policy_features_.outputs(), value_features_.outputs()))),
        answers_(std::size_t(std::max(policy_.outputs(), value_hidden_.outputs()) * std::max(boards, sizes.cells()))) {}

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

  // Boards of features x -> logits [boards, A] and values [boards].
  void run(const T* x, const BoardPlaces& places, int boards, float* logits, float* values) {
    run_policy(x, places, boards, logits);
    run_value(x, places, boards, values);
  }

 private:
  // [outputs, inputs] and [outputs].
  static void set_dense(Dense<T>& dense, int outputs, int inputs, const float* weights, const float* bias) {
    for (int o = 0; o < outputs; ++o) {
      dense.set_bias(o, bias[o]);
      for (int i = 0; i < inputs; ++i) dense.set_weight(i, o, weights[o * inputs + i]);
    }
  }

  // From [outputs, channels * cells] to the order in which features lie in memory: cell by cell, `stride` channels.
  void set_over_cells(Dense<T>& dense, int outputs, int channels, int stride, const float* weights, const float* bias) {
    const int cells = sizes_.cells();
    for (int o = 0; o < outputs; ++o) {
      dense.set_bias(o, bias[o]);
      for (int channel = 0; channel < channels; ++channel)
        for (int cell = 0; cell < cells; ++cell)
          dense.set_weight(cell * stride + channel, o, weights[(o * channels + channel) * cells + cell]);
    }
  }

  // [boards, cells, outputs] of ReLU(dense(x)).
  void find_features(const Dense<T>& dense, const T* x, const BoardPlaces& places, int boards) {
    const std::size_t outputs = std::size_t(dense.outputs()), row = std::size_t(sizes_.width) * outputs;
    const std::size_t filters = std::size_t(sizes_.filters);
    T* to = features_.data();
    for (std::size_t b = 0; b < std::size_t(boards); ++b)
      for (std::size_t r = 0; r < std::size_t(sizes_.height); ++r, to += row)
        kernels_.features(dense.layer(), x + (b * places.padded + places.first + r * places.pitch) * filters, filters,
                          sizes_.width, to, outputs);
  }

  void run_policy(const T* x, const BoardPlaces& places, int boards, float* logits) {
    find_features(policy_features_, x, places, boards);
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

  void run_value(const T* x, const BoardPlaces& places, int boards, float* values) {
    find_features(value_features_, x, places, boards);
    const std::size_t of_board = std::size_t(sizes_.cells() * value_features_.outputs());
    const std::size_t outputs = std::size_t(value_hidden_.outputs());
    kernels_.multiply(value_hidden_.layer(), features_.data(), of_board, boards, answers_.data(), outputs);
    for (int b = 0; b < boards; ++b) {
      const float* const hidden = answers_.data() + std::size_t(b) * outputs;
      float sum = value_bias_;
      // ReLU, after which what is no number stays so.
      for (std::size_t i = 0; i < outputs; ++i) sum += (hidden[i] <= 0.f ? 0.f : hidden[i]) * value_[i];
      values[b] = std::tanh(sum);
    }
  }

  const DenseKernels<T>& kernels_;
  TowerSizes sizes_;
  Dense<T> policy_features_, policy_, value_features_, value_hidden_;
  AlignedArray<float> value_;
  float value_bias_ = 0;
  AlignedArray<T> features_;
  AlignedArray<float> answers_;
};

}  // namespace shusaku
