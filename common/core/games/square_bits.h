// A set of cells of a square board of up to 8 x 8, as the bits of a word: bit 8 * row + column, row 0 at the top.
#pragma once

#include <bit>
#include <cstdint>
#if defined(__BMI2__)
#include <immintrin.h>
#endif

namespace shusaku {

// The bit of `set` that has `index` bits below it; index < popcount(set).
inline std::uint64_t nth_bit(std::uint64_t set, unsigned index) {
#if defined(__BMI2__)
  return _pdep_u64(1ull << index, set);
#else
  while (index--) set &= set - 1;
  return set & -set;
#endif
}

// Row and column change places.
constexpr std::uint64_t transpose(std::uint64_t x) {
  std::uint64_t t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAull;  // cells, then squares of four, then of sixteen
  x ^= t ^ (t << 7);
  t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCull;
  x ^= t ^ (t << 14);
  t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0ull;
  return x ^ t ^ (t << 28);
}

// The cells of the first kColumns columns of kRows rows, one behind the other.
template <int kRows, int kColumns>
std::uint64_t without_gaps(std::uint64_t x) {
  if constexpr (kColumns == 8) return x;
  constexpr std::uint64_t kRow = (1u << kColumns) - 1;
#if defined(__BMI2__)
  return _pext_u64(x, kRow * (0x0101010101010101ull >> (64 - 8 * kRows)));
#else
  std::uint64_t cells = 0;
  for (int row = 0; row < kRows; ++row) cells |= (x >> (8 * row) & kRow) << (kColumns * row);
  return cells;
#endif
}

// Cell (row, column) goes to (row, 7 - column).
constexpr std::uint64_t mirror_rows(std::uint64_t x) {
  x = (x >> 1 & 0x5555555555555555ull) | (x & 0x5555555555555555ull) << 1;
  x = (x >> 2 & 0x3333333333333333ull) | (x & 0x3333333333333333ull) << 2;
  return (x >> 4 & 0x0F0F0F0F0F0F0F0Full) | (x & 0x0F0F0F0F0F0F0F0Full) << 4;
}

// Cell (row, column) goes to (7 - row, 7 - column).
constexpr std::uint64_t turn_half(std::uint64_t x) { return __builtin_bswap64(mirror_rows(x)); }

}  // namespace shusaku
