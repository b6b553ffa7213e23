// The loops of a small residual tower in 8 bits on a CPU, with a first layer and heads in bf16.  As in `norm_loops.h`
// nothing here may come from a header whose functions another file could share with it.
//
// A board lies in memory cell by cell, its channels next to each other, with a cell of zeros before each row and rows
// of zeros above and below.  So the right edge of a row is the left edge of the next one, and a 3x3 convolution reads
// its nine neighbours without asking where the board ends.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "network/dense_layer.h"

namespace shusaku {

struct BoardShape {
  int height, width;

  [[gnu::always_inline]] constexpr int cells() const { return height * width; }
  [[gnu::always_inline]] constexpr int padded() const { return (height + 2) * (width + 1) + 1; }
  [[gnu::always_inline]] constexpr int at(int row, int column) const { return (row + 1) * (width + 1) + column + 1; }
};

// A 3x3 convolution of 8-bit numbers, and what becomes of its sums: slope * sum + shift, [filters] each.
struct Int8Layer {
  const int8_t* weights;  // 64-byte aligned; where Int8Loops say
  const float *slope, *shift;
  float steps;  // of what is added to the skip, a unit; 0: the first layer of a block, whose slope and shift have it
};

// A 3x3 convolution of bf16, from padded boards of planes.
struct PlanesLayer {
  const uint16_t* weights;  // as Packing says, each row of a kernel as long as Int8Loops say
  const float* bias;
  int planes;   // even
  float steps;  // of its output, a unit
};

// Behind the last board there may be read, and not used, the numbers of as many cells: 14 of the last row's block, and
// with two planes up to 16 that a product of 32 numbers takes more.
constexpr int kReadBehind = 32;

struct Int8Loops {
  size_t numbers;  // of a layer's weights in memory
  size_t (*place)(int tap, int input, int output);
  int (*kernel_row)(int planes);  // numbers of a row of the first layer's kernels, zeros among them
  // The thread that calls the others does so between these two.
  void (*configure)();
  void (*release)();
  // `in` and `out` are so many 8-bit boards, `x` is the skip, boards of floats: out = steps * ReLU(layer(in)), or, in
  // the second layer of a block, x = ReLU(layer(in) + x) and out = steps * x; rounded to the nearest, 255 at most.
  void (*convolve)(const Int8Layer& layer, BoardShape shape, int boards, const uint8_t* in, float* x, uint8_t* out);
  // Of one board: x = ReLU(layer(in)), out = steps * x as above.
  void (*first_layer)(const PlanesLayer& layer, BoardShape shape, const uint16_t* in, float* x, uint8_t* out);
  // To bf16, a multiple of 16 numbers.
  void (*round)(const float* x, size_t numbers, uint16_t* y);
  DenseLoops<uint16_t> heads;  // of bf16
};

// For towers of so many filters; null if there are none, or the file was compiled for other processors.  They need
// AVX-512 with VNNI and BF16, the second ones AMX with 8 bits and BF16, too.
const Int8Loops* int8_vnni(int filters);
const Int8Loops* int8_amx(int filters);

}  // namespace shusaku
