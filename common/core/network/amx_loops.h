// The loops of a 3x3 convolution of bf16, and of its derivatives, by the matrix unit of Intel's processors (AMX): it
// adds the product of 16 x 32 and 32 x 16 numbers to 16 x 16 floats in sixteen cycles.
// Source: Intel, "Intel 64 and IA-32 Architectures Optimization Reference Manual", chapter on AMX.
//
// Boards lie one behind the other in memory, cell by cell, the channels of a cell next to each other.  To the right of
// each row and below each board is a zero, which is at the same time the one to the left of the next row and above the
// next board.  So a tap of the kernel is a distance in memory, the same from every cell; and the three taps of a row
// follow one another, as 3 x channels numbers.  Products take 32 numbers at once: up to 16 of the next cell are
// multiplied by zeros, so that what is no number there becomes so here, on the board before, too.
//
// A matrix is 1,024 bytes: sixteen rows of 32 numbers.  On the right side of a product pairs of rows are interleaved:
// [16 pairs][16 columns][2].
//
// As in `norm_loops.h` nothing here may come from a header whose functions another file could share with it; the
// board's own few functions are inlined.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "network/kernel_strides.h"

namespace shusaku {

constexpr int kMatrixNumbers = 512;  // of bf16
constexpr int kSumNumbers = 256;     // of float

struct AmxBoard {
  int height, width;

  [[gnu::always_inline]] constexpr int pitch() const { return width + 1; }
  // Of a board and its zeros.
  [[gnu::always_inline]] constexpr int positions() const { return (height + 1) * pitch(); }
  // Of 16 positions of a board.
  [[gnu::always_inline]] constexpr int row_blocks() const { return (height * pitch() + 15) / 16; }
  // Zeros before the first board, and what is read, not used, after the last.
  [[gnu::always_inline]] constexpr int lead() const { return (pitch() + 1 + 31) / 32 * 32; }
  [[gnu::always_inline]] constexpr int tail() const { return pitch() + 1 + 32; }
  // In a first-level cache.
  [[gnu::always_inline]] constexpr int boards_at_once() const { return positions() < 448 ? 448 / positions() : 1; }
};

// Matrices that the taps of one row of a kernel fill; the last is filled up with zeros.
[[gnu::always_inline]] constexpr int row_matrices(int inputs) { return (3 * inputs + 31) / 32; }

// Inputs, channels and outputs are multiples of 16.
struct AmxLoops {
  // The thread that calls the others does so between these two.
  void (*configure)();
  void (*release)();

  // Kernels -> [outputs / 32][3][row_matrices][2 or, last, what is left of 2] matrices of [taps x inputs] x 16 outputs.
  void (*pack_kernels)(const float* kernels, KernelStrides strides, int inputs, int outputs, uint16_t* packed);

  // The convolution at so many boards, of which `first` is the first cell: y [boards, cells, outputs], or, if `adds`,
  // what is to be added to y.  `cells` says for each of the positions which cell it is, [16 x row_blocks()], -1 for a
  // zero.
  void (*convolve)(const AmxBoard& shape, const uint16_t* first, int boards, const uint16_t* packed, int inputs,
                   int outputs, const int* cells, bool adds, uint16_t* y);

  // [2 pairs, channels] -> pairs of positions, [channels / 16][pairs][16][2].
  void (*interleave)(const uint16_t* numbers, int channels, int pairs, uint16_t* interleaved);

  // [32 matrices, channels] -> positions of a channel next to each other, [channels / 16][matrices][16][32].
  void (*transpose)(const uint16_t* numbers, int channels, int matrices, uint16_t* transposed);

  // Adds the products of each output's gradient and each input, at each tap, over 32 x `matrices` positions:
  // [9][outputs / 16][inputs / 16] of 16 x 16.  `even` and `odd` are the inputs' pairs from the first zero before the
  // boards on and from the one behind it, `pairs` of each channel.
  void (*add_products)(const AmxBoard& shape, const uint16_t* transposed, int matrices, const uint16_t* even,
                       const uint16_t* odd, int pairs, int inputs, int outputs, float* sums);
};

// Null where it was not compiled.
extern const AmxLoops* const kAmx;

}  // namespace shusaku
