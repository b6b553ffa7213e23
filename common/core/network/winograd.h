// 3x3 convolutions of floats by Winograd's minimal filtering, and the loops of linear layers beside them.
//
// Tiles of `tile` x `tile` outputs follow from (tile + 2) x (tile + 2) inputs.  Both sides of the convolution are
// transformed, and at each of (tile + 2)^2 points a product over the channels stands for nine of each output: 25
// products instead of 81 for tiles of 3, 36 instead of 144 for tiles of 4.  In floats the error is that of a few
// additions.
// Sources: Winograd 1980, "Arithmetic Complexity of Computations"; Lavin and Gray 2016, "Fast Algorithms for
// Convolutional Neural Networks", section 4; the matrices for tiles of 3 by the points 0, 1, -1, 2 and infinity.
//
// A board lies in memory cell by cell, its channels next to each other, within zeros: one row and column above and to
// the left, and below and to the right as many as whole tiles reach.
//
// As in `norm_loops.h` nothing here may come from a header whose functions another file could share with it; a
// board's own few functions are inlined.
#pragma once

#include <stddef.h>

#include "network/dense_layer.h"
#include "network/kernel_strides.h"

namespace shusaku {

struct WinogradBoard {
  int height, width, tile;  // tile: 3 | 4

  [[gnu::always_inline]] constexpr int tile_rows() const { return (height + tile - 1) / tile; }
  [[gnu::always_inline]] constexpr int tile_columns() const { return (width + tile - 1) / tile; }
  [[gnu::always_inline]] constexpr int tiles() const { return tile_rows() * tile_columns(); }
  [[gnu::always_inline]] constexpr int points() const { return (tile + 2) * (tile + 2); }
  [[gnu::always_inline]] constexpr int pitch() const { return tile_columns() * tile + 2; }
  [[gnu::always_inline]] constexpr int padded() const { return (tile_rows() * tile + 2) * pitch(); }
  [[gnu::always_inline]] constexpr int at(int row, int column) const { return (row + 1) * pitch() + column + 1; }

  // Boards whose tiles share what is read of a layer's weights: with 64 channels the numbers of 36 tiles fill a
  // second-level cache of 512 KiB.
  [[gnu::always_inline]] constexpr int at_once() const { return tiles() < 36 ? 36 / tiles() : 1; }

  // With the tiles that need fewer products; those of 4 must save a tenth, for their transforms are longer.
  [[gnu::always_inline]] static constexpr WinogradBoard of(int height, int width) {
    const WinogradBoard three{height, width, 3}, four{height, width, 4};
    return 10 * four.tiles() * four.points() < 9 * three.tiles() * three.points() ? four : three;
  }
};

// Where outputs go: the first cell of the board, and from one row to the next.
struct WinogradOutput {
  float* first;
  int pitch;  // cells
};

// Inputs, channels and outputs are multiples of the floats in a register, outputs of 16 in any case.
struct WinogradLoops {
  // Kernels -> their numbers at the points, [points] of `inputs` x `outputs` as `Packing` says.  Of the inputs there
  // are `given`; the others' numbers stay as they are.
  void (*transform_kernels)(const WinogradBoard& shape, const float* kernels, KernelStrides strides, int given,
                            int inputs, int outputs, float* packed);

  // A board [padded, channels] -> the tiles' numbers at the points: [points][tiles, channels], one point `stride`
  // numbers behind the other.
  void (*transform_inputs)(const WinogradBoard& shape, const float* board, int channels, float* numbers, size_t stride);

  // The products over the inputs, at each point, of so many rows of numbers with the packed kernels: [points][rows,
  // outputs], one point `sums_stride` numbers behind the other.
  void (*multiply)(const WinogradBoard& shape, const float* packed, int inputs, int outputs, const float* numbers,
                   size_t stride, int rows, float* sums, size_t sums_stride);

  // Sums at the points, as above -> the outputs on the board's cells; with a bias [channels] ReLU(outputs + bias +
  // skip), `skip`, which may be the written board and may be null, lying as that does.
  void (*transform_outputs)(const WinogradBoard& shape, const float* sums, size_t stride, int channels,
                            const float* bias, const float* skip, WinogradOutput out);

  // The gradients of outputs, a board as that of inputs, -> those of the sums at the points.
  void (*transform_output_gradients)(const WinogradBoard& shape, const float* board, int channels, float* numbers,
                                     size_t stride);

  // Adds the products of each input and each output over `rows`: [inputs, outputs] of x [rows, inputs], y [rows,
  // outputs].
  void (*add_outer_products)(const float* x, const float* y, int rows, int inputs, int outputs, float* sums);

  // Gradients of the kernels' numbers at the points, [points, inputs, outputs], -> those of the kernels.
  void (*transform_kernel_gradients)(const WinogradBoard& shape, const float* sums, int inputs, int outputs,
                                     float* kernels, KernelStrides strides);
};

// With eight floats in a register.
extern const WinogradLoops kWinograd;
// With sixteen, for AVX-512; null where it was compiled for other processors.
extern const WinogradLoops* const kWinograd512;

// Linear layers of floats; a layer's bias may be null.
extern const DenseLoops<float> kFloatDense;

}  // namespace shusaku
