// Binary planes as bits: eight of them out of bytes that hold one bit of each, and their writer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace shusaku {

// Bit k of byte i becomes bit i of plane k.
template <int W>
std::array<std::array<std::uint64_t, W>, 8> to_planes(const std::uint8_t* bytes) {
  std::array<std::array<std::uint64_t, W>, 8> planes;
  for (int word = 0; word < W; ++word) {
#if defined(__AVX2__)
    const auto* at = reinterpret_cast<const __m256i*>(bytes + 64 * word);
    __m256i low = _mm256_load_si256(at), high = _mm256_load_si256(at + 1);
    for (int k = 7; k >= 0; --k) {
      planes[size_t(k)][size_t(word)] =
          unsigned(_mm256_movemask_epi8(low)) | std::uint64_t(unsigned(_mm256_movemask_epi8(high))) << 32;
      low = _mm256_add_epi8(low, low), high = _mm256_add_epi8(high, high);  // the highest bit of every byte is next
    }
#else
    for (int k = 0; k < 8; ++k) {
      std::uint64_t plane = 0;
      for (int i = 0; i < 64; ++i) plane |= std::uint64_t(bytes[64 * word + i] >> k & 1) << i;
      planes[size_t(k)][size_t(word)] = plane;
    }
#endif
  }
  return planes;
}

// Lays planes of bits one behind the other.
class PlaneWriter {
 public:
  explicit PlaneWriter(std::uint8_t* out) : out_(out) {}

  // The next `count` bits, the lowest of the first word first; bits above them are 0.
  [[gnu::always_inline]] void add(const std::uint64_t* words, int count) {
    for (; count >= 64; count -= 64, ++words) {
      store(held_bits_ | *words << held_);
      held_bits_ = (*words >> 1) >> (63 - held_);
    }
    if (count == 0) return;
    held_bits_ |= *words << held_;
    if (held_ + count >= 64) {
      store(held_bits_);
      held_bits_ = (*words >> 1) >> (63 - held_);
      held_ -= 64;
    }
    held_ += count;
  }
  template <class Planes>
  [[gnu::always_inline]] void add_all(const Planes& planes, int count) {
#pragma GCC unroll 8
    for (size_t k = 0; k < 8; ++k) add(planes[k].data(), count);
  }
  void finish() { std::memcpy(out_, &held_bits_, size_t((held_ + 7) / 8)); }

 private:
  void store(std::uint64_t word) {
    std::memcpy(out_, &word, 8);
    out_ += 8;
  }

  std::uint8_t* out_;
  std::uint64_t held_bits_ = 0;  // not yet stored
  int held_ = 0;                 // their number, below 64
};

}  // namespace shusaku
