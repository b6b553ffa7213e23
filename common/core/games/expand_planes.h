// Packed positions as the planes of numbers that a network takes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "games/bf16.h"
#include "games/game.h"

namespace shusaku {

// To `out` [C, H, W]: cell i of a plane goes to cells[i], or stays where it is.
inline void expand_planes(const Shape& shape, const std::uint8_t* packed, const float* uniform, const int* cells,
                          float* out) {
  const int area = shape.cells(), total = shape.binary * area;
  std::memset(out, 0, sizeof(float) * size_t(total));
  for (int byte = 0; byte < shape.packed_bytes(); ++byte)
    for (unsigned bits = packed[byte]; bits; bits &= bits - 1) {
      const int bit = 8 * byte + std::countr_zero(bits);
      const int plane = bit / area * area;
      out[plane + (cells ? cells[bit - plane] : bit - plane)] = 1.f;
    }
  for (int u = 0; u < shape.uniform; ++u) std::fill_n(out + total + u * area, area, uniform[u]);
}

inline void set_number(float number, float& out) { out = number; }
inline void set_number(float number, std::uint16_t& out) { out = bf16_of(number); }

// Numbers of one cell, or cells of one plane, that are written at once.
constexpr int kTile = 16;
using Halves = std::uint16_t __attribute__((vector_size(2 * kTile)));
constexpr Halves kTileBits = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};

// Where bit k of `mask` is 1, `one` at k, else 0.
inline Halves spread(std::uint16_t mask, std::uint16_t one) { return Halves((kTileBits & mask) == kTileBits) & one; }
inline void spread(std::uint16_t mask, std::uint16_t* out) {
  const Halves numbers = spread(mask, 0x3F80);  // 1 in bf16
  std::memcpy(out, &numbers, sizeof numbers);
}
inline void spread(std::uint16_t mask, float* out) {
  using Floats = std::uint32_t __attribute__((vector_size(4 * kTile / 2)));
  constexpr Floats low = {1, 2, 4, 8, 16, 32, 64, 128}, high = {256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  constexpr std::uint32_t one = std::bit_cast<std::uint32_t>(1.f);
  const Floats first = Floats((low & mask) == low) & one, second = Floats((high & mask) == high) & one;
  std::memcpy(out, &first, sizeof first);
  std::memcpy(out + kTile / 2, &second, sizeof second);
}

// The bits of `bytes` bytes from `bit` on: at least 25 of them, zeros behind the last one.
inline std::uint32_t bits_from(const std::uint8_t* packed, int bytes, int bit) {
  const int at = bit / 8;
  std::uint32_t word = 0;
  if (at + 4 <= bytes)
    std::memcpy(&word, packed + at, 4);
  else
    std::memcpy(&word, packed + at, size_t(bytes - at));
  return word >> (bit & 7);
}

// One bit after the other, for few planes: the others of `out` are left as they are.
template <class T>
void scatter_planes(const Shape& shape, const std::uint8_t* packed, T* out) {
  const int area = shape.cells(), planes = shape.planes(), bytes = shape.packed_bytes();
  T one;
  set_number(1.f, one);
  int plane = 0, first = 0;  // bit of it
  for (int at = 0; at < bytes; at += 8) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, packed + at, size_t(std::min(8, bytes - at)));
    for (; bits; bits &= bits - 1) {
      const int bit = 8 * at + std::countr_zero(bits);
      while (bit >= first + area) ++plane, first += area;
      out[(bit - first) * planes + plane] = one;
    }
  }
}

// Sixteen planes by sixteen cells at a time: bits of planes become bits of cells, and those numbers.  What a tile
// writes too much behind its cell belongs to later planes, written before, or to the next cell, written after: so
// groups of planes go backwards, and cells forwards.
template <class T>
void tile_planes(const Shape& shape, const std::uint8_t* packed, T* out) {
  constexpr int kFew = 4;  // fewer planes than make a tile pay
  const int area = shape.cells(), planes = shape.planes(), bytes = shape.packed_bytes();
  const int rest = shape.binary % kTile, whole = shape.binary - rest;
  const int last = rest > kFew ? whole : whole - kTile;
  T one;
  set_number(1.f, one);
  for (int cell = 0; cell < area; cell += kTile) {
    const int cells = std::min(kTile, area - cell);
    for (int plane = last + kTile; plane < shape.binary; ++plane) {
      std::uint32_t bits = bits_from(packed, bytes, plane * area + cell);
      T* to = out + cell * planes + plane;
      for (int i = 0; i < cells; ++i, to += planes, bits >>= 1) *to = bits & 1 ? one : T{};
    }
    for (int plane = last; plane >= 0; plane -= kTile) {
      const int count = std::min(kTile, shape.binary - plane);
      Halves tile = {};  // of each cell: bit k is plane `plane + k`
      for (int k = 0; k < count; ++k)
        tile |= spread(std::uint16_t(bits_from(packed, bytes, (plane + k) * area + cell)), std::uint16_t(1u << k));
      std::uint16_t masks[kTile];
      std::memcpy(masks, &tile, sizeof tile);
      T* to = out + cell * planes + plane;
      const int behind = area * planes - plane - kTile;              // numbers behind the first cell's tile
      const int room = behind < 0 ? 0 : behind / planes + 1 - cell;  // cells from here on whose tiles end within `out`
      int i = 0;
      for (; i < std::min(cells, room); ++i, to += planes) spread(masks[i], to);
      for (; i < cells; ++i, to += planes) {
        T numbers[kTile];
        spread(masks[i], numbers);
        std::memcpy(to, numbers, sizeof(T) * size_t(count));
      }
    }
  }
}

// The same planes as `out` [H, W, C], all planes of a cell next to each other, in float or bf16.
template <class T>
void expand_channels_last(const Shape& shape, const std::uint8_t* packed, const float* uniform, T* out) {
  const int area = shape.cells(), planes = shape.planes();
  if (shape.binary < kTile / 2) {
    std::fill_n(out, area * planes, T{});
    scatter_planes(shape, packed, out);
  } else {
    tile_planes(shape, packed, out);
  }
  for (int u = 0; u < shape.uniform; ++u) {
    T number;
    set_number(uniform[u], number);
    for (int cell = 0; cell < area; ++cell) out[cell * planes + shape.binary + u] = number;
  }
}

// Of `rows` positions, packed [B, packed_bytes] and uniform [B, U].
template <class T>
void expand_rows(const Shape& shape, const std::uint8_t* packed, const float* uniform, size_t rows, T* out) {
  for (size_t b = 0; b < rows; ++b)
    expand_channels_last(shape, packed + b * size_t(shape.packed_bytes()), uniform + b * size_t(shape.uniform),
                         out + b * size_t(shape.planes() * shape.cells()));
}

}  // namespace shusaku
