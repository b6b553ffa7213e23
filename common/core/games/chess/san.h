// Moves in standard algebraic notation (PGN standard, 8.2.3): "Nbd7", "exd6", "O-O", "a8=Q+".
#pragma once

#include "games/chess/text.h"

namespace shusaku::chess {

inline std::string write_san(const Board& b, const Dangers& d, Move m, int to_play) {
  const auto name = [&](int square) { return square_name(to_play ? turned(square) : square); };
  const int piece = b.piece(m.from), width = m.to - m.from;
  std::string text;
  if (piece == kKingPiece && (width == 2 || width == -2)) {
    text = width == 2 ? "O-O" : "O-O-O";
  } else {
    const bool takes = (b.occupied() & bit(m.to)) || (piece == kPawn && m.from % 8 != m.to % 8);
    if (piece == kPawn) {
      if (takes) text += char('a' + m.from % 8);
    } else {
      text += kLetters[piece];
      bool is_shared = false, shares_file = false,
           shares_rank = false;  // with another piece of the kind that may go there
      each_move(b, d, [&](Move other) {
        if (other.to != m.to || other.from == m.from || b.piece(other.from) != piece) return;
        is_shared = true;
        shares_file |= other.from % 8 == m.from % 8;
        shares_rank |= other.from / 8 == m.from / 8;
      });
      if (is_shared && (!shares_file || shares_rank)) text += name(m.from)[0];
      if (is_shared && shares_file) text += name(m.from)[1];
    }
    if (takes) text += 'x';
    text += name(m.to);
    if (m.promotion) text += std::string("=") + kLetters[m.promotion];
  }
  Board next = b;
  make(next, m);
  const Dangers after = dangers(next);
  if (after.checkers) text += has_move(next, after) ? '+' : '#';
  return text;
}

// The legal moves that the text may mean: one, unless the text is wrong or ambiguous.
inline std::vector<Move> san_matches(const Board& b, const Dangers& d, std::string text, int to_play) {
  while (!text.empty() && std::string_view("+#!?").find(text.back()) != std::string_view::npos) text.pop_back();
  std::vector<Move> found;
  if (text == "O-O" || text == "O-O-O" || text == "0-0" || text == "0-0-0") {
    const int to = text.size() == 3 ? 6 : 2;
    each_move(b, d, [&](Move m) {
      if (m.from == 4 && m.to == to && b.piece(4) == kKingPiece) found.push_back(m);
    });
  } else {
    int piece = kPawn, promotion = kNone;
    std::size_t begin = 0;
    if (const auto at = std::string_view(".PNBRQK").find(text.empty() ? '?' : text[0]);
        at != std::string_view::npos && at >= kKnightPiece)
      piece = int(at), begin = 1;
    if (text.size() >= 2 && piece == kPawn) {
      const auto kind = std::string_view(kLetters).find(text.back());
      if (kind != std::string_view::npos && kind >= kKnightPiece && kind <= kQueen) {
        promotion = int(kind);
        text.pop_back();
        if (text.back() == '=') text.pop_back();
      }
    }
    if (text.size() < begin + 2) return {};
    const int square = read_square(std::string_view(text).substr(text.size() - 2));
    if (square < 0) return {};
    const int to = to_play ? turned(square) : square;
    std::string_view rest = std::string_view(text).substr(begin, text.size() - 2 - begin);
    const bool takes = !rest.empty() && rest.back() == 'x';
    if (takes) rest.remove_suffix(1);
    int file = -1, rank = -1;
    if (!rest.empty() && rest[0] >= 'a' && rest[0] <= 'h') file = rest[0] - 'a', rest.remove_prefix(1);
    if (!rest.empty() && rest[0] >= '1' && rest[0] <= '8')
      rank = (rest[0] - '1') ^ (to_play ? 7 : 0), rest.remove_prefix(1);
    if (!rest.empty()) return {};
    each_move(b, d, [&](Move m) {
      if (m.to != to || m.promotion != promotion || b.piece(m.from) != piece) return;
      if ((file >= 0 && m.from % 8 != file) || (rank >= 0 && m.from / 8 != rank)) return;
      const bool captures = (b.occupied() & bit(m.to)) || (piece == kPawn && m.from % 8 != m.to % 8);
      if (takes && !captures) return;
      if (piece == kPawn && file < 0 && captures) return;  // "exd5" names the file that it comes from
      if (piece == kKingPiece && (m.to - m.from == 2 || m.from - m.to == 2)) return;
      found.push_back(m);
    });
  }
  return found;
}

// The legal move that the text means; from == to if there is none, or more than one.
inline Move read_san(const Board& b, const Dangers& d, const std::string& text, int to_play) {
  const std::vector<Move> found = san_matches(b, d, text, to_play);
  return found.size() == 1 ? found[0] : Move{};
}

// The reason why a text is no legal move, to follow the text; empty if none is known.
inline std::string why_illegal(const Board& b, const Dangers& d, const std::string& text, int to_play) {
  const Move m = read_uci(text, to_play);
  if (m.from == m.to) {
    std::string names;
    const std::vector<Move> found = san_matches(b, d, text, to_play);
    if (found.size() > 1)
      for (Move move : found) names += (names.empty() ? "which could be " : " or ") + write_san(b, d, move, to_play);
    return names;
  }
  const std::string from = text.substr(0, 2);
  if (!(b.occupied() & bit(m.from))) return "for nothing stands on " + from;
  if (!(b.own & bit(m.from))) return "for the piece on " + from + " is the opponent's";
  const bool promotes = b.piece(m.from) == kPawn && m.to >= 56;
  if (promotes && !m.promotion) return "which does not say what the pawn becomes (" + text + "q, r, b or n)";
  if (!promotes && m.promotion) return "for no pawn reaches the last rank by it";
  if (b.piece(m.from) == kKingPiece && m.from == 4 && (m.to == 6 || m.to == 2))
    return b.rights >> (m.to == 2) & 1 ? "for a king does not castle past a piece, nor out of, through or into check"
                                       : "for the right to castle there is gone";
  return "";
}

}  // namespace shusaku::chess
