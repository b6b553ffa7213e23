// Why a text is no legal move of shogi: the rule that it breaks, if that has a name.
#pragma once

#include <string>

#include "games/shogi/moves.h"
#include "games/shogi/text.h"

namespace shusaku {

template <int N>
struct ShogiRefusals {
  using Squares = ShogiSquares<N>;
  using Set = typename Squares::Set;
  using Board = ShogiBoard<N>;
  using Moves = ShogiMoves<N>;

  // To follow the text; empty if no reason is known.
  static std::string why_illegal(const Board& b, const std::string& text) {
    shogi::Move m;
    if (!ShogiText<N>::from_usi(b, text, m)) return "";
    const typename Moves::Threats t = Moves::threats(b);
    if (m.dropped) {
      if (const char* why = of_drop(b, m)) return why;
    } else {
      if (!Squares::has(b.occupied(), m.from)) return "for nothing stands on " + text.substr(0, 2);
      if (!Squares::has(b.own, m.from)) return "for the piece on " + text.substr(0, 2) + " is the opponent's";
      if (!m.promotes && is_stuck(b.at(m.from), m.to))
        return "for the piece could never move again there; it must promote (" + text + "+)";
      if (Squares::has(t.pinned, m.from)) return "for the piece must stay between its king and a slider";
    }
    return t.checkers ? "for the king is in check and would stay so" : "";
  }

 private:
  static const char* of_drop(const Board& b, shogi::Move m) {
    if (!b.in_hand(0, m.dropped)) return "for there is no such piece in hand";
    if (Squares::has(b.occupied(), m.to)) return "for a piece is dropped on an empty square";
    if (is_stuck(m.dropped, m.to)) return "for the piece could never move from there";
    if (m.dropped != shogi::kPawn) return nullptr;
    if (Squares::has(Squares::columns_of(b.template of<shogi::kPawn>() & b.own), m.to))
      return "for an own pawn stands on that file already (nifu)";
    const Set checking = Squares::south(b.template of<shogi::kKing>() & ~b.own);
    return Squares::has(checking, m.to) && Moves::drop_mates(b, m.to) ? "for a dropped pawn may not mate (uchifuzume)"
                                                                      : nullptr;
  }

  static bool is_stuck(int code, int to) {
    const int rows = code == shogi::kKnight ? 2 : code == shogi::kPawn || code == shogi::kLance ? 1 : 0;
    return to < rows * N;
  }
};

}  // namespace shusaku
