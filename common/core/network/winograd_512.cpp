// The loops of `winograd.h` with sixteen floats in a register; compiled with AVX-512 on x86-64, whatever the rest is
// compiled for.
#include "network/winograd_loops.h"

namespace shusaku {

#if defined(__AVX512F__)
namespace {
using F16 = float __attribute__((vector_size(64)));
}  // namespace

constinit const WinogradLoops* const kWinograd512 = &WinogradLoopsOf<F16>::kAll;
#else
constinit const WinogradLoops* const kWinograd512 = nullptr;
#endif

}  // namespace shusaku
