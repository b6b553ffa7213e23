// Eight floats at once, for the loops over the edges of a node.  AVX2 if the compiler targets it, else plain
// loops that compilers vectorise.  No fused multiply-add anywhere (-ffp-contract=off): a search gives the same tree
// on every machine, and the same as the slow reference under tests/.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#if defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>
#define SHUSAKU_AVX2 1
#endif

namespace shusaku {

constexpr int kLanes = 8;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline std::uint16_t to_half(float x) {
#if defined(SHUSAKU_AVX2)
  return std::uint16_t(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(x));
#endif
}

inline float from_half(std::uint16_t x) {
#if defined(SHUSAKU_AVX2)
  return _cvtsh_ss(x);
#else
  return float(std::bit_cast<_Float16>(x));
#endif
}

#if defined(SHUSAKU_AVX2)

struct F8 {
  __m256 v;
  F8() = default;
  F8(__m256 x) : v(x) {}
  explicit F8(float x) : v(_mm256_set1_ps(x)) {}
  static F8 load(const float* p) { return _mm256_loadu_ps(p); }
  // The first `count` of eight, 0 in the other lanes, which are not read.
  static F8 load_first(const float* p, int count) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes));
  }
  static F8 load_half(const std::uint16_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static F8 load_int(const std::int32_t* p) {
    return _mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F8 lane_numbers() { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  void store_half(std::uint16_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};
inline F8 operator+(F8 a, F8 b) { return _mm256_add_ps(a.v, b.v); }
inline F8 operator-(F8 a, F8 b) { return _mm256_sub_ps(a.v, b.v); }
inline F8 operator*(F8 a, F8 b) { return _mm256_mul_ps(a.v, b.v); }
inline F8 operator/(F8 a, F8 b) { return _mm256_div_ps(a.v, b.v); }
inline F8 max(F8 a, F8 b) { return _mm256_max_ps(a.v, b.v); }
inline F8 min(F8 a, F8 b) { return _mm256_min_ps(a.v, b.v); }
inline F8 sqrt(F8 a) { return _mm256_sqrt_ps(a.v); }
inline F8 round(F8 a) { return _mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline F8 less(F8 a, F8 b) { return _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ); }
inline F8 equal(F8 a, F8 b) { return _mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ); }
inline F8 choose(F8 mask, F8 yes, F8 no) { return _mm256_blendv_ps(no.v, yes.v, mask.v); }
inline unsigned bits(F8 mask) { return unsigned(_mm256_movemask_ps(mask.v)); }
inline bool all_zero(const std::int32_t* p) {
  const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm256_testz_si256(v, v);
}
inline F8 scale_by_power_of_two(F8 a, F8 exponent) {
  const __m256i e = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(exponent.v), _mm256_set1_epi32(127)), 23);
  return _mm256_mul_ps(a.v, _mm256_castsi256_ps(e));
}
inline float horizontal_max(F8 a) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}
// Sums lanes as ((0+4)+(2+6)) + ((1+5)+(3+7)).
inline float horizontal_sum(F8 a) {
  __m128 m = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  m = _mm_add_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_add_ss(m, _mm_shuffle_ps(m, m, 1)));
}

#else

struct F8 {
  typedef float Lanes __attribute__((vector_size(32)));
  Lanes v;
  F8() = default;
  F8(Lanes x) : v(x) {}
  explicit F8(float x) : v{x, x, x, x, x, x, x, x} {}
  template <class F>
  static F8 of(F f) {
    F8 r;
    for (int i = 0; i < 8; ++i) r.v[i] = f(i);
    return r;
  }
  static F8 load(const float* p) {
    return of([&](int i) { return p[i]; });
  }
  static F8 load_first(const float* p, int count) {
    return of([&](int i) { return i < count ? p[i] : 0.f; });
  }
  static F8 load_half(const std::uint16_t* p) {
    return of([&](int i) { return from_half(p[i]); });
  }
  static F8 load_int(const std::int32_t* p) {
    return of([&](int i) { return float(p[i]); });
  }
  static F8 lane_numbers() {
    return of([](int i) { return float(i); });
  }
  void store(float* p) const { std::memcpy(p, &v, sizeof v); }
  void store_half(std::uint16_t* p) const {
    for (int i = 0; i < 8; ++i) p[i] = to_half(v[i]);
  }
};
inline F8 operator+(F8 a, F8 b) { return a.v + b.v; }
inline F8 operator-(F8 a, F8 b) { return a.v - b.v; }
inline F8 operator*(F8 a, F8 b) { return a.v * b.v; }
inline F8 operator/(F8 a, F8 b) { return a.v / b.v; }
inline F8 max(F8 a, F8 b) { return a.v > b.v ? a.v : b.v; }
inline F8 min(F8 a, F8 b) { return a.v < b.v ? a.v : b.v; }
inline F8 sqrt(F8 a) {
  return F8::of([&](int i) { return std::sqrt(a.v[i]); });
}
inline F8 round(F8 a) {
  return F8::of([&](int i) { return std::nearbyint(a.v[i]); });
}
// A mask is 1 in the lanes where it holds and 0 elsewhere.
inline F8 less(F8 a, F8 b) { return a.v < b.v ? F8(1.f).v : F8(0.f).v; }
inline F8 equal(F8 a, F8 b) { return a.v == b.v ? F8(1.f).v : F8(0.f).v; }
inline F8 choose(F8 mask, F8 yes, F8 no) { return mask.v != F8(0.f).v ? yes.v : no.v; }
inline unsigned bits(F8 mask) {
  unsigned r = 0;
  for (int i = 0; i < 8; ++i) r |= unsigned(mask.v[i] != 0) << i;
  return r;
}
inline bool all_zero(const std::int32_t* p) {
  std::int32_t any = 0;
  for (int i = 0; i < 8; ++i) any |= p[i];
  return any == 0;
}
inline F8 scale_by_power_of_two(F8 a, F8 exponent) {
  return F8::of([&](int i) { return a.v[i] * std::bit_cast<float>((std::int32_t(exponent.v[i]) + 127) << 23); });
}
inline float horizontal_max(F8 a) {
  float m = a.v[0];
  for (int i = 1; i < 8; ++i) m = a.v[i] > m ? a.v[i] : m;
  return m;
}
inline float horizontal_sum(F8 a) {
  return ((a.v[0] + a.v[4]) + (a.v[2] + a.v[6])) + ((a.v[1] + a.v[5]) + (a.v[3] + a.v[7]));
}

#endif

inline bool all_finite(F8 x) { return bits(less(x * F8(0.f), F8(1.f))) == 0xFF; }  // 0 * infinity is no number

// exp(x) for x <= 0, relative error below 2e-7 (the polynomial is Cephes' expf); x below -87 gives about 1e-38.
inline F8 exp_of_nonpositive(F8 x) {
  x = max(x, F8(-87.f));
  const F8 n = round(x * F8(1.44269504088896341f));
  const F8 r = (x - n * F8(0.693359375f)) - n * F8(-2.12194440e-4f);
  F8 p = F8(1.9875691500e-4f);
  p = p * r + F8(1.3981999507e-3f);
  p = p * r + F8(8.3334519073e-3f);
  p = p * r + F8(4.1665795894e-2f);
  p = p * r + F8(1.6666665459e-1f);
  p = p * r + F8(5.0000001201e-1f);
  p = (p * (r * r) + r) + F8(1.f);
  return scale_by_power_of_two(p, n);
}

// Which of the eight lanes from `first` on lie below `count`.
inline F8 lanes_below(int first, int count) { return less(F8::lane_numbers() + F8(float(first)), F8(float(count))); }

// The index of the highest of `count` scores, which `score(first)` gives eight at a time; the lowest index wins a tie.
// Always inline: a call would pass the constants of `score` through memory, 18 % of connect four's search.
template <class Score>
[[gnu::always_inline]] inline int arg_max(int count, Score score) {
  const F8 nothing(-kInfinity);
  F8 best = nothing, firsts(0.f);  // of each lane; indices are exact in floats
  int first = 0;
  for (; first + kLanes < count; first += kLanes) {
    const F8 scores = score(first);
    const F8 is_higher = less(best, scores);
    best = choose(is_higher, scores, best);
    firsts = choose(is_higher, F8(float(first)), firsts);
  }
  const F8 scores = choose(lanes_below(first, count), score(first), nothing);
  if (first == 0) return std::countr_zero(bits(equal(scores, F8(horizontal_max(scores)))));
  const F8 is_higher = less(best, scores);
  best = choose(is_higher, scores, best);
  firsts = choose(is_higher, F8(float(first)), firsts);
  const F8 index = firsts + F8::lane_numbers();
  return int(-horizontal_max(choose(equal(best, F8(horizontal_max(best))), F8(0.f) - index, nothing)));
}

}  // namespace shusaku
