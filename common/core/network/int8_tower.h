// A small residual tower with its policy and value heads, whose 3x3 convolutions are of 8-bit numbers: what
// `learner/quantisation.py` describes, from planes to logits and values, in one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "games/expand_planes.h"
#include "network/aligned_array.h"
#include "network/int8_loops.h"
#include "network/tower_heads.h"

namespace shusaku {

class Int8Tower {
 public:
  Int8Tower(const Int8Loops& loops, const TowerSizes& sizes)
      : loops_(loops),
        sizes_(sizes),
        shape_{sizes.height, sizes.width},
        planes_((sizes.planes + 1) / 2 * 2),
        kernel_row_(loops.kernel_row(planes_)),
        stem_(std::size_t(3 * kernel_row_ * sizes.filters)),
        stem_bias_(std::size_t(sizes.filters)),
        heads_(loops.heads, sizes, int(kBoards)),
        at_once_(std::clamp(kCache / (6 * board()), std::size_t(1), kBoards)),
        inputs_(std::size_t((shape_.padded() + kReadBehind) * planes_)),
        x_(at_once_ * board()),
        own_(at_once_ * board() + std::size_t(kReadBehind * sizes.filters)),
        other_(at_once_ * board() + std::size_t(kReadBehind * sizes.filters)),
        rounded_(kBoards * board() + std::size_t(kReadBehind * sizes.filters)) {
    for (int layer = 0; layer < 2 * sizes.blocks; ++layer) layers_.emplace_back(sizes.filters, loops.numbers);
  }

  const TowerSizes& sizes() const { return sizes_; }

  // `weights` [F, C, 3, 3], `bias` [F]; `steps` a unit of its output, for the next layer.
  void set_stem(const float* weights, const float* bias, float steps) {
    std::copy_n(bias, sizes_.filters, stem_bias_.data());
    for (int f = 0; f < sizes_.filters; ++f)
      for (int c = 0; c < sizes_.planes; ++c)
        for (int tap = 0; tap < 9; ++tap)
          set_number(weights[(f * sizes_.planes + c) * 9 + tap],
                     stem_[Packing<std::uint16_t>::place(3 * kernel_row_, sizes_.filters,
                                                         tap / 3 * kernel_row_ + tap % 3 * planes_ + c, f)]);
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
        for (int tap = 0; tap < 9; ++tap) own.weights[loops_.place(tap, i, o)] = weights[(o * n + i) * 9 + tap];
  }

  TowerHeads<std::uint16_t>& heads() { return heads_; }

  // Planes [rows, H, W, C] of bf16 -> logits [rows, A] and values [rows].
  void run(const std::uint16_t* planes, std::size_t rows, float* logits, float* values) {
    for (std::size_t row = 0; row < rows; row += kBoards)
      run_group(planes + row * std::size_t(sizes_.cells() * sizes_.planes), int(std::min(kBoards, rows - row)),
                logits + row * std::size_t(sizes_.actions), values + row);
  }

 private:
  // Whose heads are computed at once: what is read of their weights is shared.
  static constexpr std::size_t kBoards = 16;
  // Bytes of a second-level cache for the boards that share what is read of a layer's weights.  A number of the tower
  // takes six: four in the skip, and one in each of the two inputs.
  static constexpr std::size_t kCache = 768 << 10;

  struct Layer {
    Layer(int n, std::size_t numbers) : weights(numbers), slope(std::size_t(n)), shift(std::size_t(n)) {}
    AlignedArray<std::int8_t> weights;
    AlignedArray<float> slope, shift;
    float steps = 0;
  };

  std::size_t board() const { return std::size_t(shape_.padded() * sizes_.filters); }

  void run_group(const std::uint16_t* planes, int boards, float* logits, float* values) {
    loops_.configure();
    for (int first = 0; first < boards; first += int(at_once_))
      run_tower(planes + std::size_t(first * sizes_.cells() * sizes_.planes), std::min(int(at_once_), boards - first),
                rounded_.data() + std::size_t(first) * board());
    const BoardPlaces places{std::size_t(shape_.padded()), std::size_t(shape_.at(0, 0)), std::size_t(shape_.width + 1)};
    heads_.run(rounded_.data(), places, boards, logits, values);
    loops_.release();
  }

  // Of at most `at_once_` boards: what the heads read.
  void run_tower(const std::uint16_t* planes, int boards, std::uint16_t* rounded) {
    const PlanesLayer stem{stem_.data(), stem_bias_.data(), planes_, stem_steps_};
    for (int b = 0; b < boards; ++b) {
      lay_out(planes + std::size_t(b) * std::size_t(sizes_.cells() * sizes_.planes));
      loops_.first_layer(stem, shape_, inputs_.data(), x(b), own(b));
    }
    for (std::size_t number = 0; number < layers_.size(); ++number) {
      const Layer& layer = layers_[number];
      const Int8Layer given{layer.weights.data(), layer.slope.data(), layer.shift.data(), layer.steps};
      const bool is_first = number % 2 == 0;
      loops_.convolve(given, shape_, boards, is_first ? own(0) : other(0), x(0), is_first ? other(0) : own(0));
    }
    loops_.round(x_.data(), std::size_t(boards) * board(), rounded);
  }

  // Planes [H, W, C] into the board of inputs.
  void lay_out(const std::uint16_t* planes) {
    for (int row = 0; row < shape_.height; ++row)
      for (int column = 0; column < shape_.width; ++column, planes += sizes_.planes)
        std::copy_n(planes, sizes_.planes, inputs_.data() + shape_.at(row, column) * planes_);
  }

  float* x(int b) { return x_.data() + std::size_t(b) * board(); }
  std::uint8_t* own(int b) { return own_.data() + std::size_t(b) * board(); }
  std::uint8_t* other(int b) { return other_.data() + std::size_t(b) * board(); }

  const Int8Loops& loops_;
  TowerSizes sizes_;
  BoardShape shape_;
  int planes_;  // of the inputs, even
  int kernel_row_;
  AlignedArray<std::uint16_t> stem_;
  AlignedArray<float> stem_bias_;
  float stem_steps_ = 0;
  std::vector<Layer> layers_;
  TowerHeads<std::uint16_t> heads_;
  std::size_t at_once_;
  // Of a group of boards, but for the inputs; zeros around each board of inputs, of `own` and of `other` stay.
  AlignedArray<std::uint16_t> inputs_;
  AlignedArray<float> x_;                   // the skips
  AlignedArray<std::uint8_t> own_, other_;  // inputs of first and second layers
  AlignedArray<std::uint16_t> rounded_;
};

}  // namespace shusaku
