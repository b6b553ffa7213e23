// Floats and bf16 in memory, for loops that compute in floats.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "games/bf16.h"

namespace shusaku {

inline void read_numbers(const float* from, std::size_t count, float* to) { std::copy_n(from, count, to); }
inline void read_numbers(const std::uint16_t* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = float_of(from[i]);
}

inline void write_numbers(const float* from, std::size_t count, float* to) { std::copy_n(from, count, to); }
inline void write_numbers(const float* from, std::size_t count, std::uint16_t* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = bf16_of(from[i]);
}

inline void add_numbers(const float* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}
inline void add_numbers(const std::uint16_t* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] += float_of(from[i]);
}

}  // namespace shusaku
