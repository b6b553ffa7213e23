// Who wins on a 6 x 6 Othello board under best play, for benchmarks/strength/othello_losses.py: a line "ID CELLS" of
// the 36 cells as the player to move sees them (X own, O the opponent's, . empty) -> "ID -1|0|1".  Rules of its own,
// written without a look at common/core: alpha-beta with a table of bounds, moves that leave the opponent the fewest
// first.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

using Bits = std::uint64_t;

constexpr Bits kBoard = 0x3F3F3F3F3F3Full;  // bit = 8 * row + column
constexpr Bits kCorners = 1ull | 1ull << 5 | 1ull << 40 | 1ull << 45;
constexpr int kDirections[] = {1, -1, 7, -7, 8, -8, 9, -9};
constexpr int kTableFrom = 5;  // empty squares from which positions are remembered and moves are sorted

static Bits shifted(Bits x, int by) { return (by > 0 ? x << by : x >> -by) & kBoard; }

static Bits moves(Bits own, Bits other) {
  Bits found = 0;
  for (int by : kDirections) {
    Bits line = shifted(own, by) & other;
    for (int i = 0; i < 3; ++i) line |= shifted(line, by) & other;
    found |= shifted(line, by);
  }
  return found & ~(own | other);
}

static Bits flipped(Bits own, Bits other, Bits move) {
  Bits all = 0;
  for (int by : kDirections) {
    Bits line = 0, at = shifted(move, by);
    for (; at & other; at = shifted(at, by)) line |= at;
    if (at & own) all |= line;
  }
  return all;
}

static int winner(Bits own, Bits other) {
  const int lead = std::popcount(own) - std::popcount(other);
  return (lead > 0) - (lead < 0);
}

struct Bounds {
  Bits own = ~0ull, other = ~0ull;
  signed char low = -1, high = 1;
};
static std::vector<Bounds> table(1 << 24);

// Exact between `alpha` and `beta`, else a bound; fail-soft.
static int solve(Bits own, Bits other, int alpha, int beta, bool was_pass) {
  const int empty = 36 - std::popcount(own | other);
  if (empty == 0) return winner(own, other);
  Bounds* known = nullptr;
  if (empty >= kTableFrom) {
    const Bits hash = (own * 0x9E3779B97F4A7C15ull ^ (other * 0xC2B2AE3D27D4EB4Full) >> 7) * 0xD6E8FEB86659FD93ull;
    known = &table[hash >> 40];
    if (known->own != own || known->other != other) *known = {own, other};
    if (known->low >= beta || known->low == known->high) return known->low;
    if (known->high <= alpha) return known->high;
  }
  const Bits legal = moves(own, other);
  if (!legal) return was_pass ? winner(own, other) : -solve(other, own, -beta, -alpha, true);
  struct Move {
    Bits own, other;
    int order;
  } list[36];
  int count = 0;
  for (Bits rest = legal; rest; rest &= rest - 1) {
    const Bits move = rest & -rest, flips = flipped(own, other, move);
    Move& next = list[count++] = {own | flips | move, other ^ flips, 0};
    if (known) next.order = 4 * std::popcount(moves(next.other, next.own)) - (move & kCorners ? 12 : 0);
  }
  if (known) std::sort(list, list + count, [](const Move& a, const Move& b) { return a.order < b.order; });
  int best = -1;
  for (int i = 0, bound = alpha; i < count && best < beta && best < 1; ++i) {
    const int value = -solve(list[i].other, list[i].own, -beta, -bound, false);
    best = i == 0 ? value : std::max(best, value);
    bound = std::max(bound, value);
  }
  if (known && known->own == own && known->other == other) {  // else a deeper position took the place
    if (best > alpha) known->low = std::max(known->low, static_cast<signed char>(best));
    if (best < beta) known->high = std::min(known->high, static_cast<signed char>(best));
  }
  return best;
}

int main() {
  std::string id, cells;
  while (std::cin >> id >> cells) {
    Bits own = 0, other = 0;
    for (int i = 0; i < 36; ++i) {
      const Bits cell = 1ull << (8 * (i / 6) + i % 6);
      if (cells[size_t(i)] == 'X') own |= cell;
      if (cells[size_t(i)] == 'O') other |= cell;
    }
    std::printf("%s %d\n", id.c_str(), solve(own, other, -1, 1, false));
  }
}
