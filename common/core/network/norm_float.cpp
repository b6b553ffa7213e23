// The loops of `norm_loops.h` in float.
#include "network/norm_loops.h"

namespace shusaku {
namespace {

using F8 = float __attribute__((vector_size(32)));

struct Floats8 {
  using T = float;
  using V = F8;
  using Floats = Floats8;
  static constexpr int kLanes = 8;
  static V zero() { return V{}; }
  static V load(const float* p) {
    V v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(V v, float* p) { __builtin_memcpy(p, &v, sizeof v); }
  static V relu(V v) { return v <= 0.f ? V{} : v; }  // what is no number stays so
  static V load_positive(const float* y, const float* p) { return load(y) <= 0.f ? V{} : load(p); }
};

}  // namespace

const NormLoops* const kNormFloat = &NormLoopsOf<Floats8>::kAll;

}  // namespace shusaku
