// Connect four on 6 rows by 7 columns, as bitboards.
//
//   bit = 8 * row + column, row 0 at the top; column 7 stays empty, so that shifted lines never wrap around:
//
//      0  1  2  3  4  5  6 |  7        actions: columns 0 to 6, moves "1" to "7"
//      8  9 10 11 12 13 14 | 15        planes [3, 6, 7]: stones of the player to move, stones of the opponent,
//      ...                             whose turn (0: the first player, 1: the second)
//     40 41 42 43 44 45 46 | 47        planes=threats [5, 6, 7]: after the stones the empty cells that complete a four
//     of
//                                      the player to move, of the opponent, whether a stone can fall there yet or not
#pragma once

#include <bit>

#include "games/bit_planes.h"
#include "games/game.h"
#include "games/grid_text.h"
#include "games/square_bits.h"

namespace shusaku {

struct ConnectFour {
  static constexpr const char* kName = "connect_four";
  static constexpr bool kAlternates = true;
  static constexpr int kRows = 6, kColumns = 7, kCells = 42;
  static constexpr std::uint64_t kColumn = 0x0000010101010101ull, kBoard = 0x00007F7F7F7F7F7Full;
  static constexpr std::uint64_t kEvenRows = 0x0000007F007F007Full;  // the second from below, the fourth, the top one

  struct Position {
    std::uint64_t own = 0;  // stones of the player to move
    std::uint64_t all = 0;  // every stone
    std::uint8_t ply = 0;
    bool is_won = false;  // by the player who moved last
  };

  explicit ConnectFour(const Params& params)
      : sees_threats_(chosen_parameter(params, kName, "planes", {"stones", "threats"}) == "threats") {}
  static std::vector<ParamHelp> parameters() {
    return {{"planes", std::string("stones"),
             "stones: 3, of both players and whose turn | threats: 5, and the cells that complete a four of each"}};
  }

  int num_actions() const { return kColumns; }
  int max_plies() const { return kCells; }
  int max_legal_actions() const { return kColumns; }
  Shape shape() const { return {.binary = sees_threats_ ? 4 : 2, .uniform = 1, .height = kRows, .width = kColumns}; }
  int num_symmetries() const { return 2; }

  Position start() const { return {}; }
  int to_play(const Position& p) const { return p.ply & 1; }
  int ply(const Position& p) const { return p.ply; }
  bool is_terminal(const Position& p) const { return p.is_won || p.all == kBoard; }
  int num_empty(const Position& p) const { return kCells - std::popcount(p.all); }
  int outcome(const Position& p) const { return p.is_won ? -1 : 0; }

  float score(const Position&) const { return kNoScore; }
  bool is_cut_off(const Position&) const { return false; }

  int legal_actions(const Position& p, Action* out) const {
    if (p.is_won) return 0;
    int count = 0;
    for (Action column = 0; column < kColumns; ++column) out[count] = column, count += int(~p.all >> column & 1);
    return count;
  }

  void play(Position& p, Action column) const {
    const std::uint64_t empty = ~p.all & (kColumn << column);
    const std::uint64_t stone = 1ull << (63 - std::countl_zero(empty));  // the lowest empty cell
    const std::uint64_t mine = p.own | stone;
    p.all |= stone;
    p.own = p.all ^ mine;
    ++p.ply;
    p.is_won = has_four(mine);
  }

  bool wins_at_once(const Position& p) const {
    const std::uint64_t empty = kBoard & ~p.all;
    return (completing(p.own) & empty & ~(empty >> 8)) != 0;
  }

  // Bounds by two arguments. A player that makes no four even with every empty cell does not win. And if each column
  // has an even number of empty cells, the opponent can always answer in the column of the move, and so gets every
  // second cell (follow-up: Allis 1988, "A Knowledge-based Approach of Connect-Four").
  Outlook look_ahead(const Position& p, int low, int high) const {
    const std::uint64_t other = p.all ^ p.own, empty = kBoard & ~p.all, playable = empty & ~(empty >> 8);
    const std::uint64_t lost = completing(other) & empty, forced = lost & playable;
    if (forced & (forced - 1)) return {.low = low, .high = high};             // the opponent wins in two cells at once
    const std::uint64_t sound = (forced ? forced : playable) & ~(lost << 8);  // not below where the opponent then wins
    if (high > 0 && !has_four(p.own | empty)) high = 0;
    if (low < 0 && !has_four(other | empty)) low = 0;
    if (!(playable & kEvenRows) && high >= 0 && !has_four(p.own | (empty & ~kEvenRows)))
      high = has_four(other | (empty & kEvenRows)) ? -1 : std::min(high, 0);
    return {.low = low, .high = high, .sound = sound};
  }

  // Those that threaten most cells first, and of equals the middle column, where more fours lie.
  int after_sound_moves(const Position& p, const Outlook& outlook, Position* after) const {
    using Boards = std::uint64_t __attribute__((vector_size(32)));  // four at once
    const std::uint64_t empty = kBoard & ~p.all, other = p.all ^ p.own;
    std::uint64_t cells[kColumns];
    int count = 0;
    for (const int column : {3, 2, 4, 1, 5, 0, 6})
      if (const std::uint64_t cell = outlook.sound & (kColumn << column)) cells[count++] = cell;
    int threats[8] = {};
    for (int first = 0; count > 1 && first < count; first += 4) {
      Boards own{};
      for (int i = 0; i < 4 && first + i < count; ++i) own[i] = p.own | cells[first + i];
      const Boards completed = completing(own) & empty;
      for (int i = 0; i < 4; ++i) threats[first + i] = std::popcount(completed[i]);
    }
    int order[8];
    for (int i = 0; i < count; ++i) {
      int at = i;
      for (; at > 0 && threats[order[at - 1]] < threats[i]; --at) order[at] = order[at - 1];
      order[at] = i;
    }
    for (int i = 0; i < count; ++i)
      after[i] = {.own = other, .all = p.all | cells[order[i]], .ply = std::uint8_t(p.ply + 1)};
    return count;
  }

  std::uint64_t evaluation_key(const Position& p) const {
    const auto is_odd = std::uint64_t((std::popcount(p.all) ^ p.ply) & 1);  // 0 in every game
    return combine(mix64(p.all), p.own) ^ is_odd;
  }
  std::uint64_t transposition_key(const Position& p) const { return evaluation_key(p); }

  void observe(const Position& p, int symmetry, std::uint8_t* bits, float* uniform) const {
    const std::uint64_t own = p.own, other = p.all ^ p.own, empty = kBoard & ~p.all;
    const std::uint64_t mask = 0 - std::uint64_t(symmetry);  // no branch: symmetries are random
    PlaneWriter out(bits);
    const auto add = [&](std::uint64_t cells) {
      const std::uint64_t plane = without_gaps<kRows, kColumns>(cells ^ ((cells ^ mirror(cells)) & mask));
      out.add(&plane, kCells);
    };
    add(own), add(other);
    if (sees_threats_) add(completing(own) & empty), add(completing(other) & empty);
    out.finish();
    uniform[0] = float(to_play(p));
  }

  Action permute(int symmetry, Action column) const { return symmetry ? Action(kColumns - 1 - column) : column; }
  int permute_cell(int symmetry, int cell) const { return symmetry ? cell - cell % 7 + 6 - cell % 7 : cell; }

  Position parse(const std::string& text) const {
    const Grid grid = read_grid(text, kRows, kColumns);
    return set_up(grid, grid.ply_of_stones());
  }
  Position arrange(const std::string& text) const {
    const Grid grid = read_grid(text, kRows, kColumns);
    return set_up(grid, grid.ply_of_turn());
  }
  std::string to_text(const Position& p) const {
    const std::uint64_t first = to_play(p) == 0 ? p.own : p.all ^ p.own;
    return write_grid(kRows, kColumns, to_play(p), [&](int at) {
      const std::uint64_t cell = 1ull << (at / kColumns * 8 + at % kColumns);
      return !(p.all & cell) ? -1 : first & cell ? 0 : 1;
    });
  }

  std::string to_move(const Position&, Action column) const { return {char('1' + column)}; }
  int from_move(const Position&, const std::string& text) const {
    return text.size() == 1 && text[0] >= '1' && text[0] <= '7' ? text[0] - '1' : -1;
  }
  std::string render(const Position& p) const {
    const std::uint64_t first = to_play(p) == 0 ? p.own : p.all ^ p.own;
    std::string text;
    for (int row = 0; row < kRows; ++row)
      for (int column = 0; column < kColumns; ++column) {
        const std::uint64_t cell = 1ull << (8 * row + column);
        text += !(p.all & cell) ? '.' : first & cell ? 'X' : 'O';
        text += column == kColumns - 1 ? '\n' : ' ';
      }
    return text + "1 2 3 4 5 6 7\n";
  }

 private:
  static Position set_up(const Grid& grid, int ply) {
    std::uint64_t stones[2] = {};
    for (int cell = 0; cell < kCells; ++cell) {
      const char c = grid.cells[size_t(cell)];
      if (c == '.') continue;
      stones[c == 'O'] |= 1ull << (cell / kColumns * 8 + cell % kColumns);
      if (cell + kColumns < kCells && grid.cells[size_t(cell + kColumns)] == '.')
        throw std::invalid_argument("row " + std::to_string(cell / kColumns + 1) + ", column " +
                                    std::to_string(cell % kColumns + 1) + ": a stone with nothing below it");
    }
    const int to_play = ply & 1;
    if (has_four(stones[to_play]))
      throw std::invalid_argument("the player to move has four in a row already: the game was over before");
    return {.own = stones[to_play],
            .all = stones[0] | stones[1],
            .ply = std::uint8_t(ply),
            .is_won = has_four(stones[1 - to_play])};
  }

  static bool has_four(std::uint64_t stones) {
    std::uint64_t fours = 0;
    for (int step : {1, 7, 8, 9}) {  // along a row, both diagonals, a column
      const std::uint64_t pairs = stones & (stones >> step);
      fours |= pairs & (pairs >> (2 * step));
    }
    return fours != 0;
  }

  // The cells in which one more stone makes a four of these; those beside the board and those with a stone among them.
  // Of one board or of several.
  template <class Stones>
  static Stones completing(Stones stones) {
    Stones cells{};
    for (int step : {1, 7, 8, 9}) {
      const Stones below = stones << step, above = stones >> step;
      const Stones two_below = below & (below << step), two_above = above & (above >> step);
      cells |= (two_below & (above | stones << (3 * step))) | (two_above & (below | stones >> (3 * step)));
    }
    return cells;
  }

  // Column 0 changes places with column 6, and so on.
  static std::uint64_t mirror(std::uint64_t x) { return mirror_rows(x) >> 1; }

  bool sees_threats_;
};

}  // namespace shusaku
