// Where the kernels [outputs, inputs, 3, 3] of a layer lie.
#pragma once

#include <stddef.h>

namespace shusaku {

// From one output, input and tap to the next.
struct KernelStrides {
  ptrdiff_t output, input, tap;
};

struct ConstKernels {
  const float* first;
  KernelStrides strides;

  // Inputs and outputs change places, and the taps run backwards: by these the gradient of the inputs is a convolution.
  [[gnu::always_inline]] constexpr ConstKernels turned() const {
    return {first + 8 * strides.tap, {strides.input, strides.output, -strides.tap}};
  }
};

}  // namespace shusaku
