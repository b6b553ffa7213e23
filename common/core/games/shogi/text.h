// Shogi as text: SFEN, the moves of USI (http://shogidokoro.starfree.jp/usi.html), a board as text.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "games/grid_text.h"
#include "games/shogi/moves.h"

namespace shusaku {

// What differs between the boards but their size.
template <int N>
struct ShogiSet {
  static constexpr bool kIsFull = N == 9;
  static constexpr const char* kGame = kIsFull ? "shogi" : "minishogi";
  static constexpr const char* kStart =
      kIsFull ? "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1" : "rbsgk/4p/5/P4/KGSBR b - 1";
  // Of both players, by code: pawns, lances, knights, silvers, golds, bishops, rooks, kings.
  static constexpr int kMost[9] = {
      0, kIsFull ? 18 : 2, kIsFull ? 4 : 0, kIsFull ? 4 : 0, kIsFull ? 4 : 2, kIsFull ? 4 : 2, 2, 2, 2};
};

template <int N>
struct ShogiText {
  using Squares = ShogiSquares<N>;
  using Board = ShogiBoard<N>;
  using Pieces = ShogiSet<N>;

  static constexpr char kLetters[] = ".PLNSGBRK";
  static constexpr const char* kNames[] = {"",      "pawns",   "lances", "knights", "silvers",
                                           "golds", "bishops", "rooks",  "kings"};
  static constexpr const char* kSigns[shogi::kCodes] = {"・", "歩", "香", "桂", "銀", "金", "角", "飛",
                                                        "玉", "と", "杏", "圭", "全", "",   "馬", "龍"};

  struct SetUp {
    Board board;
    int number = 1;  // of the next move
  };

  static std::string square_name(int cell) {  // seen by the first player
    return {char('0' + N - cell % N), char('a' + cell / N)};
  }
  static int seen(const Board& b, int cell) { return b.to_play ? Squares::kSquares - 1 - cell : cell; }  // and back
  // 0 for a letter of no piece of this game.
  static int code_of(char letter) {
    const char* at = letter == '.' || letter == 0 ? nullptr : std::strchr(kLetters, letter);
    return at && Pieces::kMost[at - kLetters] ? int(at - kLetters) : 0;
  }

  // std::invalid_argument naming what is wrong and how it is written.
  static SetUp read(const std::string& text) {
    const std::vector<std::string> fields = split_words(text);
    if (fields.size() != 3 && fields.size() != 4)
      fail(std::to_string(fields.size()) + " fields in " + quoted(text) +
           ": board, b or w, pieces in hand or -, number of the move");
    SetUp result;
    Board& board = result.board;
    read_board(fields[0], board);
    if (fields[1] != "b" && fields[1] != "w")
      fail("the player to move is " + quoted(fields[1]) + ": it is b (the first player) or w");
    read_hands(fields[2], board);
    if (fields.size() == 4) result.number = read_number(fields[3]);
    if (fields[1] == "w") board.turn();
    check(board);
    return result;
  }

  static std::string write(const Board& board, int number) {
    const Board b = first_players(board);
    std::string text = write_rows(N, [&](int row, int column) -> std::string {
      const int square = N * row + column, code = b.at(square);
      if (code == shogi::kNone) return "";
      return (shogi::is_promoted(code) ? "+" : "") +
             std::string(1, letter(shogi::unpromoted(code), Squares::has(b.own, square) ? 0 : 1));
    });
    text += board.to_play ? " w " : " b ";
    std::string held;
    for (int side = 0; side < 2; ++side)
      for (int code : kHandOrder)
        if (const int count = b.in_hand(side, code))
          held += (count > 1 ? std::to_string(count) : std::string()) + letter(code, side);
    return text + (held.empty() ? "-" : held) + " " + std::to_string(number);
  }

  static std::string to_usi(const Board& b, shogi::Move move) {
    const std::string to = square_name(seen(b, move.to));
    if (move.dropped) return std::string(1, kLetters[move.dropped]) + "*" + to;
    return square_name(seen(b, move.from)) + to + (move.promotes ? "+" : "");
  }

  // Whether the text is a move from a square to another one, or a drop on one; its legality is not checked.
  static bool from_usi(const Board& b, const std::string& text, shogi::Move& move) {
    if (text.size() < 4 || text.size() > 5 || (text.size() == 5 && text[4] != '+')) return false;
    const int to = cell_of(text[2], text[3]);
    if (to < 0) return false;
    move = {0, std::uint8_t(seen(b, to)), 0, text.size() == 5};
    if (text[1] == '*') {
      move.dropped = std::uint8_t(code_of(text[0]));
      return move.dropped && move.dropped != shogi::kKing && !move.promotes;
    }
    const int from = cell_of(text[0], text[1]);
    if (from < 0) return false;
    move.from = std::uint8_t(seen(b, from));
    return true;
  }

  // As in Japanese diagrams: v before the second player's pieces.
  static std::string render(const Board& board) {
    const Board b = first_players(board);
    std::string text = "second player's hand:" + drawn_hand(b, 1) + "\n";
    for (int column = 0; column < N; ++column) text += "  " + std::string(1, char('0' + N - column));
    text += "\n";
    for (int row = 0; row < N; ++row) {
      for (int column = 0; column < N; ++column) {
        const int square = N * row + column, code = b.at(square);
        text += (code && !Squares::has(b.own, square) ? "v" : " ") + std::string(kSigns[code]);
      }
      text += std::string(" ") + char('a' + row) + "\n";
    }
    return text + "first player's hand:" + drawn_hand(b, 0) + "\n" + (board.to_play ? "second" : "first") +
           " player to move\n";
  }

 private:
  static constexpr int kHandOrder[] = {shogi::kRook,   shogi::kBishop, shogi::kGold, shogi::kSilver,
                                       shogi::kKnight, shogi::kLance,  shogi::kPawn};

  [[noreturn]] static void fail(const std::string& what) {
    throw std::invalid_argument(what + "; the start of " + Pieces::kGame + " is written " + Pieces::kStart);
  }

  static Board first_players(Board b) {
    if (b.to_play) b.turn();
    return b;
  }
  static char letter(int code, int side) { return char(kLetters[code] + (side ? 'a' - 'A' : 0)); }
  static int cell_of(char file, char rank) {
    if (file < '1' || file > '0' + N || rank < 'a' || rank >= 'a' + N) return -1;
    return N * (rank - 'a') + N - (file - '0');
  }
  static std::string drawn_hand(const Board& b, int side) {
    std::string text;
    for (int code : kHandOrder)
      if (const int count = b.in_hand(side, code))
        text += " " + std::string(kSigns[code]) + (count > 1 ? std::to_string(count) : "");
    return text.empty() ? " -" : text;
  }

  // A letter of either case as a code, and whether it is the first player's; 0 if it is none.
  static int piece_of(char c, bool& is_first) {
    is_first = c >= 'A' && c <= 'Z';
    return code_of(is_first ? c : c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : '.');
  }
  static std::string letters() {
    std::string text;
    for (int code = 1; code <= shogi::kKing; ++code)
      if (Pieces::kMost[code]) text += kLetters[code];
    return text;
  }

  static void read_board(const std::string& text, Board& board) {
    std::vector<std::string> rows(1);
    for (char c : text)
      if (c == '/')
        rows.emplace_back();
      else
        rows.back() += c;
    if (int(rows.size()) != N)
      fail(std::to_string(rows.size()) + " rows in " + quoted(text) + ": a board of " + Pieces::kGame + " has " +
           std::to_string(N));
    for (int row = 0; row < N; ++row) read_row(rows[size_t(row)], row, board);
  }

  static void read_row(const std::string& text, int row, Board& board) {
    const std::string where = "row " + std::to_string(row + 1) + ", " + quoted(text) + ", ";
    int column = 0;
    bool is_promoted = false, after_number = false;
    for (char c : text) {
      if (c == '+') {
        if (is_promoted) fail(where + "has two + in a row: one stands before a promoted piece");
        is_promoted = true;
        continue;
      }
      if (c >= '1' && c <= '9') {
        if (is_promoted) fail(where + "has a + before a number: it stands before a promoted piece");
        if (after_number) fail(where + "has two numbers in a row: write their sum");
        after_number = true;
        column += c - '0';
      } else {
        bool is_first;
        const int code = piece_of(c, is_first);
        if (!code)
          fail(where + "has " + quoted({c}) + ": pieces are " + letters() +
               ", small for the second player, and empty squares are numbers");
        if (is_promoted && !shogi::can_promote(code))
          fail(where + "has " + quoted({'+', c}) + ": golds and kings do not promote");
        if (column < N) {
          board.put(N * row + column, code + (is_promoted ? int(shogi::kPromoted) : 0));
          if (is_first) board.own |= Squares::bit(N * row + column);
        }
        ++column;
        is_promoted = after_number = false;
      }
      if (column > N) fail(where + "has more than " + std::to_string(N) + " squares");
    }
    if (is_promoted) fail(where + "ends with +: it stands before a promoted piece");
    if (column != N) fail(where + "has " + std::to_string(column) + " squares: it must be " + std::to_string(N));
  }

  static void read_hands(const std::string& text, Board& board) {
    if (text == "-") return;
    int count = -1;
    for (char c : text) {
      if (c >= '0' && c <= '9') {
        if (count == 0 || count > 9 || (count < 0 && c == '0'))
          fail("the pieces in hand, " + quoted(text) + ", have a number that is not 1 to 99, without zeros before it");
        count = (count < 0 ? 0 : 10 * count) + (c - '0');
        continue;
      }
      bool is_first;
      const int code = piece_of(c, is_first);
      if (!code || code == shogi::kKing)
        fail("the pieces in hand, " + quoted(text) + ", have " + quoted({c}) +
             ": write those that can be dropped, a number before more than one, or - for none");
      if (board.in_hand(is_first ? 0 : 1, code))
        fail("the pieces in hand, " + quoted(text) + ", name " + quoted({c}) +
             " twice: write their number before one of it");
      board.hands[is_first ? 0 : 1] += std::uint64_t(count < 0 ? 1 : count) << (8 * code);
      count = -1;
    }
    if (count >= 0) fail("the pieces in hand, " + quoted(text) + ", end with a number: it stands before a piece");
  }

  static int read_number(const std::string& text) {
    const int number = shusaku::read_number(text);
    if (number < 1 || text.size() > 6)
      fail("the number of the move, " + quoted(text) + ": must be 1 or more, in at most six digits");
    return number;
  }

  // What no game can lead to, as far as it would trouble the rules.
  static void check(Board b) {
    for (int turn = 0; turn < 2; ++turn, b.turn()) check_own(b);
    int count[shogi::kKing + 1] = {};
    for (int s = 0; s < Squares::kSquares; ++s) ++count[shogi::unpromoted(b.at(s))];
    for (int code = shogi::kPawn; code < shogi::kKing; ++code) {
      const int all = count[code] + b.in_hand(0, code) + b.in_hand(1, code);
      if (all > Pieces::kMost[code])
        fail(std::to_string(all) + " " + kNames[code] + " on the board and in the hands: there are " +
             std::to_string(Pieces::kMost[code]) + " of them");
    }
    b.turn();
    const auto threats = ShogiMoves<N>::threats(b);
    if (threats.checkers || (Squares::kKing[size_t(threats.king)] & b.template of<shogi::kKing>()))
      fail(std::string("the ") + player(b) + " player's king stands in check at " + square_name(seen(b, threats.king)) +
           ", but the other player is to move: let it move out of check first");
  }

  static const char* player(const Board& b) { return b.to_play ? "second" : "first"; }

  static void check_own(const Board& b) {
    const std::string whose = std::string("the ") + player(b) + " player ";
    const int kings = Squares::count(b.template of<shogi::kKing>() & b.own);
    if (kings != 1) fail(whose + "has " + std::to_string(kings) + " kings: each has one");
    const auto stuck = (b.own & ((b.template of<shogi::kPawn>() | b.template of<shogi::kLance>()) & Squares::row(0))) |
                       (b.own & b.template of<shogi::kKnight>() & (Squares::row(0) | Squares::row(1)));
    if (stuck) {
      const int square = Squares::lowest(stuck);
      fail(whose + "has a piece that can never move again, " + quoted({kLetters[b.at(square)]}) + " at " +
           square_name(seen(b, square)) + ": promote it");
    }
    const auto pawns = b.template of<shogi::kPawn>() & b.own;
    for (int column = 0; column < N; ++column)
      if (Squares::has_several(pawns & Squares::column(column)))
        fail(whose + "has two unpromoted pawns on file " + std::to_string(b.to_play ? column + 1 : N - column) +
             ": one is allowed");
  }
};

}  // namespace shusaku
