// Chess positions and moves as text: FEN, UCI's moves and SAN (PGN standard, 8.2.3), and a board as text.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "games/chess/moves.h"
#include "games/grid_text.h"

namespace shusaku::chess {

constexpr char kLetters[] = ".PNBRQK";
constexpr int kMostFullMoves = 32'000;  // plies are counted in 16 bits

// A position as in FEN, with the board as the player to move sees it.
struct SetUp {
  Board board;
  int to_play = 0;
  int full_moves = 1;
};

inline std::string square_name(int square) { return {char('a' + square % 8), char('1' + square / 8)}; }

// A square on white's board; -1 if the text is none.
inline int read_square(std::string_view text) {
  if (text.size() != 2 || text[0] < 'a' || text[0] > 'h' || text[1] < '1' || text[1] > '8') return -1;
  return 8 * (text[1] - '1') + text[0] - 'a';
}

class FenReader {
 public:
  explicit FenReader(const std::string& text) : text_(text) {}

  SetUp read() {
    const std::vector<std::string> fields = split_words(text_);
    if (fields.size() != 4 && fields.size() != 6)
      fail("it has " + std::to_string(fields.size()) + " fields; give six, or four without the two counters");
    read_pieces(fields[0]);
    if (fields[1] != "w" && fields[1] != "b") fail("player to move " + quoted(fields[1]) + ": must be w or b");
    is_black_ = fields[1] == "b";
    read_rights(fields[2]);
    const int en_passant = read_en_passant(fields[3]);
    if (fields.size() == 6) {
      set_up_.board.quiet_plies = std::uint16_t(number(fields[4], "halfmove clock", 0, 100));
      set_up_.full_moves = number(fields[5], "fullmove number", 1, kMostFullMoves);
      if (en_passant >= 0 && set_up_.board.quiet_plies)
        fail("en passant " + quoted(fields[3]) + " with halfmove clock " + quoted(fields[4]) +
             ": a pawn has just moved; say - or 0");
    }
    set_up_.to_play = is_black_;
    Board& b = set_up_.board;
    if (is_black_) b = b.turn();
    const Board seen = b.turn();
    if (attackers(seen, seen.king(), seen.occupied()))
      fail(std::string(is_black_ ? "white" : "black") + " is in check, but it is " + (is_black_ ? "black" : "white") +
           "'s move; say " + (is_black_ ? "w" : "b") + " for the player to move");
    if (std::popcount(attackers(b, b.king(), b.occupied())) > 2)
      fail("three pieces give check at once, which no move can do; take one away");
    if (en_passant >= 0) {
      const int square = is_black_ ? turned(en_passant) : en_passant;
      if (en_passant_pawns(b, square)) b.en_passant = std::int8_t(square);  // else it changes nothing
    }
    return set_up_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument("FEN " + quoted(text_) + ": " + what);
  }

  void read_pieces(const std::string& field) {
    Board& b = set_up_.board;
    int rank = 7, file = 0;
    bool was_digit = false;
    const auto end_rank = [&] {
      if (file != 8)
        fail("rank " + std::to_string(rank + 1) + " has " + std::to_string(file) + " squares; it must have 8");
    };
    for (char c : field) {
      if (c == '/') {
        end_rank();
        if (--rank < 0) fail("it has more than 8 ranks");
        file = 0, was_digit = false;
      } else if (c >= '1' && c <= '8') {
        if (was_digit) fail("rank " + std::to_string(rank + 1) + " has two numbers side by side; add them up");
        file += c - '0', was_digit = true;
      } else {
        const char upper = c >= 'a' && c <= 'z' ? char(c - 32) : c;
        const auto piece = std::string_view(kLetters).find(upper);
        if (upper == '.' || piece == std::string_view::npos)
          fail("piece " + quoted({c}) + ": must be one of PNBRQK, pnbrqk");
        if (file < 8) {
          b.put(8 * rank + file, int(piece));
          if (c == upper) b.own |= bit(8 * rank + file);
        }
        ++file, was_digit = false;
      }
      if (file > 8) fail("rank " + std::to_string(rank + 1) + " has more than 8 squares");
    }
    end_rank();
    if (rank != 0) fail("it has " + std::to_string(8 - rank) + " ranks; it must have 8");
    if (const Squares astray = b.pawns() & (kRank1 | kRank8))
      fail("a pawn stands on " + square_name(lowest(astray)) + "; pawns stand on ranks 2 to 7");
    for (const auto& [name, pieces] : {std::pair("white", b.own), std::pair("black", b.other())}) {
      const auto count = [&](Squares kind) { return std::popcount(pieces & kind); };
      const int pawns = count(b.pawns());
      if (count(b.kings()) != 1)
        fail(std::string(name) + " has " + std::to_string(count(b.kings())) + " kings; must have one");
      const int promoted = std::max(0, count(b.queens()) - 1) + std::max(0, count(b.rooks()) - 2) +
                           std::max(0, count(b.bishops()) - 2) + std::max(0, count(b.knights()) - 2);
      if (pawns + promoted > 8)
        fail(std::string(name) + " has " + std::to_string(pawns) + " pawns and " + std::to_string(promoted) +
             " pieces more than at the start; together there can be 8 at most");
    }
  }

  void read_rights(const std::string& field) {
    if (field == "-") return;
    std::size_t last = 0;
    bool is_first = true;
    for (char c : field) {
      const auto at = std::string_view("KQkq").find(c);
      if (at == std::string_view::npos || (!is_first && at <= last))
        fail("castling " + quoted(field) + ": must be - or some of KQkq in this order");
      last = at, is_first = false;
      const Board& b = set_up_.board;
      const bool is_black = at >= 2;
      const int first = is_black ? 56 : 0, rook = first + (at % 2 ? 0 : 7);
      const Squares pieces = is_black ? b.other() : b.own;
      if (!(pieces & b.kings() & bit(first + 4)) || !(pieces & b.rooks() & bit(rook)))
        fail("castling " + quoted({c}) + " needs a king on " + square_name(first + 4) + " and a rook on " +
             square_name(rook) + "; leave it out");
      set_up_.board.rights |= std::uint8_t(1u << at);
    }
  }

  int read_en_passant(const std::string& field) const {
    if (field == "-") return -1;
    const int square = read_square(field);
    if (square < 0 || square / 8 != (is_black_ ? 2 : 5))
      fail("en passant " + quoted(field) + ": must be - or a square of rank " + (is_black_ ? "3" : "6"));
    const Board& b = set_up_.board;
    const int pawn = is_black_ ? square + 8 : square - 8, origin = is_black_ ? square - 8 : square + 8;
    if (!(b.pawns() & (is_black_ ? b.own : b.other()) & bit(pawn)) || (b.occupied() & (bit(square) | bit(origin))))
      fail("en passant " + quoted(field) + ": no pawn can have come to " + square_name(pawn) + " from " +
           square_name(origin) + "; say -");
    return square;
  }

  int number(const std::string& field, const char* name, int low, int high) const {
    const int value = read_number(field);
    if (value < low || value > high)
      fail(std::string(name) + " " + quoted(field) + ": must be a number in [" + std::to_string(low) + ", " +
           std::to_string(high) + "]");
    return value;
  }

  const std::string& text_;
  SetUp set_up_;
  bool is_black_ = false;
};

inline std::string write_fen(const SetUp& s) {
  const bool is_black = s.to_play == 1;
  const Board b = is_black ? s.board.turn() : s.board;  // as white sees it
  std::string text = write_rows(8, [&](int row, int file) -> std::string {
    const int square = 8 * (7 - row) + file, piece = b.piece(square);
    if (piece == kNone) return "";
    return {char(kLetters[piece] | (b.own & bit(square) ? 0 : 32))};
  });
  text += is_black ? " b " : " w ";
  for (int k = 0; k < 4; ++k)
    if (b.rights >> k & 1) text += "KQkq"[k];
  if (b.rights == 0) text += '-';
  text += ' ' + (b.en_passant < 0 ? "-" : square_name(b.en_passant));
  return text + ' ' + std::to_string(b.quiet_plies) + ' ' + std::to_string(s.full_moves);
}

inline std::string write_uci(Move m, int to_play) {
  const auto name = [&](int square) { return square_name(to_play ? turned(square) : square); };
  std::string text = name(m.from) + name(m.to);
  if (m.promotion) text += char(kLetters[m.promotion] | 32);
  return text;
}

// As the player to move sees it; from == to if the text is no such move.
inline Move read_uci(std::string_view text, int to_play) {
  const int from = read_square(text.substr(0, 2)), to = text.size() < 4 ? -1 : read_square(text.substr(2, 2));
  if (from < 0 || to < 0 || text.size() > 5) return {};
  const auto kind = text.size() == 5 ? std::string_view(".pnbrqk").find(text[4]) : 0;
  if (text.size() == 5 && (kind < kKnightPiece || kind > kQueen)) return {};
  const auto seen = [&](int square) { return std::uint8_t(to_play ? turned(square) : square); };
  return {seen(from), seen(to), std::uint8_t(kind)};
}

inline std::string render(const SetUp& s) {
  static constexpr const char* kFigures[2][7] = {{"·", "♟", "♞", "♝", "♜", "♛", "♚"},
                                                 {"·", "♙", "♘", "♗", "♖", "♕", "♔"}};
  const Board b = s.to_play ? s.board.turn() : s.board;
  std::string text;
  for (int rank = 7; rank >= 0; --rank) {
    text += char('1' + rank);
    for (int file = 0; file < 8; ++file) {
      const int square = 8 * rank + file;
      text += std::string(" ") + kFigures[b.own >> square & 1][b.piece(square)];
    }
    text += '\n';
  }
  return text + "  a b c d e f g h\n";
}

}  // namespace shusaku::chess
