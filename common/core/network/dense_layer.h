// A linear layer as the loops read it.  As in `norm_loops.h` nothing here may come from a header whose functions
// another file could share with it; the only function is inlined.
#pragma once

#include <stddef.h>

namespace shusaku {

// How weights of a type lie in memory: `kInputsAWord` inputs (four of 8 bits, two of bf16, one float) of `kWide`
// outputs stand together, as the processor multiplies them; the outputs behind the last whole block stand in one of 16.
template <class T>
struct Packing {
  static constexpr int kInputsAWord = 4 / int(sizeof(T)), kWide = sizeof(T) == 4 ? 16 : 32;

  [[gnu::always_inline]] static constexpr size_t place(int inputs, int outputs, int input, int output) {
    const int block = output / kWide * kWide, wide = outputs - block < kWide ? 16 : kWide;
    return size_t(block) * size_t(inputs) + size_t(input / kInputsAWord) * size_t(wide * kInputsAWord) +
           size_t((output - block) * kInputsAWord + input % kInputsAWord);
  }
};

// From `inputs`, a multiple of what the loops take, to a multiple of 16 outputs.
template <class T>
struct DenseLayer {
  const T* weights;  // 64-byte aligned
  const float* bias;
  int inputs, outputs;
};

template <class T>
struct DenseLoops {
  // Of which inputs are a multiple; it is one of kInputsAWord.  What is read behind the inputs of a row, or up to 15
  // rows behind the last, is multiplied by zeros, or not used; it must be memory, and finite.
  int input_multiple;
  // ReLU(layer(x)) of rows of x.
  void (*features)(const DenseLayer<T>& layer, const T* x, size_t x_stride, int rows, T* y, size_t y_stride);
  // layer(x) of rows of x.
  void (*multiply)(const DenseLayer<T>& layer, const T* x, size_t x_stride, int rows, float* y, size_t y_stride);
};

}  // namespace shusaku
