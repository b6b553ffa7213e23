// What lies on a shogi board and in the hands, seen by the player to move, and what a move does to it.
#pragma once

#include <utility>

#include "games/shogi/squares.h"

namespace shusaku {

// Codes of pieces: below 8 they can lie in a hand; 8 more is the promoted piece.
namespace shogi {
enum Piece : std::uint8_t {
  kNone,
  kPawn,
  kLance,
  kKnight,
  kSilver,
  kGold,
  kBishop,
  kRook,
  kKing,
  kPromoted = 8,
  kHorse = kBishop + kPromoted,
  kDragon = kRook + kPromoted
};
constexpr int kCodes = 16;  // 13, a promoted gold, is none
constexpr bool is_promoted(int code) { return code > kKing; }
constexpr int unpromoted(int code) { return is_promoted(code) ? code - kPromoted : code; }
constexpr bool can_promote(int code) { return code < kKing && code != kGold; }

struct Move {
  std::uint8_t from, to;  // squares
  std::uint8_t dropped;   // the piece, or 0
  bool promotes;
};
}  // namespace shogi

template <int N>
struct ShogiBoard {
  using Squares = ShogiSquares<N>;
  using Set = typename Squares::Set;

  Set bits[4] = {};             // bit k of the code of what lies on a square
  Set own = 0;                  // pieces of the player to move
  std::uint64_t hands[2] = {};  // own, the opponent's: byte `code` is the number of such pieces
  std::uint8_t to_play = 0;

  Set occupied() const { return (bits[0] | bits[1]) | (bits[2] | bits[3]); }
  // Both players' pieces of a code.
  template <int kCode>
  Set of() const {
    return (kCode & 1 ? bits[0] : ~bits[0]) & (kCode & 2 ? bits[1] : ~bits[1]) & (kCode & 4 ? bits[2] : ~bits[2]) &
           (kCode & 8 ? bits[3] : ~bits[3]);
  }
  Set straight_sliders() const { return bits[2] & bits[1] & bits[0]; }  // rooks and dragons
  Set slanted_sliders() const { return bits[2] & bits[1] & ~bits[0]; }  // bishops and horses
  Set golds() const {  // and what moves like them: promoted pawns, lances, knights, silvers
    return (bits[3] & ((bits[0] | bits[1]) ^ bits[2]) & ~(bits[2] & bits[1])) | of<shogi::kGold>();
  }
  int at(int square) const {
    int code = 0;
    for (int k = 0; k < 4; ++k) code |= int(Squares::has(bits[k], square)) << k;
    return code;
  }
  int in_hand(int side, int code) const { return int(hands[side] >> (8 * code) & 0xFF); }

  void put(int square, int code) {  // on an empty one
    for (int k = 0; k < 4; ++k) bits[k] |= Squares::bit(square) & -Set(code >> k & 1);
  }

  void play(shogi::Move move) {
    const Set to = Squares::bit(move.to);
    if (move.dropped) {
      hands[0] -= 1ull << (8 * move.dropped);
      put(move.to, move.dropped);
    } else {
      const int piece = at(move.from), captured = shogi::unpromoted(at(move.to));
      hands[0] += std::uint64_t(captured != 0) << (8 * captured);
      const Set left = ~(Squares::bit(move.from) | to);
      for (Set& plane : bits) plane &= left;
      own &= left;
      put(move.to, piece + 8 * move.promotes);
    }
    own |= to;
    turn();
  }

  void turn() {
    own = Squares::turned(occupied() & ~own);
    for (Set& plane : bits) plane = Squares::turned(plane);
    std::swap(hands[0], hands[1]);
    to_play ^= 1;
  }
};

}  // namespace shusaku
