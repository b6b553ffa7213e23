// A few planes that say what a small network finds out slowly: how close to capture each chain is, and where ko,
// superko and the ban on suicide forbid a play.  KataGo's network sees the same (cpp/neuralnet/nninputs.cpp, features 3
// to 6).
//
//   0-1  stones of the player to move, of the opponent
//   2-4  stones of chains with one, two, three liberties
//   5    empty points where the player to move may not play
//   6-7  the last play, and the one before; a pass has no point
#pragma once

#include <array>

#include "games/bit_planes.h"
#include "games/go/stones.h"

namespace shusaku {

template <int N>
class GoLibertyPlanes {
 public:
  using Board = GoBoard<N>;
  using Position = GoPosition<N>;
  using Set = typename Board::Set;
  using View = std::array<std::uint16_t, Board::kPoints>;
  static constexpr int kPlanes = 8;

  explicit GoLibertyPlanes(const Board& board) : board_(board) {}

  // Of a position whose legal plays are known, seen through `view`.
  void write(const Position& p, const Set& legal, const View& view, std::uint8_t* bits) const {
    const auto& now = p.boards[size_t(p.ply) & 7];
    const Set free = board_.all.without(now[0] | now[1]);
    alignas(32) std::uint8_t planes[kCellWords * 64] = {};  // bit k of a cell: its plane k
    const auto add = [&](int plane, const Set& points) {
      points.each([&](int bit) { planes[view[size_t(Board::point(bit))]] |= std::uint8_t(1 << plane); });
    };
    add(0, now[p.to_play]), add(1, now[p.to_play ^ 1]);
    for (Set left = now[0] | now[1]; !left.is_empty();) {
      const int stone = Board::point(left.take());
      const Set chain = GoStones<N>::chain(p, stone);
      left = left.without(chain);
      if (p.liberties[p.head[size_t(stone)]] > 4 * 3) continue;  // each is counted for four stones at most
      if (const int liberties = (Board::beside(chain) & free).count(); liberties <= 3) add(1 + liberties, chain);
    }
    add(5, free.without(legal));
    for (const auto& [plane, cell] : {std::pair(6, p.last), std::pair(7, p.before_last)})
      if (cell >= 0 && cell < board_.size * board_.size)
        planes[view[board_.point_of[size_t(cell)]]] |= std::uint8_t(1 << plane);
    PlaneWriter out(bits);
    out.add_all(to_planes<kCellWords>(planes), board_.size * board_.size);
    out.finish();
  }

 private:
  static constexpr int kCellWords = (N * N + 63) / 64;

  const Board& board_;
};

}  // namespace shusaku
