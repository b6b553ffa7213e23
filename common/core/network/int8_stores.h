// How the loops of a tower in 8 bits round and store: for files that are compiled for AVX-512 with BF16 alone.  All is
// inlined, so that nothing of it is shared with others.
#pragma once

#include <immintrin.h>
#include <stdint.h>

namespace shusaku {

[[gnu::always_inline]] inline __m512 relu(__m512 x) { return _mm512_max_ps(_mm512_setzero_ps(), x); }
// None is below 0; what is no number becomes 255.
[[gnu::always_inline]] inline void store_steps(__m512 steps, uint8_t* out) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(steps)));
}
[[gnu::always_inline]] inline void store_bf16(__m512 x, uint16_t* out) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
}

}  // namespace shusaku
