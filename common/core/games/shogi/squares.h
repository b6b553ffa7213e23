// The squares of a shogi board of N x N, as sets of bits and as the geometry of moves.
//
//   square = N * row + column, row 0 at the top, column 0 at the left, seen by the player to move: the own pieces move
//   up.  So the square itself is the cell of the planes, and the second player's board is the first one's turned by
//   half.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__SSSE3__)
#include <immintrin.h>
#endif

#include "games/square_bits.h"

namespace shusaku {

template <int N>
struct ShogiSquares {
  static_assert(N == 5 || N == 9);
  static constexpr int kSquares = N * N;
  using Set = std::conditional_t<N == 9, unsigned __int128, std::uint64_t>;

  // Clockwise; the opposite of d is d ^ 4.
  enum Direction { kNorth, kNorthEast, kEast, kSouthEast, kSouth, kSouthWest, kWest, kNorthWest };
  static constexpr int kRowStep[8] = {-1, -1, 0, 1, 1, 1, 0, -1}, kColumnStep[8] = {0, 1, 1, 1, 0, -1, -1, -1};

  // What a move looks like from its square: direction * kFar + distance - 1, then the two jumps of a knight.
  static constexpr int kFar = N - 1, kLines = 8 * kFar, kKnights = N == 9 ? 2 : 0, kShapes = kLines + kKnights;
  static constexpr std::uint8_t kNoShape = 255;

  using Table = std::array<Set, kSquares>;
  static constexpr Table kBit = [] {  // a load is less than a shift of two words
    Table table{};
    for (int s = 0; s < kSquares; ++s) table[size_t(s)] = Set(1) << s;
    return table;
  }();
  static constexpr Set bit(int square) { return kBit[size_t(square)]; }
  static constexpr Set kAll = (bit(kSquares - 1) - 1) | bit(kSquares - 1);
  static constexpr Set row(int r) { return ((Set(1) << N) - 1) << (N * r); }
  static constexpr Set column(int c) {
    Set set = 0;
    for (int r = 0; r < N; ++r) set |= bit(N * r + c);
    return set;
  }
  static constexpr int kZoneRows = N == 9 ? 3 : 1;  // where own pieces promote
  static constexpr Set kZone = bit(kZoneRows * N) - 1;

  static int lowest(Set set) {
    const auto low = std::uint64_t(set);
    if constexpr (N == 9)
      if (low == 0) return 64 + std::countr_zero(std::uint64_t(set >> 64));
    return std::countr_zero(low);
  }
  static int highest(Set set) {  // of a set that has one
    if constexpr (N == 9)
      if (const auto high = std::uint64_t(set >> 64)) return 127 - std::countl_zero(high);
    return 63 - std::countl_zero(std::uint64_t(set));
  }
  static int count(Set set) {
    if constexpr (N == 9)
      return std::popcount(std::uint64_t(set)) + std::popcount(std::uint64_t(set >> 64));
    else
      return std::popcount(set);
  }
  static bool has_several(Set set) { return (set & (set - 1)) != 0; }
  static bool has(Set set, int square) { return (set & bit(square)) != 0; }
  // The square that `rank` others of the set are below; rank < count(set).
  static int nth(Set set, int rank) {
    if constexpr (N == 9) {
      const int low = std::popcount(std::uint64_t(set));
      if (rank >= low) return 64 + std::countr_zero(nth_bit(std::uint64_t(set >> 64), unsigned(rank - low)));
    }
    return std::countr_zero(nth_bit(std::uint64_t(set), unsigned(rank)));
  }
  // Ascending.
  template <class F>
  static void each(Set set, F f) {
    for (auto low = std::uint64_t(set); low; low &= low - 1) f(std::countr_zero(low));
    if constexpr (N == 9)
      for (auto high = std::uint64_t(set >> 64); high; high &= high - 1) f(64 + std::countr_zero(high));
  }

  // Whether f is true of one of them; stops at the first.
  template <class F>
  static bool any(Set set, F f) {
    for (auto low = std::uint64_t(set); low; low &= low - 1)
      if (f(std::countr_zero(low))) return true;
    if constexpr (N == 9)
      for (auto high = std::uint64_t(set >> 64); high; high &= high - 1)
        if (f(64 + std::countr_zero(high))) return true;
    return false;
  }

  // A whole set, one step on; what would leave the board is gone.
  static constexpr Set north(Set set) { return set >> N; }
  static constexpr Set south(Set set) { return set << N & kAll; }
  static constexpr Set east(Set set) { return (set & ~column(N - 1)) << 1; }
  static constexpr Set west(Set set) { return (set & ~column(0)) >> 1; }

  // Square s goes to kSquares - 1 - s.
  static Set turned(Set set) {
#if defined(__SSSE3__)
    if constexpr (N == 9) {  // the halves of every byte by a table, then the bytes, then down to bit 0
      const __m128i halves = _mm_setr_epi8(0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15),
                    low = _mm_set1_epi8(15);
      const __m128i bytes = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
      __m128i x;
      std::memcpy(&x, &set, sizeof x);
      const __m128i upper = _mm_shuffle_epi8(halves, _mm_and_si128(x, low)),
                    lower = _mm_shuffle_epi8(halves, _mm_and_si128(_mm_srli_epi64(x, 4), low));
      x = _mm_shuffle_epi8(_mm_or_si128(_mm_slli_epi64(upper, 4), lower), bytes);
      x = _mm_or_si128(_mm_srli_epi64(x, 128 - kSquares), _mm_slli_epi64(_mm_srli_si128(x, 8), kSquares - 64));
      std::memcpy(&set, &x, sizeof x);
      return set;
    }
#endif
    if constexpr (N == 9)
      return (Set(turn_half(std::uint64_t(set))) << 64 | turn_half(std::uint64_t(set >> 64))) >> (128 - kSquares);
    else
      return turn_half(set) >> (64 - kSquares);
  }

  // All columns that hold one of the set.
  static Set columns_of(Set set) {
    set |= set >> N | set << N;
    set |= set >> 2 * N | set << 2 * N;
    if constexpr (N == 9) set |= set >> 4 * N | set << 4 * N;  // seven rows each way
    return (set | set >> N | set << N) & kAll;
  }

  static constexpr Set squares_from(int square, int direction, int most) {
    Set set = 0;
    for (int k = 1; k <= most; ++k) {
      const int r = square / N + k * kRowStep[direction], c = square % N + k * kColumnStep[direction];
      if (r < 0 || r >= N || c < 0 || c >= N) break;
      set |= bit(N * r + c);
    }
    return set;
  }
  static constexpr Table steps(std::uint8_t directions) {
    Table table{};
    for (int s = 0; s < kSquares; ++s)
      for (int d = 0; d < 8; ++d)
        if (directions >> d & 1) table[size_t(s)] |= squares_from(s, d, 1);
    return table;
  }
  static constexpr Table kKing = steps(0b11111111), kGold = steps(0b11010111), kSilver = steps(0b10101011);
  static constexpr Table kStraight = steps(0b01010101), kSlanted = steps(0b10101010);
  static constexpr Table kKnight = [] {
    Table table{};
    for (int s = 2 * N; s < kSquares; ++s) {
      if (s % N > 0) table[size_t(s)] |= bit(s - 2 * N - 1);
      if (s % N < N - 1) table[size_t(s)] |= bit(s - 2 * N + 1);
    }
    return table;
  }();

  // All squares of a direction, to the edge.
  static constexpr std::array<Table, 8> kRays = [] {
    std::array<Table, 8> rays{};
    for (int d = 0; d < 8; ++d)
      for (int s = 0; s < kSquares; ++s) rays[size_t(d)][size_t(s)] = squares_from(s, d, N);
    return rays;
  }();
  static constexpr Set ray(int direction, int square) { return kRays[size_t(direction)][size_t(square)]; }
  static constexpr std::array<Table, 2> kLinesOf = [] {  // through a square: straight ones, slanted ones
    std::array<Table, 2> lines{};
    for (int d = 0; d < 8; ++d)
      for (int s = 0; s < kSquares; ++s) lines[size_t(d & 1)][size_t(s)] |= squares_from(s, d, N);
    return lines;
  }();

  // [from][to]
  static constexpr auto kShapeOf = [] {
    std::array<std::array<std::uint8_t, kSquares>, kSquares> shapes{};
    for (int from = 0; from < kSquares; ++from) {
      for (auto& shape : shapes[size_t(from)]) shape = kNoShape;
      for (int d = 0; d < 8; ++d)
        for (int k = 1; k <= kFar; ++k) {
          const int r = from / N + k * kRowStep[d], c = from % N + k * kColumnStep[d];
          if (r >= 0 && r < N && c >= 0 && c < N)
            shapes[size_t(from)][size_t(N * r + c)] = std::uint8_t(d * kFar + k - 1);
        }
      if (kKnights && from >= 2 * N && from % N > 0) shapes[size_t(from)][size_t(from - 2 * N - 1)] = kLines;
      if (kKnights && from >= 2 * N && from % N < N - 1) shapes[size_t(from)][size_t(from - 2 * N + 1)] = kLines + 1;
    }
    return shapes;
  }();
  static int shape(int from, int to) { return kShapeOf[size_t(from)][size_t(to)]; }
  static int destination(int from, int shape) {
    if (shape >= kLines) return from - 2 * N + (shape == kLines ? -1 : 1);
    const int d = shape / kFar, k = shape % kFar + 1;
    return from + k * (N * kRowStep[d] + kColumnStep[d]);
  }
  static Set between(int a, int b) {  // empty unless they lie on a line
    const int line = shape(a, b);
    return line < kLines ? ray(line / kFar, a) & ray(line / kFar ^ 4, b) : 0;
  }

  // The squares that a piece reaches in a direction, the first occupied one included.
  template <int kDirection>
  static Set slide(int square, Set occupied) {
    const Set line = ray(kDirection, square), blockers = line & occupied;
    if constexpr (kDirection >= kEast && kDirection <= kSouthWest)
      return line & (blockers ^ (blockers - 1));
    else
      return line ^ ray(kDirection, highest(blockers | 1));  // square 0 has nothing behind it that way
  }
  static Set straight(int square, Set occupied) {
    return slide<kNorth>(square, occupied) | slide<kEast>(square, occupied) | slide<kSouth>(square, occupied) |
           slide<kWest>(square, occupied);
  }
  static Set slanted(int square, Set occupied) {
    return slide<kNorthEast>(square, occupied) | slide<kSouthEast>(square, occupied) |
           slide<kSouthWest>(square, occupied) | slide<kNorthWest>(square, occupied);
  }
};

}  // namespace shusaku
