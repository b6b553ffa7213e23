// A game of shogi so far: the board, what repeats, and the last plies as differences, for the planes.
#pragma once

#include <cstddef>
#include <cstring>

#include "games/game.h"
#include "games/shogi/moves.h"

namespace shusaku {

template <int N>
struct ShogiPosition {
  static constexpr int kMaxPlies = 1024;
  static constexpr int kSteps = 8;  // boards that the planes show

  // What led to a board, seen by the player who moved; `before` is 0 for a drop.
  struct Step {
    std::uint8_t from, to, before, after, captured;
    std::uint8_t repeats;  // how often the board was there before, at most 3
  };
  enum class End : std::uint8_t { kNone, kMate, kDeclared, kRepeated, kPlies };

  ShogiBoard<N> board;
  typename ShogiMoves<N>::Threats threats;  // to the king of the player to move
  std::uint16_t ply = 0, first_ply = 0;     // now, and at set-up
  End end = End::kNone;
  std::int8_t outcome = 0;  // for the player to move, at the end
  Step steps[kSteps] = {};  // of ply t at t % kSteps
  std::uint64_t past = 0;   // the sum of mix64() of all keys so far
  // Of the board after ply first_ply + t, the player to move included; its lowest bit says whether that player is in
  // check.  The last member: what of it is not in use is not copied.
  std::uint64_t keys[kMaxPlies + 1] = {};

  int length() const { return ply - first_ply; }  // plies since it was set up
  std::uint64_t key() const { return keys[length()]; }

  void copy_to(ShogiPosition& to) const {
    std::memcpy(static_cast<void*>(&to), static_cast<const void*>(this),
                offsetof(ShogiPosition, keys) + sizeof(std::uint64_t) * size_t(length() + 1));
  }
};

// Keys, repetitions and perpetual checks.
template <int N>
struct ShogiRecord {
  using Squares = ShogiSquares<N>;
  using Board = ShogiBoard<N>;
  using Position = ShogiPosition<N>;

  // Zobrist's hashing with numbers that are computed on use: no table in the cache.
  static constexpr std::uint64_t kTurn = 0x5C0FFEE0BADF00D2ull;
  static std::uint64_t on_board(int player, int code, int cell) {
    return mix64(0x71C9ull << 32 | std::uint64_t(player) << 16 | std::uint64_t(code) << 8 | std::uint64_t(cell));
  }
  // The `count`-th piece of its kind in a hand.
  static std::uint64_t in_hand(int player, int code, int count) {
    return mix64(0xB3E5ull << 32 | std::uint64_t(player) << 16 | std::uint64_t(code) << 8 | std::uint64_t(count));
  }

  static std::uint64_t key_of(const Board& b) {
    std::uint64_t key = b.to_play ? kTurn : 0;
    Squares::each(b.occupied(), [&](int s) {
      key ^= on_board(b.to_play ^ !Squares::has(b.own, s), b.at(s), absolute(b.to_play, s));
    });
    for (int side = 0; side < 2; ++side)
      for (int code = shogi::kPawn; code <= shogi::kRook; ++code)
        for (int count = b.in_hand(side, code); count > 0; --count) key ^= in_hand(b.to_play ^ side, code, count);
    return key & ~1ull;
  }
  static int absolute(int player, int square) { return player ? Squares::kSquares - 1 - square : square; }

  static void begin(Position& p) {
    p.keys[0] = key_of(p.board) | std::uint64_t(p.threats.checkers != 0);
    p.past = mix64(p.keys[0]);
  }

  // The key after a move; the board is the one before it.
  static std::uint64_t key_after(const Board& b, std::uint64_t key, const typename Position::Step& step) {
    const int me = b.to_play;
    key ^= kTurn ^ on_board(me, step.after, absolute(me, step.to));
    if (step.before)
      key ^= on_board(me, step.before, absolute(me, step.from));
    else
      key ^= in_hand(me, step.after, b.in_hand(0, step.after));
    if (step.captured) {
      const int held = shogi::unpromoted(step.captured);
      key ^= on_board(me ^ 1, step.captured, absolute(me, step.to)) ^ in_hand(me, held, b.in_hand(0, held) + 1);
    }
    return key & ~1ull;
  }

  // How often the newest board was there before.
  static int repeats(const Position& p) {
    const int n = p.length();
    const std::uint64_t key = p.keys[n];
    std::uint64_t count = 0;
    for (int t = 0; t < n; ++t) count += p.keys[t] == key;
    return int(count);
  }

  // Since the first board like the newest one: whether every ply of the player to move gave check, and of the opponent.
  struct Perpetual {
    bool own = true, others = true;
  };
  static Perpetual perpetual(const Position& p) {
    Perpetual result;
    const int n = p.length();
    int first = 0;
    while (p.keys[first] != p.keys[n]) ++first;
    for (int t = n; t > first; t -= 2) result.others &= p.keys[t] & 1, result.own &= p.keys[t - 1] & 1;
    return result;
  }

  // Of all that a coming repetition depends on: the boards so far, how often each was there, and for each player those
  // since which that player has given nothing but checks.
  static std::uint64_t history_key(const Position& p) {
    std::uint64_t sum = p.past;
    for (int side = 0; side < 2; ++side) {
      int begin = p.length() - side;  // boards after plies of one player: every second one
      while (begin >= 0 && p.keys[begin] & 1) begin -= 2;
      for (int t = begin < 0 ? 0 : begin; t < p.length() - side; ++t)
        sum += mix64(p.keys[t] + std::uint64_t(2 * side + 2));
    }
    return mix64(sum);
  }
};

}  // namespace shusaku
