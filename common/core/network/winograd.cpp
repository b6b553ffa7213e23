// The loops of `winograd.h` with eight floats in a register, and those of linear layers.
#include "network/winograd_loops.h"

namespace shusaku {
namespace {

using F8 = float __attribute__((vector_size(32)));

}  // namespace

constinit const WinogradLoops kWinograd = WinogradLoopsOf<F8>::kAll;
constinit const DenseLoops<float> kFloatDense{1, dense<F8, true>, dense<F8, false>};

}  // namespace shusaku
