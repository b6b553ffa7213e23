// Where the numbers of a kernel [outputs, inputs, 3, 3] lie.
#pragma once

#include <stddef.h>

namespace shusaku {

// From one output, input and tap to the next.
struct KernelStrides {
  ptrdiff_t output, input, tap;
};

}  // namespace shusaku
