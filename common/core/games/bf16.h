// Floats as bf16, which has the upper half of their bits, and back.
#pragma once

#include <bit>
#include <cstdint>

namespace shusaku {

inline float float_of(std::uint16_t bf16) { return std::bit_cast<float>(std::uint32_t(bf16) << 16); }

// To the nearest, ties to even; what is no number stays so.
inline std::uint16_t bf16_of(float number) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(number);
  const std::uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return std::uint16_t((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : rounded);
}

}  // namespace shusaku
