// A Go board for rollouts: chains with their liberties, and what surrounds each point, kept up to date stone by stone.
//
// A point looks like one of eight things: empty (0), outside (4), a stone of black (1, 2, 3) or white (5, 6, 7) whose
// chain has 1, 2 or more liberties.  The code of a point holds what its eight neighbours look like, three bits each,
// clockwise from north; so a quarter turn of the board rotates the code by six bits.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "games/go/stones.h"

namespace shusaku {

namespace go_pattern {

constexpr std::uint32_t kOnes = 0x249249;      // the lowest bit of each of the eight neighbours
constexpr std::uint32_t kBeside = 0x041041;    // of north, east, south, west
constexpr std::uint32_t kDiagonal = 0x208208;  // of the others

// A ring of `bits` / 3 neighbours, turned by `by` bits towards later ones.
constexpr std::uint32_t turned(std::uint32_t ring, int by, int bits) {
  by = (by % bits + bits) % bits;
  return by ? ((ring << by) | (ring >> (bits - by))) & ((1u << bits) - 1) : ring;
}

// The ring in the opposite order: neighbour k becomes neighbour 7 - k.
constexpr std::uint32_t reversed8(std::uint32_t ring) {
  ring = (ring & 07070707) << 3 | (ring >> 3 & 07070707);
  ring = (ring & 00770077) << 6 | (ring >> 6 & 00770077);
  return (ring & 07777) << 12 | ring >> 12;
}
constexpr std::uint32_t reversed4(std::uint32_t ring) {
  ring = (ring & 0707) << 3 | (ring >> 3 & 0707);
  return (ring & 077) << 6 | ring >> 6;
}

// The same neighbours with black and white exchanged.
constexpr std::uint32_t swapped(std::uint32_t code) { return code ^ ((code | code >> 1) & kOnes) << 2; }

// The smallest of the codes of the eight symmetric views.
constexpr std::uint32_t canonical(std::uint32_t code) {
  const std::uint32_t mirrored = turned(reversed8(code), 3, 24);  // left and right exchanged
  std::uint32_t least = std::min(code, mirrored);
  for (int by = 6; by < 24; by += 6) least = std::min({least, turned(code, by, 24), turned(mirrored, by, 24)});
  return least;
}

// Whether a rollout may play here, ko apart: neither suicide nor a fill of an own eye, which is an empty point with own
// stones or the edge on four sides and with less than two diagonal points of the opponent, none at the edge.  `code` as
// black sees it who plays.
constexpr bool is_playable(std::uint32_t code) {
  const std::uint32_t any = (code | code >> 1 | code >> 2) & kOnes;
  if ((any & kBeside) != kBeside) return true;  // an empty point beside it
  const std::uint32_t stones = (code | code >> 1) & kOnes, theirs = code >> 2 & stones;
  if ((theirs & kBeside) == 0) {
    int diagonals = (any & ~stones & kBeside) != 0;
    for (std::uint32_t d = theirs & kDiagonal; d; d &= d - 1) ++diagonals;
    if (diagonals < 2) return false;
  }
  const bool captures = (code & ~(code >> 1) & code >> 2 & kBeside) != 0;
  const bool joins = (code >> 1 & ~(code >> 2) & kBeside) != 0;  // a chain with another liberty
  return captures || joins;
}

}  // namespace go_pattern

template <int N>
class GoRolloutState {
 public:
  using Board = GoBoard<N>;
  using Point = typename Board::Point;
  using Set = typename Board::Set;
  static constexpr int S = Board::kStride;
  static constexpr int kRing[8] = {-S, 1 - S, 1, S + 1, S, S - 1, -1, -S - 1};  // clockwise from north
  static constexpr std::uint8_t kOutside = 4;

  GoRolloutState(const Board& board, const GoPosition<N>& p) : board_(board) {
    stones_[0] = p.boards[size_t(p.ply) & 7][0], stones_[1] = p.boards[size_t(p.ply) & 7][1];
    empty_ = board.all.without(stones_[0] | stones_[1]);
    colour_ = p.colour, head_ = p.head, next_ = p.next;
    looks_.fill(kOutside), codes_.fill(0);
    board.all.each([&](int bit) { looks_[size_t(Board::point(bit))] = 0; });
    for (int player = 0; player < 2; ++player)
      stones_[player].each([&](int bit) {
        const int point = Board::point(bit);
        if (head_[size_t(point)] == point) liberties_[size_t(point)] = {}, sizes_[size_t(point)] = 0;
      });
    for (int player = 0; player < 2; ++player)
      stones_[player].each([&](int bit) {
        const int point = Board::point(bit), head = head_[size_t(point)];
        ++sizes_[size_t(head)];
        for (int step : Board::kSteps)
          if (colour_[size_t(point + step)] == Board::kEmpty) liberties_[size_t(head)].add(Board::bit(point + step));
      });
    for (int player = 0; player < 2; ++player)
      stones_[player].each([&](int bit) {
        const int point = Board::point(bit);
        looks_[size_t(point)] = look(player, num_liberties(head_[size_t(point)]));
      });
    board.all.each([&](int bit) {
      const int point = Board::point(bit);
      std::uint32_t code = 0;
      for (int k = 0; k < 8; ++k) code |= std::uint32_t(look_at(point + kRing[k])) << (3 * k);
      codes_[size_t(point + 1)] = code;
    });
    changed_[0] = changed_[1] = empty_;
    if (p.last >= 0 && p.last < board.size * board.size && p.ply > 0) {
      last_ = board.point_of[size_t(p.last)];
      taken_ = p.boards[size_t(p.ply - 1) & 7][size_t(p.to_play)].without(stones_[p.to_play]);
      if (colour_[size_t(last_)] < Board::kEmpty) find_ko();
    }
  }

  // Of a player: a stone on an empty point that is no suicide; captures follow.
  void play(int point, int player) {
    const int bit = Board::bit(point);
    num_touched_ = 0;
    moved_ = {}, taken_ = {};
    last_ = point;
    empty_.remove(bit), stones_[player].add(bit);
    colour_[size_t(point)] = std::uint8_t(player);
    head_[size_t(point)] = next_[size_t(point)] = Point(point);
    sizes_[size_t(point)] = 1;
    Set own{};
    for (int step : Board::kSteps) {
      const int beside = point + step;
      const auto colour = colour_[size_t(beside)];
      if (colour == Board::kEmpty) own.add(Board::bit(beside));
      if (colour < Board::kEmpty) liberties_[head_[size_t(beside)]].remove(bit);
    }
    liberties_[size_t(point)] = own;
    for (int step : Board::kSteps)
      if (colour_[size_t(point + step)] == player) join(head_[size_t(point)], head_[size_t(point + step)]);
    for (int step : Board::kSteps)
      if (colour_[size_t(point + step)] == (player ^ 1)) {
        const int head = head_[size_t(point + step)];
        if (liberties_[size_t(head)].is_empty())
          remove(head, player ^ 1);
        else
          touched_[size_t(num_touched_++)] = Point(head);
      }
    show_chain(head_[size_t(point)], player);
    for (int i = 0; i < num_touched_; ++i) {
      const int head = touched_[size_t(i)];
      const auto colour = colour_[size_t(head)];
      if (colour < Board::kEmpty && head_[size_t(head)] == head &&
          looks_[size_t(head)] != look(colour, num_liberties(head)))
        show_chain(head, colour);
    }
    find_ko();
    Set near = moved_ | moved_.up(1) | moved_.down(1);
    near = (near | near.up(S) | near.down(S)) & board_.all;
    changed_[0] = changed_[0] | near, changed_[1] = changed_[1] | near;
  }

  void pass() { last_ = ko_ = 0, taken_ = {}; }

  // The points whose code, or whose stone, may have changed since the last call for this player.
  Set take_changed(int player) { return std::exchange(changed_[player], Set{}); }

  // What lies around a point, as black would see it if the player was black.
  std::uint32_t code(int point, int player) const {
    const std::uint32_t code = codes_[size_t(point + 1)];
    return player ? go_pattern::swapped(code) : code;
  }
  std::uint8_t look_at(int point) const { return point < 0 ? kOutside : looks_[size_t(point)]; }
  std::uint8_t look_at(int point, int player) const {
    const std::uint8_t look = look_at(point);
    return std::uint8_t(look & 3 && player ? look ^ 4 : look);
  }

  const Board& board() const { return board_; }
  const Set& empty() const { return empty_; }
  int last() const { return last_; }           // point of the last move; 0: a pass or none
  int ko() const { return ko_; }               // where the player to move may not take back at once; 0: nowhere
  const Set& taken() const { return taken_; }  // stones by the last move

  // Empty points where the player rescues a chain that the last move has put in atari: by an extension that leaves two
  // liberties, or by a capture.
  Set saves(int player) const {
    Set found{};
    if (!last_) return found;
    for (int step : Board::kSteps) {
      const int stone = last_ + step;
      if (colour_[size_t(stone)] != player) continue;
      const int head = head_[size_t(stone)];
      if (num_liberties(head) != 1) continue;
      Set one = liberties_[size_t(head)];
      const int liberty = Board::point(one.take());
      if (extends(liberty, player, head)) found.add(Board::bit(liberty));
      int at = head;
      do {
        for (int s : Board::kSteps)
          if (colour_[size_t(at + s)] == (player ^ 1) && num_liberties(head_[size_t(at + s)]) == 1)
            found = found | liberties_[head_[size_t(at + s)]];
      } while ((at = next_[size_t(at)]) != head);
    }
    return found;
  }

  // The one point with the most neighbours among three to six stones that the last move took; 0 if there is none.
  int nakade() const {
    const int count = last_ ? taken_.count() : 0;
    if (count < 3 || count > 6) return 0;
    int best = 0, most = 0;
    taken_.each([&](int bit) {
      int beside = 0;
      for (int step : Board::kSteps) {
        const int at = Board::point(bit) + step;
        beside += colour_[size_t(at)] == Board::kEmpty && taken_.has(Board::bit(at));
      }
      if (beside == most) best = 0;
      if (beside > most) best = Board::point(bit), most = beside;
    });
    return best;
  }

  // Points of the area: stones, and empty regions that reach stones of one colour only; black's less white's.
  int area() const {
    const Set black = stones_[0] | Board::flood(stones_[0], empty_),
              white = stones_[1] | Board::flood(stones_[1], empty_);
    return black.without(white).count() - white.without(black).count();
  }

 private:
  static std::uint8_t look(int player, int liberties) { return std::uint8_t(4 * player + std::min(liberties, 3)); }
  int num_liberties(int head) const { return liberties_[size_t(head)].count(); }

  void show(int point, std::uint8_t look) {
    const std::uint32_t change = looks_[size_t(point)] ^ look;
    if (!change) return;
    looks_[size_t(point)] = look;
    moved_.add(Board::bit(point));
    for (int k = 0; k < 8; ++k) codes_[size_t(point + kRing[k] + 1)] ^= change << (3 * ((k + 4) & 7));
  }

  void show_chain(int head, int player) {
    const std::uint8_t seen = look(player, num_liberties(head));
    int stone = head;
    do show(stone, seen);
    while ((stone = next_[size_t(stone)]) != head);
  }

  // Two chains of one player become one; nothing happens if they are one.
  void join(int a, int b) {
    if (a == b) return;
    if (sizes_[size_t(a)] < sizes_[size_t(b)]) std::swap(a, b);
    int stone = b;
    do head_[size_t(stone)] = Point(a);
    while ((stone = next_[size_t(stone)]) != b);
    std::swap(next_[size_t(a)], next_[size_t(b)]);
    sizes_[size_t(a)] = std::uint16_t(sizes_[size_t(a)] + sizes_[size_t(b)]);
    liberties_[size_t(a)] = liberties_[size_t(a)] | liberties_[size_t(b)];
  }

  void remove(int head, int player) {
    int stone = head;
    do {
      const int bit = Board::bit(stone);
      taken_.add(bit), empty_.add(bit), stones_[player].remove(bit);
      colour_[size_t(stone)] = Board::kEmpty;
      show(stone, 0);
    } while ((stone = next_[size_t(stone)]) != head);
    do {
      for (int step : Board::kSteps)
        if (colour_[size_t(stone + step)] == (player ^ 1)) {
          const int other = head_[size_t(stone + step)];
          liberties_[size_t(other)].add(Board::bit(stone));
          if (num_touched_ == 0 || touched_[size_t(num_touched_ - 1)] != other)
            touched_[size_t(num_touched_++)] = Point(other);
        }
    } while ((stone = next_[size_t(stone)]) != head);
  }

  // A lone stone that has taken one stone and has the one liberty where that lay.
  void find_ko() {
    ko_ = 0;
    Set taken = taken_;
    if (taken.count() != 1 || sizes_[head_[size_t(last_)]] != 1 || num_liberties(last_) != 1) return;
    const int bit = taken.take();
    if (liberties_[size_t(last_)].has(bit)) ko_ = Board::point(bit);
  }

  // Whether a stone of the player there leaves its chain two liberties or captures.
  bool extends(int point, int player, int chain) const {
    Set liberties = liberties_[size_t(chain)];
    for (int step : Board::kSteps) {
      const auto colour = colour_[size_t(point + step)];
      if (colour == Board::kEmpty) liberties.add(Board::bit(point + step));
      if (colour == player) liberties = liberties | liberties_[head_[size_t(point + step)]];
      if (colour == (player ^ 1) && num_liberties(head_[size_t(point + step)]) == 1) return true;
    }
    liberties.remove(Board::bit(point));
    return liberties.count() >= 2;
  }

  const Board& board_;
  Set stones_[2], empty_, changed_[2], moved_{}, taken_{};  // moved: points that look otherwise
  int last_ = 0, ko_ = 0, num_touched_ = 0;
  std::array<std::uint8_t, Board::kPoints> colour_;
  std::array<Point, Board::kPoints> head_, next_;
  std::array<std::uint16_t, Board::kPoints> sizes_;  // at heads
  std::array<Set, Board::kPoints> liberties_;        // at heads
  std::array<std::uint8_t, Board::kPoints> looks_;
  std::array<std::uint32_t, Board::kPoints + 1> codes_;  // at point + 1: a corner's neighbour is point -1
  // Chains beside the last move: four of the opponent, and those of its player that gained a liberty by captures, each
  // at most once for each side of a captured stone.
  std::array<Point, 4 * N * N + 4> touched_;
};

}  // namespace shusaku
