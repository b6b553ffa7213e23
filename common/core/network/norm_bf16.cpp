// The loops of `norm_loops.h` in bf16; compiled with AVX-512 BF16 on x86-64, whatever the rest is compiled for.
#include "network/norm_loops.h"

#if defined(__AVX512BF16__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 says both of its own intrinsics
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

namespace shusaku {
namespace {

struct Floats16 {
  static __m512 load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(__m512 v, float* p) { _mm512_storeu_ps(p, v); }
  static __m512 relu(__m512 v) { return _mm512_max_ps(_mm512_setzero_ps(), v); }  // what is no number stays so
};

struct Bf16Numbers {
  using T = unsigned short;
  using V = __m512;
  using Floats = Floats16;
  static constexpr int kLanes = 16;
  static V zero() { return _mm512_setzero_ps(); }
  static __m256i bits(const T* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static V load(const T* p) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits(p)), 16)); }
  // The numbers at `p` where those at `y` are above 0, or no numbers; else 0.
  static V load_positive(const T* y, const T* p) {
    const __m512i number = _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits(p)), 16);
    const __mmask16 is_positive = _mm256_test_epi16_mask(bits(y), _mm256_set1_epi16(0x7FFF));  // y is none below 0
    return _mm512_castsi512_ps(_mm512_maskz_mov_epi32(is_positive, number));
  }
  static void store(V v, T* p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
  }
};

}  // namespace

const NormLoops* const kNormBf16 = &NormLoopsOf<Bf16Numbers>::kAll;

}  // namespace shusaku

#else

namespace shusaku {
const NormLoops* const kNormBf16 = nullptr;
}  // namespace shusaku

#endif
