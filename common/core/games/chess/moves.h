// Legal moves of chess: which squares the king may not enter, which pieces are pinned, and what everything reaches.
#pragma once

#include <algorithm>

#include "games/chess/board.h"

namespace shusaku::chess {

// What stands between the player to move and free choice.
struct Dangers {
  Squares checkers = 0;
  Squares allowed = ~0ull;      // where a piece may go: any square, or one that ends the check; none in a double check
  Squares pinned_straight = 0;  // lines from the king to a slider with one own piece on them, the slider included
  Squares pinned_diagonal = 0;
};

inline Dangers dangers(const Board& b) {
  Dangers d;
  const Squares occupied = b.occupied(), other = occupied & ~b.own;
  const int king = b.king();
  const Squares pawns = other & b.pawns(), knights = other & b.knights();
  const Squares straights = other & b.straights(), diagonals = other & b.diagonals();
  d.checkers = (kKnight[size_t(king)] & knights) | (up_captures(bit(king)) & pawns);
  const auto look_along = [&](Squares sliders, Squares& pinned) {
    for (; sliders; sliders &= sliders - 1) {
      const int slider = lowest(sliders);
      const Squares between = kBetween[size_t(king)][size_t(slider)], blockers = between & occupied;
      if (blockers == 0)
        d.checkers |= bit(slider);
      else if ((blockers & (blockers - 1)) == 0 && (blockers & b.own))
        pinned |= between | bit(slider);
    }
  };
  look_along(straights & kStraight[size_t(king)], d.pinned_straight);
  look_along(diagonals & kDiagonal[size_t(king)], d.pinned_diagonal);
  if (d.checkers) {
    const int checker = lowest(d.checkers);
    d.allowed = d.checkers & (d.checkers - 1) ? 0 : kBetween[size_t(king)][size_t(checker)] | bit(checker);
  }
  return d;
}

// What the opponent attacks, as if the king were not there.
inline Squares attacked(const Board& b) {
  const Squares other = b.other(), occupied = b.occupied() ^ bit(b.king());
  Squares all = down_captures(other & b.pawns()) | kKing[size_t(lowest(other & b.kings()))];
  for (Squares left = other & b.knights(); left; left &= left - 1) all |= kKnight[size_t(lowest(left))];
  for (Squares left = other & b.straights(); left; left &= left - 1) all |= straight_moves(lowest(left), occupied);
  for (Squares left = other & b.diagonals(); left; left &= left - 1) all |= diagonal_moves(lowest(left), occupied);
  return all;
}

// Where the king may go, castling included.
inline Squares king_moves(const Board& b, const Dangers& d) {
  const Squares occupied = b.occupied(), near = kKing[size_t(b.king())] & ~b.own;
  const bool may_short = (b.rights & kOwnShort) && !(occupied & 0x60),
             may_long = (b.rights & kOwnLong) && !(occupied & 0x0E);
  if (near == 0 && !may_short && !may_long) return 0;
  const Squares unsafe = attacked(b);
  Squares reached = near & ~unsafe;
  if (d.checkers) return reached;
  if (may_short && !(unsafe & 0x60)) reached |= bit(6);
  if (may_long && !(unsafe & 0x0C)) reached |= bit(2);
  return reached;
}

// Calls pieces(from, targets) for every piece but the pawns, and pawns(targets, distance) for each way in which pawns
// move, a pawn that moves to t coming from t - distance; en passant as well.  Stops if one of them returns true.
template <class Pieces, class Pawns>
[[gnu::always_inline]] inline bool each_target(const Board& b, const Dangers& d, Pieces pieces, Pawns pawns) {
  const Squares occupied = b.occupied(), other = occupied & ~b.own;
  if (d.allowed == 0) return pieces(b.king(), king_moves(b, d));
  const Squares own_pawns = b.own & b.pawns(), pushers = own_pawns & ~d.pinned_diagonal,
                capturers = own_pawns & ~d.pinned_straight;
  const Squares ahead =
      ((pushers & ~d.pinned_straight) << 8 | ((pushers & d.pinned_straight) << 8 & d.pinned_straight)) & ~occupied;
  if (pawns(ahead & d.allowed, 8)) return true;
  if (pawns((ahead & kRank3) << 8 & ~occupied & d.allowed, 16)) return true;
  const Squares unpinned = capturers & ~d.pinned_diagonal, pinned = capturers & d.pinned_diagonal,
                targets = other & d.allowed;
  if (pawns(((unpinned & ~kFileA) << 7 | ((pinned & ~kFileA) << 7 & d.pinned_diagonal)) & targets, 7)) return true;
  if (pawns(((unpinned & ~kFileH) << 9 | ((pinned & ~kFileH) << 9 & d.pinned_diagonal)) & targets, 9)) return true;
  if (b.en_passant >= 0)
    for (Squares left = en_passant_pawns(b, b.en_passant); left; left &= left - 1)
      if (pawns(bit(b.en_passant), b.en_passant - lowest(left))) return true;
  const Squares any_pinned = d.pinned_straight | d.pinned_diagonal, free = ~b.own & d.allowed;
  for (Squares left = b.own & b.knights() & ~any_pinned; left; left &= left - 1)
    if (pieces(lowest(left), kKnight[size_t(lowest(left))] & free)) return true;
  const Squares straights = b.own & b.straights(), diagonals = b.own & b.diagonals();
  for (Squares left = straights & ~any_pinned; left; left &= left - 1)
    if (pieces(lowest(left), straight_moves(lowest(left), occupied) & free)) return true;
  for (Squares left = diagonals & ~any_pinned; left; left &= left - 1)
    if (pieces(lowest(left), diagonal_moves(lowest(left), occupied) & free)) return true;
  // A pinned slider stays on the king's line; no move of it meets a line that another slider pins along.
  for (Squares left = straights & d.pinned_straight; left; left &= left - 1)
    if (pieces(lowest(left), straight_moves(lowest(left), occupied) & free & d.pinned_straight)) return true;
  for (Squares left = diagonals & d.pinned_diagonal; left; left &= left - 1)
    if (pieces(lowest(left), diagonal_moves(lowest(left), occupied) & free & d.pinned_diagonal)) return true;
  return pieces(b.king(), king_moves(b, d));  // last: it costs the most, and has_move() seldom comes so far
}

inline bool has_move(const Board& b, const Dangers& d) {
  return each_target(
      b, d, [](int, Squares targets) { return targets != 0; }, [](Squares targets, int) { return targets != 0; });
}

inline int count_moves(const Board& b, const Dangers& d) {
  int count = 0;
  each_target(
      b, d,
      [&](int, Squares targets) {
        count += std::popcount(targets);
        return false;
      },
      [&](Squares targets, int) {
        count += std::popcount(targets) + 3 * std::popcount(targets & kRank8);
        return false;
      });
  return count;
}

// The targets of every piece, by its square; a pawn's promotions are targets on the last rank.
struct Reach {
  Squares movers = 0;
  Squares targets[64];  // only those of `movers` are set
};

inline void reach(const Board& b, const Dangers& d, Reach& r) {
  const Squares own_pawns = b.own & b.pawns();
  for (Squares left = own_pawns; left; left &= left - 1) r.targets[lowest(left)] = 0;
  each_target(
      b, d,
      [&](int from, Squares targets) {
        r.targets[from] = r.movers & bit(from)
                              ? r.targets[from] | targets
                              : targets;  // a queen comes twice: as a straight and as a diagonal slider
        if (targets) r.movers |= bit(from);
        return false;
      },
      [&](Squares targets, int distance) {
        r.movers |= targets >> distance;
        for (Squares left = targets; left; left &= left - 1) r.targets[lowest(left) - distance] |= left & -left;
        return false;
      });
}

constexpr Piece kPromotions[] = {kQueen, kKnightPiece, kBishop, kRook};

// Calls visit(move) for every legal move.
template <class Visit>
void each_move(const Board& b, const Dangers& d, Visit visit) {
  Reach r;
  reach(b, d, r);
  for (Squares movers = r.movers; movers; movers &= movers - 1) {
    const int from = lowest(movers);
    const bool is_pawn = b.pawns() & bit(from);
    for (Squares left = r.targets[from]; left; left &= left - 1) {
      const int to = lowest(left);
      if (is_pawn && to >= 56)
        for (Piece kind : kPromotions) visit(Move{std::uint8_t(from), std::uint8_t(to), std::uint8_t(kind)});
      else
        visit(Move{std::uint8_t(from), std::uint8_t(to), kNone});
    }
  }
}

inline std::uint64_t perft(const Board& b, int depth) {
  const Dangers d = dangers(b);
  if (depth == 1) return std::uint64_t(count_moves(b, d));
  std::uint64_t nodes = 0;
  each_move(b, d, [&](Move m) {
    Board next = b;
    make(next, m);
    nodes += perft(next, depth - 1);
  });
  return nodes;
}

}  // namespace shusaku::chess
