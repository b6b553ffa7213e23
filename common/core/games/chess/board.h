// A chess board as the player to move sees it, and what its moves do.  After a move the board is turned around, so that
// one player's rules are all the rules there are.
#pragma once

#include "games/chess/squares.h"
#include "games/game.h"

namespace shusaku::chess {

enum Piece : int { kNone, kPawn, kKnightPiece, kBishop, kRook, kQueen, kKingPiece };  // as its three bits are stored

// Rights to castle: the king to the g file, the c file; those of the opponent two bits higher.
constexpr int kOwnShort = 1, kOwnLong = 2;

struct Pieces {
  Squares own = 0;       // pieces of the player to move
  Squares bits[3] = {};  // what stands on a square: bit k of its Piece

  Squares occupied() const { return bits[0] | bits[1] | bits[2]; }
  Squares other() const { return occupied() & ~own; }
  Squares pawns() const { return bits[0] & ~bits[1] & ~bits[2]; }
  Squares knights() const { return bits[1] & ~bits[0] & ~bits[2]; }
  Squares bishops() const { return bits[0] & bits[1]; }
  Squares rooks() const { return bits[2] & ~bits[0] & ~bits[1]; }
  Squares queens() const { return bits[0] & bits[2]; }
  Squares kings() const { return bits[1] & bits[2]; }
  Squares diagonals() const { return bits[0] & (bits[1] ^ bits[2]); }  // bishops and queens
  Squares straights() const { return bits[2] & ~bits[1]; }             // rooks and queens
  Squares of(int piece) const {
    return (piece & 1 ? bits[0] : ~bits[0]) & (piece & 2 ? bits[1] : ~bits[1]) & (piece & 4 ? bits[2] : ~bits[2]);
  }
  int piece(int square) const {
    return int(bits[0] >> square & 1) | int(bits[1] >> square & 1) << 1 | int(bits[2] >> square & 1) << 2;
  }
  int king() const { return lowest(own & kings()); }

  void put(int square, int piece) {
    for (int k = 0; k < 3; ++k) bits[k] |= Squares(piece >> k & 1) << square;
  }
  void clear(Squares squares) {
    own &= ~squares;
    for (Squares& b : bits) b &= ~squares;
  }

  // As the opponent sees them.
  Pieces turned_around() const { return {turned(other()), {turned(bits[0]), turned(bits[1]), turned(bits[2])}}; }
};

struct Board : Pieces {
  std::uint8_t rights = 0;
  std::int8_t en_passant = -1;    // the square behind a pawn of the opponent that may be taken so; set only if legal
  std::uint16_t quiet_plies = 0;  // since a capture or a pawn's move

  // As the opponent sees it.
  Board turn() const {
    Board b{turned_around()};
    b.rights = std::uint8_t(rights >> 2 | (rights & 3) << 2);
    b.en_passant = std::int8_t(en_passant < 0 ? -1 : turned(en_passant));
    b.quiet_plies = quiet_plies;
    return b;
  }

  // Equal for positions that count as the same when they repeat (FIDE Laws of Chess 9.2.3), the player to move apart.
  std::uint64_t key() const {
    const std::uint64_t pieces = mix64(own + 0x9E3779B97F4A7C15ull) + mix64(bits[0] ^ 0xD1B54A32D192ED03ull) +
                                 mix64(bits[1] ^ 0x8CB92BA72F3D8DD7ull) + mix64(bits[2] ^ 0xAEF17502108EF2D9ull);
    return mix64(pieces + (std::uint64_t(rights) << 8 | std::uint8_t(en_passant)) * 0xDB4F0B9175AE2165ull);
  }
};

struct Move {
  std::uint8_t from, to, promotion;  // a Piece, or kNone
};

// Pieces of the opponent that attack `square` when the board is occupied so.
inline Squares attackers(const Board& b, int square, Squares occupied) {
  const Squares other = b.other();
  return other & ((kKnight[size_t(square)] & b.knights()) | (kKing[size_t(square)] & b.kings()) |
                  (up_captures(bit(square)) & b.pawns()) | (straight_moves(square, occupied) & b.straights()) |
                  (diagonal_moves(square, occupied) & b.diagonals()));
}

// Whether the pawn on `from` may take en passant on `to`: both pawns leave their rank at once, which may uncover a
// line.
inline bool is_en_passant_legal(const Board& b, int from, int to) {
  const Squares taken = bit(to - 8), occupied = (b.occupied() ^ bit(from) ^ taken) | bit(to);
  return (attackers(b, b.king(), occupied) & ~taken) == 0;
}

// Pawns that may take en passant.
inline Squares en_passant_pawns(const Board& b, int to) {
  Squares pawns = 0;
  for (Squares left = down_captures(bit(to)) & b.own & b.pawns(); left; left &= left - 1)
    if (is_en_passant_legal(b, lowest(left), to)) pawns |= left & -left;
  return pawns;
}

// Rights that are left when something moves from or to a square.
constexpr auto kRightsKept = [] {
  std::array<std::uint8_t, 64> kept{};
  kept.fill(15);
  kept[7] = 15 & ~1, kept[0] = 15 & ~2, kept[4] = 15 & ~3;
  kept[63] = 15 & ~4, kept[56] = 15 & ~8, kept[60] = 15 & ~12;
  return kept;
}();

// Makes a legal move and turns the board.
inline void make(Board& b, Move m) {
  const int piece = b.piece(m.from);
  const Squares from = bit(m.from), to = bit(m.to);
  const bool takes = b.occupied() & to;
  b.clear(from | to);
  b.own |= to;
  b.put(m.to, m.promotion ? m.promotion : piece);
  b.rights &= kRightsKept[m.from] & kRightsKept[m.to];
  b.quiet_plies = takes || piece == kPawn ? 0 : std::uint16_t(b.quiet_plies + 1);
  const int before = b.en_passant;
  b.en_passant = -1;
  bool may_be_taken = false;
  if (piece == kPawn) {
    if (m.to == before) b.clear(bit(m.to - 8));
    may_be_taken = m.to - m.from == 16;
  } else if (piece == kKingPiece && (m.to - m.from == 2 || m.from - m.to == 2)) {  // castling: the rook jumps over
    const int rook = m.to > m.from ? 7 : 0, next = m.to > m.from ? 5 : 3;
    b.clear(bit(rook));
    b.own |= bit(next);
    b.put(next, kRook);
  }
  b = b.turn();
  if (may_be_taken) {
    const int square = turned(m.from + 8);
    if (en_passant_pawns(b, square)) b.en_passant = std::int8_t(square);
  }
}

}  // namespace shusaku::chess
