// Stones on a Go board: groups, liberties, captures, areas.  What may be played is go.h's business.
//
// Stones of a group form a ring (`next`) and know their head; the head knows the group's liberties, counted once for
// each stone beside them, and its hash.  So a play that takes the last of them is seen by a decrement to 0.
#pragma once

#include <array>
#include <utility>

#include "games/go/board.h"

namespace shusaku {

template <int N>
struct GoPosition {
  using Board = GoBoard<N>;
  using Point = typename Board::Point;
  using Set = typename Board::Set;
  static constexpr int kMaxPlies = 3 * N * N;  // that it has room for
  static constexpr int kSeenWords = N <= 9 ? 32 : 128;

  std::uint64_t hash;            // of the board
  std::int16_t ply, num_passes;  // in a row
  std::uint8_t to_play;
  bool has_removed;                          // stones, ever: no board can come again before
  std::int16_t half_komi;                    // points for white, times two
  std::int16_t last, before_last;            // cells, the pass, or -1
  std::array<std::array<Set, 2>, 8> boards;  // of ply t at t % 8, by colour; a ring of the newest eight
  std::array<std::uint8_t, Board::kPoints> colour;
  std::array<Point, Board::kPoints> head, next;          // of stones; head is 0 elsewhere
  std::array<std::uint16_t, Board::kPoints> liberties;   // at heads
  std::array<std::uint64_t, Board::kPoints> group_hash;  // at heads
  std::array<std::uint64_t, kSeenWords> seen;            // a Bloom filter of `history`
  // Of the boards after 0, 1, ... ply plies; the last members, whose parts that are in use are copied alone.
  std::array<std::uint64_t, kMaxPlies + 1> history;      // keys
  std::array<std::uint16_t, kMaxPlies + 32> num_stones;  // and room to look at 32 at once
};

template <int N>
class GoStones {
 public:
  using Board = GoBoard<N>;
  using Position = GoPosition<N>;
  using Point = typename Board::Point;
  using Set = typename Board::Set;

  explicit GoStones(const Board& board) : board_(board) {}

  Set empty(const Position& p) const {
    const auto& now = p.boards[size_t(p.ply) & 7];
    return board_.all.without(now[0] | now[1]);
  }

  // The stones of the chain of the stone on this point.
  static Set chain(const Position& p, int first) {
    Set stones;
    int stone = first;
    do stones.add(Board::bit(stone));
    while ((stone = p.next[size_t(stone)]) != first);
    return stones;
  }

  std::pair<Set, Set> areas(const Position& p) const {
    const auto& now = p.boards[size_t(p.ply) & 7];
    const Set free = empty(p);
    const Set black = Board::flood(now[0], free), white = Board::flood(now[1], free);
    return {now[0] | black.without(white), now[1] | white.without(black)};
  }

  // Puts a stone on an empty point and joins it with its neighbours; captures nothing.
  void place(Position& p, int point, int colour) const {
    p.boards[size_t(p.ply) & 7][size_t(colour)].add(Board::bit(point));
    p.colour[size_t(point)] = std::uint8_t(colour);
    p.hash ^= board_.zobrist[size_t(colour)][size_t(point)];
    int liberties = 0, head = point;
    for (int step : Board::kSteps) {
      const auto beside = p.colour[size_t(point + step)];
      liberties += beside == Board::kEmpty;
      if (beside < Board::kEmpty) --p.liberties[p.head[size_t(point + step)]];
      if (beside == colour) head = p.head[size_t(point + step)];
    }
    p.head[size_t(point)] = Point(head);
    if (head == point) {
      p.next[size_t(point)] = Point(point);
      p.liberties[size_t(point)] = std::uint16_t(liberties);
      p.group_hash[size_t(point)] = board_.zobrist[size_t(colour)][size_t(point)];
      return;
    }
    p.next[size_t(point)] = p.next[size_t(head)];
    p.next[size_t(head)] = Point(point);
    p.liberties[size_t(head)] += std::uint16_t(liberties);
    p.group_hash[size_t(head)] ^= board_.zobrist[size_t(colour)][size_t(point)];
    for (int step : Board::kSteps)
      if (p.colour[size_t(point + step)] == colour && p.head[size_t(point + step)] != head)
        join(p, p.head[size_t(point + step)], head);
  }

  void join(Position& p, int from, int to) const {
    p.liberties[size_t(to)] += p.liberties[size_t(from)];
    p.group_hash[size_t(to)] ^= p.group_hash[size_t(from)];
    int stone = from;
    do p.head[size_t(stone)] = Point(to);
    while ((stone = p.next[size_t(stone)]) != from);
    std::swap(p.next[size_t(from)], p.next[size_t(to)]);
  }

  // After a play: the opponent's groups without liberties go, then the player's own.
  void settle(Position& p, int point, int colour) const {
    for (int step : Board::kSteps)
      if (p.colour[size_t(point + step)] == (colour ^ 1) && p.liberties[p.head[size_t(point + step)]] == 0)
        remove(p, p.head[size_t(point + step)], colour ^ 1);
    if (p.liberties[p.head[size_t(point)]] == 0) remove(p, p.head[size_t(point)], colour);
  }

  void remove(Position& p, int head, int colour) const {
    p.has_removed = true;
    p.hash ^= p.group_hash[size_t(head)];
    int stone = head;
    do {
      p.boards[size_t(p.ply) & 7][size_t(colour)].remove(Board::bit(stone));
      p.colour[size_t(stone)] = Board::kEmpty;
      p.head[size_t(stone)] = 0;
      for (int step : Board::kSteps) ++p.liberties[p.head[size_t(stone + step)]];  // index 0: no chain
    } while ((stone = p.next[size_t(stone)]) != head);
  }

 private:
  const Board& board_;
};

}  // namespace shusaku
