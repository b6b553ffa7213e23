// The planes of AlphaGo (Silver et al. 2016, Extended Data Table 2), as bits.
//
//   0-2    stones of the player to move, of the opponent; empty points
//   3      ones
//   4-11   1, 2, ... 7, at least 8 plies since this stone was played; set-up stones count as old
//   12-19  so many liberties has the chain of this stone
//   20-27  so many stones would a play here capture
//   28-35  so many own stones would it leave in atari, or take off in a suicide
//   36-43  so many liberties would its chain have
//   44     a play here captures a chain in a ladder: see ladders.h
//   45     a play here saves a chain in atari from a ladder, or from capture at once
//   46     a legal play that fills no own eye
//   47     zeros
//
// The paper splits each number into eight planes, one for each of 1 to 7 and one for 8 or more: 0 has none.  Planes 20
// to 46 are of legal plays only.  An eye is an empty point with own stones on all sides, and opponents on at most one
// of its diagonals, on none at the border, as in rollouts; the paper has no such rule.
#pragma once

#include <algorithm>
#include <array>

#include "games/bit_planes.h"
#include "games/go/ladders.h"
#include "games/go/stones.h"

namespace shusaku {

template <int N>
class GoAlphaGoPlanes {
 public:
  using Board = GoBoard<N>;
  using Position = GoPosition<N>;
  using Set = typename Board::Set;
  using View = std::array<std::uint16_t, Board::kPoints>;
  static constexpr int kPlanes = 48;

  explicit GoAlphaGoPlanes(const Board& board) : board_(board), ladders_(board) {}

  // Of a position whose legal plays are known, seen through `view`.
  void write(const Position& p, const Set& legal, const View& view, std::uint8_t* bits) const {
    const auto& now = p.boards[size_t(p.ply) & 7];
    const Set free = board_.all.without(now[0] | now[1]);
    const Scene scene = {p, now, free, legal};
    Chains chains;
    find_chains(scene, chains);

    const int cells = board_.size * board_.size;
    PlaneWriter out(bits);
    const auto add = [&](const Set& points) {
      Cells plane;
      points.each([&](int bit) { plane.add(view[size_t(Board::point(bit))]); });
      out.add(plane.words, cells);
    };
    const auto add_numbers = [&](auto fill) {
      alignas(32) std::uint8_t numbers[kCellWords * 64] = {};  // bit k of a cell: its plane k
      fill([&](int bit, int number) {
        numbers[view[size_t(Board::point(bit))]] = std::uint8_t(number > 0 ? 1 << (std::min(number, 8) - 1) : 0);
      });
      out.add_all(to_planes<kCellWords>(numbers), cells);
    };

    add(now[p.to_play]), add(now[p.to_play ^ 1]), add(free), add(board_.all);
    add_numbers([&](auto put) { put_turns(scene, put); });
    add_numbers([&](auto put) {
      (now[0] | now[1]).each([&](int bit) { put(bit, chains.of(Board::point(bit)).liberties_count); });
    });
    std::array<Play, N * N> plays;
    int count = 0;
    legal.each([&](int bit) { plays[size_t(count++)] = play_of(scene, chains, bit); });
    for (const auto member : {&Play::captured, &Play::in_atari, &Play::liberties})
      add_numbers([&](auto put) {
        for (int i = 0; i < count; ++i) put(plays[size_t(i)].bit, plays[size_t(i)].*member);
      });
    add(ladder_captures(scene, chains)), add(ladder_escapes(scene, chains));
    Set sensible = legal;
    legal.each([&](int bit) {
      if (is_own_eye(p, Board::point(bit))) sensible.remove(bit);
    });
    add(sensible), add(Set{});
    out.finish();
  }

 private:
  static constexpr int kCellWords = (N * N + 63) / 64;
  using Cells = PointSet<kCellWords>;  // bit = cell

  struct Scene {
    const Position& p;
    const std::array<Set, 2>& now;
    const Set &free, &legal;
  };
  struct Chain {
    Set liberties;
    int first, size, liberties_count;  // a stone of it; their number
  };
  struct Chains {
    std::array<Chain, N * N> list;
    std::array<std::uint16_t, Board::kPoints> index;  // of stones
    int count[2], begin[2];                           // by colour
    const Chain& of(int point) const { return list[index[size_t(point)]]; }
  };
  struct Play {
    int bit, captured, in_atari, liberties;
  };

  static void find_chains(const Scene& scene, Chains& chains) {
    int total = 0;
    for (int colour = 0; colour < 2; ++colour) {
      chains.begin[colour] = total;
      for (Set left = scene.now[size_t(colour)]; !left.is_empty(); ++total) {
        Chain& chain = chains.list[size_t(total)];
        int bit = left.take();
        chain.first = Board::point(bit), chain.size = 0;
        Set stones;
        int stone = chain.first;
        do {
          bit = Board::bit(stone);
          stones.add(bit), left.remove(bit);
          chains.index[size_t(stone)] = std::uint16_t(total);
          ++chain.size;
        } while ((stone = scene.p.next[size_t(stone)]) != chain.first);
        chain.liberties = Board::beside(stones) & scene.free;
        chain.liberties_count = chain.liberties.count();
      }
      chains.count[colour] = total - chains.begin[colour];
    }
  }

  template <class Put>
  static void put_turns(const Scene& scene, Put put) {
    const Position& p = scene.p;
    for (int colour = 0; colour < 2; ++colour) {
      Set left = scene.now[size_t(colour)];
      for (int turns = 1; turns < 8 && turns <= p.ply; ++turns) {
        const Set older = left & p.boards[size_t(p.ply - turns) & 7][size_t(colour)];
        left.without(older).each([&](int bit) { put(bit, turns); });
        left = older;
      }
      left.each([&](int bit) { put(bit, 8); });
    }
  }

  static Play play_of(const Scene& scene, const Chains& chains, int bit) {
    const Position& p = scene.p;
    const int point = Board::point(bit), me = p.to_play;
    const Chain* beside[4];
    int known = 0, empty = 0, captured = 0, size = 1;
    bool is_joined = false;
    for (const int step : Board::kSteps) {
      const auto colour = p.colour[size_t(point + step)];
      empty += colour == Board::kEmpty;
      if (colour >= Board::kEmpty) continue;
      const Chain* chain = &chains.of(point + step);
      if (std::find(beside, beside + known, chain) != beside + known) continue;
      beside[known++] = chain;
      if (colour == me)
        size += chain->size, is_joined = true;
      else if (chain->liberties_count == 1)
        captured += chain->size;
    }
    int liberties = empty;
    if (is_joined || captured) {
      Set one, gone;
      one.add(bit);
      Set own = one, open = Board::beside(one) & scene.free;
      for (int i = 0; i < known; ++i) {
        const bool is_own = p.colour[size_t(beside[i]->first)] == me;
        if (is_own) open = open | beside[i]->liberties;
        if (captured && is_own) own = own | GoStones<N>::chain(p, beside[i]->first);
        if (!is_own && beside[i]->liberties_count == 1) gone = gone | GoStones<N>::chain(p, beside[i]->first);
      }
      if (captured) open = open | (gone & Board::beside(own));
      liberties = open.without(one).count();
    }
    return {bit, captured, liberties <= 1 ? size : 0, liberties};
  }

  Set ladder_captures(const Scene& scene, const Chains& chains) const {
    const int prey = scene.p.to_play ^ 1;
    Set found;
    for_chains(chains, prey, 2, [&](const Chain& chain) {
      const Set stones = GoStones<N>::chain(scene.p, chain.first);
      (chain.liberties & scene.legal).without(found).each([&](int bit) {
        if (ladders_.captures(scene.now, stones, prey, bit)) found.add(bit);
      });
    });
    return found;
  }

  Set ladder_escapes(const Scene& scene, const Chains& chains) const {
    const int prey = scene.p.to_play;
    Set found;
    for_chains(chains, prey, 1, [&](const Chain& chain) {
      const Set stones = GoStones<N>::chain(scene.p, chain.first);
      (ladders_.ways_out(scene.now, stones, prey) & scene.legal).without(found).each([&](int bit) {
        if (ladders_.escapes(scene.now, stones, prey, bit)) found.add(bit);
      });
    });
    return found;
  }

  template <class F>
  static void for_chains(const Chains& chains, int colour, int liberties, F f) {
    for (int i = chains.begin[colour]; i < chains.begin[colour] + chains.count[colour]; ++i)
      if (chains.list[size_t(i)].liberties_count == liberties) f(chains.list[size_t(i)]);
  }

  bool is_own_eye(const Position& p, int point) const {
    for (const int step : Board::kSteps)
      if (const auto colour = p.colour[size_t(point + step)]; colour != p.to_play && colour != Board::kBorder)
        return false;
    const int row = board_.cell_of[size_t(point)] / board_.size, column = board_.cell_of[size_t(point)] % board_.size;
    int opponents = 0, outside = 0;
    for (const int y : {row - 1, row + 1})
      for (const int x : {column - 1, column + 1}) {
        if (std::min(x, y) < 0 || std::max(x, y) >= board_.size)
          ++outside;
        else
          opponents += p.colour[size_t((y + 1) * Board::kStride + x)] == (p.to_play ^ 1);
      }
    return opponents + (outside > 0) < 2;
  }

  const Board& board_;
  GoLadders<N> ladders_;
};

}  // namespace shusaku
