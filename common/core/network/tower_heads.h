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
  Dense(const DenseLoops<T>& loops, int inputs, int outputs)
      : inputs_((inputs + loops.input_multiple - 1) / loops.input_multiple * loops.input_multiple),
        outputs_((outputs + 15) / 16 * 16),
        weights_(std::size_t(inputs_) * std::size_t(outputs_)),
        bias_(std::size_t(outputs_)) {}
  int outputs() const { return outputs_; }
  DenseLayer<T> layer() const { return {weights_.data(), bias_.data(), inputs_, outputs_}; }

  // [outputs, inputs] and [outputs].
  void set(int outputs, int inputs, const float* weights, const float* bias) {
    std::copy_n(bias, outputs, bias_.data());
    for (int o = 0; o < outputs; ++o)
      for (int i = 0; i < inputs; ++i) set_weight(i, o, *weights++);
  }

  // From [outputs, channels * cells] to the order in which features lie in memory: cell by cell, `stride` channels.
  void set_over_cells(int outputs, int channels, int cells, int stride, const float* weights, const float* bias) {
    std::copy_n(bias, outputs, bias_.data());
    for (int o = 0; o < outputs; ++o)
      for (int channel = 0; channel < channels; ++channel)
        for (int cell = 0; cell < cells; ++cell) set_weight(cell * stride + channel, o, *weights++);
  }

 private:
  void set_weight(int input, int output, float weight) {
    set_number(weight, weights_[Packing<T>::place(inputs_, outputs_, input, output)]);
  }

  int inputs_, outputs_;
  AlignedArray<T> weights_;
  AlignedArray<float> bias_;
};

constexpr int kReadBehindRows = 16;  // of features that loops may read, and not use

// Where boards of features lie: a board of `padded` cells, the first cell of a row `pitch` cells behind that of the
// row above it.
struct BoardPlaces {
  std::size_t padded, first, pitch;

  std::size_t row(int board, int row) const { return std::size_t(board) * padded + first + std::size_t(row) * pitch; }
};

// A 1x1 convolution and ReLU: what a head makes of the tower's features x, for `boards` at most.
template <class T>
class HeadFeatures {
 public:
  HeadFeatures(const DenseLoops<T>& loops, const TowerSizes& sizes, int outputs, int boards)
      : loops_(loops),
        sizes_(sizes),
        layer_(loops, sizes.filters, outputs),
        features_(std::size_t((boards * sizes.cells() + kReadBehindRows) * layer_.outputs())) {}

  int of_cell() const { return layer_.outputs(); }
  int of_board() const { return sizes_.cells() * layer_.outputs(); }
  void set(int outputs, const float* weights, const float* bias) { layer_.set(outputs, sizes_.filters, weights, bias); }

  // [boards, cells, of_cell()].
  const T* compute(const T* x, const BoardPlaces& places, int boards) {
    const std::size_t filters = std::size_t(sizes_.filters), outputs = std::size_t(layer_.outputs());
    T* to = features_.data();
    for (int b = 0; b < boards; ++b)
      for (int r = 0; r < sizes_.height; ++r, to += std::size_t(sizes_.width) * outputs)
        loops_.features(layer_.layer(), x + places.row(b, r) * filters, filters, sizes_.width, to, outputs);
    std::fill_n(to, loops_.input_multiple, T());  // not what an earlier network left there, which may be no number
    return features_.data();
  }

 private:
  const DenseLoops<T>& loops_;
  TowerSizes sizes_;
  Dense<T> layer_;
  AlignedArray<T> features_;
};

template <class T>
class PolicyHead {
 public:
  PolicyHead(const DenseLoops<T>& loops, const TowerSizes& sizes, int boards)
      : loops_(loops),
        sizes_(sizes),
        features_(loops, sizes, sizes.policy_filters, boards),
        output_(loops, sizes.is_policy_by_cell ? features_.of_cell() : features_.of_board(),
                sizes.is_policy_by_cell ? sizes.cell_actions() : sizes.actions),
        answers_(std::size_t(output_.outputs() * std::max(boards, sizes.cells()))) {}

  // Features [P, F] and [P]; output [A, P * H * W] and [A], or by cell [K, P] and [K].
  void set(const float* features, const float* features_bias, const float* output, const float* output_bias) {
    const int filters = sizes_.policy_filters;
    features_.set(filters, features, features_bias);
    if (sizes_.is_policy_by_cell)
      output_.set(sizes_.cell_actions(), filters, output, output_bias);
    else
      output_.set_over_cells(sizes_.actions, filters, sizes_.cells(), features_.of_cell(), output, output_bias);
  }

  // Features of the tower -> logits [boards, A].
  void run(const T* x, const BoardPlaces& places, int boards, float* logits) {
    const T* const features = features_.compute(x, places, boards);
    const std::size_t of_board = std::size_t(features_.of_board()), outputs = std::size_t(output_.outputs());
    // One row of features a board, or one a cell.
    const bool by_cell = sizes_.is_policy_by_cell;
    const int groups = by_cell ? boards : 1, rows = by_cell ? sizes_.cells() : boards;
    const int wanted = by_cell ? sizes_.cell_actions() : sizes_.actions;
    for (int group = 0; group < groups; ++group) {
      loops_.multiply(output_.layer(), features + std::size_t(group) * of_board,
                      by_cell ? std::size_t(features_.of_cell()) : of_board, rows, answers_.data(), outputs);
      for (int row = 0; row < rows; ++row, logits += wanted)
        std::copy_n(answers_.data() + std::size_t(row) * outputs, wanted, logits);
    }
  }

 private:
  const DenseLoops<T>& loops_;
  TowerSizes sizes_;
  HeadFeatures<T> features_;
  Dense<T> output_;
  AlignedArray<float> answers_;
};

// One number of a board: the value, or the score.
template <class T>
class NumberHead {
 public:
  NumberHead(const DenseLoops<T>& loops, const TowerSizes& sizes, int boards)
      : loops_(loops),
        sizes_(sizes),
        features_(loops, sizes, sizes.value_filters, boards),
        hidden_(loops, features_.of_board(), sizes.value_hidden),
        output_(std::size_t(hidden_.outputs())),
        answers_(std::size_t(hidden_.outputs() * boards)) {}

  // Features [V, F] and [V]; hidden [N, V * H * W] and [N]; output [N] and [1].
  void set(const float* features, const float* features_bias, const float* hidden, const float* hidden_bias,
           const float* output, const float* output_bias) {
    features_.set(sizes_.value_filters, features, features_bias);
    hidden_.set_over_cells(sizes_.value_hidden, sizes_.value_filters, sizes_.cells(), features_.of_cell(), hidden,
                           hidden_bias);
    std::copy_n(output, sizes_.value_hidden, output_.data());
    bias_ = output_bias[0];
  }

  // Features of the tower -> numbers [boards].
  void run(const T* x, const BoardPlaces& places, int boards, float* numbers) {
    const T* const features = features_.compute(x, places, boards);
    const std::size_t outputs = std::size_t(hidden_.outputs());
    loops_.multiply(hidden_.layer(), features, std::size_t(features_.of_board()), boards, answers_.data(), outputs);
    for (int b = 0; b < boards; ++b) {
      const float* const hidden = answers_.data() + std::size_t(b) * outputs;
      float sum = bias_;
      // ReLU, after which what is no number stays so.
      for (std::size_t i = 0; i < outputs; ++i) sum += (hidden[i] <= 0.f ? 0.f : hidden[i]) * output_[i];
      numbers[b] = sum;
    }
  }

 private:
  const DenseLoops<T>& loops_;
  TowerSizes sizes_;
  HeadFeatures<T> features_;
  Dense<T> hidden_;
  AlignedArray<float> output_;
  float bias_ = 0;
  AlignedArray<float> answers_;
};

// What every tower answers.
template <class T>
class TowerHeads {
 public:
  // For `boards` at once, at most.
  TowerHeads(const DenseLoops<T>& loops, const TowerSizes& sizes, int boards)
      : policy_(loops, sizes, boards), value_(loops, sizes, boards) {}

  PolicyHead<T>& policy() { return policy_; }
  NumberHead<T>& value() { return value_; }

  // Boards of features x -> logits [boards, A] and values [boards].
  void run(const T* x, const BoardPlaces& places, int boards, float* logits, float* values) {
    policy_.run(x, places, boards, logits);
    value_.run(x, places, boards, values);
    for (int b = 0; b < boards; ++b) values[b] = std::tanh(values[b]);
  }

 private:
  PolicyHead<T> policy_;
  NumberHead<T> value_;
};

}  // namespace shusaku
