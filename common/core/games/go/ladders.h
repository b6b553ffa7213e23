// Ladders: chains that are captured by one atari after the other, read out to the end.
//
// The hunter plays a liberty of a chain with two; the prey extends at the liberty that is left, or captures hunters in
// atari beside it; and so on, until the prey has three liberties (it is free) or is in atari after its own play (it is
// lost).  Only these plays are tried.  Suicide is illegal here, and so is a play that brings back the board before the
// opponent's last one: older boards are not known to the reading, so that it depends on the board alone.
#pragma once

#include <array>

#include "games/go/board.h"

namespace shusaku {

template <int N>
class GoLadders {
 public:
  using Board = GoBoard<N>;
  using Set = typename Board::Set;
  using Stones = std::array<Set, 2>;  // by colour

  static constexpr int kMaxPlies = 200;      // a prey that lives so long is free; across 19 x 19 it takes some 70
  static constexpr int kMaxPositions = 400;  // that are read for one question; if it takes more, the answer is no

  explicit GoLadders(const Board& board) : board_(board) {}

  // Whether the prey, of two liberties, is lost if the other colour plays one of them, where it may play.
  bool captures(const Stones& now, const Set& prey, int colour, int bit) const {
    Stones next = now;
    int budget = kMaxPositions;
    return play(next, colour ^ 1, bit) && is_lost(next, now, prey, colour, 0, budget) && budget > 0;
  }

  // Whether the prey, of one liberty, is free after this play of its colour, which it may make.
  bool escapes(const Stones& now, const Set& prey, int colour, int bit) const {
    Stones next = now;
    int budget = kMaxPositions;
    return play(next, colour, bit) && !is_caught(next, now, whole(prey, next, colour, bit), colour, 0, budget) &&
           budget > 0;
  }

  // The plays that may free a chain of one liberty: there, and where they capture what is in atari beside it.
  Set ways_out(const Stones& now, const Set& prey, int colour) const {
    const Set free = empty(now);
    Set ways = Board::beside(prey) & free;
    const Set left = free.up(1), right = free.down(1), above = free.up(Board::kStride),
              below = free.down(Board::kStride);
    const Set safe =
        (left & right) | (above & below) | ((left | right) & (above | below));  // two empty points beside it
    const Set& others = now[size_t(colour ^ 1)];
    Set hunters = (Board::beside(prey) & others).without(safe);
    while (!hunters.is_empty()) {
      Set chain;
      chain.add(hunters.take());
      if (!has_liberties(chain, others, free, 2)) ways = ways | (Board::beside(chain) & free);
      hunters = hunters.without(chain);
    }
    return ways;
  }

 private:
  // The prey has one liberty and is to move; `before` is the board before the hunter's last play.
  bool is_lost(const Stones& now, const Stones& before, const Set& prey, int colour, int plies, int& budget) const {
    for (Set ways = ways_out(now, prey, colour); !ways.is_empty();) {
      Stones next = now;
      const int bit = ways.take();
      if (!play(next, colour, bit) || next == before) continue;
      if (!is_caught(next, now, whole(prey, next, colour, bit), colour, plies + 1, budget)) return false;
    }
    return true;
  }

  // The hunter is to move; `before` is the board before the prey's last play.
  bool is_caught(const Stones& now, const Stones& before, const Set& prey, int colour, int plies, int& budget) const {
    Set liberties = Board::beside(prey) & empty(now);
    const int count = liberties.count();
    if (count > 2 || plies >= kMaxPlies || --budget <= 0) return false;
    while (!liberties.is_empty()) {
      Stones next = now;
      if (!play(next, colour ^ 1, liberties.take()) || next == before) continue;
      if (count == 1 || is_lost(next, now, prey, colour, plies + 1, budget)) return true;
    }
    return false;
  }

  // Puts a stone on an empty point and takes off what it captures; false if it is a suicide.
  bool play(Stones& stones, int colour, int bit) const {
    Set stone;
    stone.add(bit);
    Set &own = stones[size_t(colour)], &others = stones[size_t(colour ^ 1)];
    own = own | stone;
    Set free = empty(stones), beside = Board::beside(stone) & others;
    while (!beside.is_empty()) {
      Set chain;
      chain.add(beside.take());
      if (!has_liberties(chain, others, free, 1)) others = others.without(chain), free = free | chain;
      beside = beside.without(chain);
    }
    return has_liberties(stone, own, free, 1);
  }

  // Whether the chain of these stones has so many liberties; if not, it is complete afterwards.
  static bool has_liberties(Set& chain, const Set& space, const Set& free, int enough) {
    for (;;) {
      if ((Board::beside(chain) & free).count() >= enough) return true;
      const Set next = Board::grown(chain) & space;
      if (next == chain) return false;
      chain = next;
    }
  }

  // The prey with what its own play at `bit` has joined to it.
  static Set whole(Set prey, const Stones& now, int colour, int bit) {
    if (!Board::beside(prey).has(bit)) return prey;
    for (;;) {
      const Set next = Board::grown(prey) & now[size_t(colour)];
      if (next == prey) return prey;
      prey = next;
    }
  }

  Set empty(const Stones& now) const { return board_.all.without(now[0] | now[1]); }

  const Board& board_;
};

}  // namespace shusaku
