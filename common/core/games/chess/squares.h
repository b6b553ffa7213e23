// Squares of a chess board, sets of them, and where pieces reach: 8 * rank + file, a1 = 0, as the player to move sees
// the board: rank 0 is that player's own first rank.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "games/square_bits.h"

namespace shusaku::chess {

using Squares = std::uint64_t;  // a set, bit = square

constexpr Squares kFileA = 0x0101010101010101ull, kFileH = kFileA << 7;
constexpr Squares kRank1 = 0xFFull, kRank3 = kRank1 << 16, kRank7 = kRank1 << 48, kRank8 = kRank1 << 56;
constexpr Squares kDark = 0xAA55AA55AA55AA55ull;

constexpr Squares bit(int square) { return 1ull << square; }
constexpr int lowest(Squares set) { return std::countr_zero(set); }

// As the other player sees them: files stay, ranks are counted from the other side.
constexpr Squares turned(Squares set) { return __builtin_bswap64(set); }
constexpr int turned(int square) { return square ^ 56; }

// What is reached from `from` along one of eight directions (file, rank step) up to the first occupied square, with it.
constexpr Squares ray(int from, int df, int dr, Squares occupied) {
  Squares reached = 0;
  for (int file = from % 8 + df, rank = from / 8 + dr; file >= 0 && file < 8 && rank >= 0 && rank < 8;
       file += df, rank += dr) {
    reached |= bit(8 * rank + file);
    if (occupied & bit(8 * rank + file)) break;
  }
  return reached;
}

// One table over all squares, worked out by `reach(square)`.
template <class Reach>
constexpr std::array<Squares, 64> by_square(Reach reach) {
  std::array<Squares, 64> table{};
  for (int square = 0; square < 64; ++square) table[size_t(square)] = reach(square);
  return table;
}

constexpr Squares steps(int from, const int (&jumps)[8][2]) {
  Squares reached = 0;
  for (const auto& [df, dr] : jumps) {
    const int file = from % 8 + df, rank = from / 8 + dr;
    if (file >= 0 && file < 8 && rank >= 0 && rank < 8) reached |= bit(8 * rank + file);
  }
  return reached;
}
constexpr auto kKnight =
    by_square([](int s) { return steps(s, {{1, 2}, {2, 1}, {2, -1}, {1, -2}, {-1, -2}, {-2, -1}, {-2, 1}, {-1, 2}}); });
constexpr auto kKing =
    by_square([](int s) { return steps(s, {{0, 1}, {1, 1}, {1, 0}, {1, -1}, {0, -1}, {-1, -1}, {-1, 0}, {-1, 1}}); });

constexpr Squares straight(int from, Squares occupied) {
  return ray(from, 0, 1, occupied) | ray(from, 0, -1, occupied) | ray(from, 1, 0, occupied) |
         ray(from, -1, 0, occupied);
}
constexpr Squares diagonal(int from, Squares occupied) {
  return ray(from, 1, 1, occupied) | ray(from, 1, -1, occupied) | ray(from, -1, 1, occupied) |
         ray(from, -1, -1, occupied);
}
constexpr auto kStraight = by_square([](int s) { return straight(s, 0); });  // on an empty board
constexpr auto kDiagonal = by_square([](int s) { return diagonal(s, 0); });

// Squares strictly between two on a line; empty if they are on none.
constexpr auto kBetween = [] {
  std::array<std::array<Squares, 64>, 64> table{};
  for (int a = 0; a < 64; ++a)
    for (int df = -1; df <= 1; ++df)
      for (int dr = -1; dr <= 1; ++dr) {
        if (df == 0 && dr == 0) continue;
        Squares passed = 0;
        for (int f = a % 8 + df, r = a / 8 + dr; f >= 0 && f < 8 && r >= 0 && r < 8; f += df, r += dr) {
          table[size_t(a)][size_t(8 * r + f)] = passed;
          passed |= bit(8 * r + f);
        }
      }
  return table;
}();

// Squares that a pawn attacks: its own pawns go up, those of the opponent down.
constexpr Squares up_captures(Squares pawns) { return (pawns & ~kFileA) << 7 | (pawns & ~kFileH) << 9; }
constexpr Squares down_captures(Squares pawns) { return (pawns & ~kFileA) >> 9 | (pawns & ~kFileH) >> 7; }

#if defined(__BMI2__)
// What sliders reach, by the occupied squares that matter, gathered into an index (pext); the results are spread out
// again over the squares that can be reached at all (pdep), so that all of them take 210 KB.
class Sliders {
 public:
  Sliders() {
    std::size_t next = 0;
    for (int kind = 0; kind < 2; ++kind)
      for (int square = 0; square < 64; ++square) {
        const Squares reach = (kind ? kDiagonal : kStraight)[size_t(square)];
        Squares inner = 0;  // the last square of a ray stops nothing
        for (int df = -1; df <= 1; ++df)
          for (int dr = -1; dr <= 1; ++dr)
            if ((df || dr) && (df && dr) == (kind == 1)) {
              const Squares line = ray(square, df, dr, 0);
              if (line) inner |= line & ~bit(df + 8 * dr > 0 ? 63 - std::countl_zero(line) : lowest(line));
            }
        at_[kind][square] = {inner, reach, next};
        const std::size_t subsets = std::size_t(1) << std::popcount(inner);
        for (std::size_t i = 0; i < subsets; ++i) {
          const Squares occupied = _pdep_u64(i, inner);
          table_[next + i] =
              std::uint16_t(_pext_u64(kind ? diagonal(square, occupied) : straight(square, occupied), reach));
        }
        next += subsets;
      }
  }
  Squares straight_from(int square, Squares occupied) const { return look_up(at_[0][square], occupied); }
  Squares diagonal_from(int square, Squares occupied) const { return look_up(at_[1][square], occupied); }

 private:
  struct Entry {
    Squares inner, reach;
    std::size_t offset;
  };
  Squares look_up(const Entry& e, Squares occupied) const {
    return _pdep_u64(table_[e.offset + _pext_u64(occupied, e.inner)], e.reach);
  }
  Entry at_[2][64];
  std::uint16_t table_[102400 + 5248];
};
inline const Sliders kSliders;

inline Squares straight_moves(int square, Squares occupied) { return kSliders.straight_from(square, occupied); }
inline Squares diagonal_moves(int square, Squares occupied) { return kSliders.diagonal_from(square, occupied); }
#else
// o ^ (o - 2 r) on a line, once as it stands and once from the other end (https://www.chessprogramming.org/
// Hyperbola_Quintessence).
constexpr Squares along(int square, Squares line, Squares occupied) {
  const Squares up = (occupied & line) - 2 * bit(square);
  const Squares down = turn_half(turn_half(occupied & line) - 2 * bit(63 - square));
  return (up ^ down) & line;
}
inline Squares straight_moves(int square, Squares occupied) {
  const Squares file = (kFileA << square % 8) & ~bit(square), rank = (kRank1 << (square & 56)) & ~bit(square);
  return along(square, file, occupied) | along(square, rank, occupied);
}
constexpr auto kRising = by_square([](int s) { return ray(s, 1, 1, 0) | ray(s, -1, -1, 0); });
inline Squares diagonal_moves(int square, Squares occupied) {
  const Squares rising = kRising[size_t(square)];
  return along(square, rising, occupied) | along(square, kDiagonal[size_t(square)] ^ rising, occupied);
}
#endif

}  // namespace shusaku::chess
