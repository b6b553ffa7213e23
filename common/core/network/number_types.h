// Floats and bf16 in memory, for loops that compute in floats.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace shusaku {

inline void read_numbers(const float* from, std::size_t count, float* to) { std::copy_n(from, count, to); }
inline void read_numbers(const std::uint16_t* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(std::uint32_t(from[i]) << 16);
}

inline void write_numbers(const float* from, std::size_t count, float* to) { std::copy_n(from, count, to); }
// bf16: to the nearest, ties to even; what is no number stays so.
inline void write_numbers(const float* from, std::size_t count, std::uint16_t* to) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    to[i] = std::uint16_t((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : rounded);
  }
}

inline void add_numbers(const float* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}
inline void add_numbers(const std::uint16_t* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] += std::bit_cast<float>(std::uint32_t(from[i]) << 16);
}

}  // namespace shusaku
