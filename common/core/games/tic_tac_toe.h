// Tic-tac-toe: the example to copy for a new game.
//
//   cells and actions   0 1 2      moves   a3 b3 c3      planes [3, 3, 3]: X's stones, O's stones,
//                       3 4 5              a2 b2 c2      whose turn (1: X, 0: O)
//                       6 7 8              a1 b1 c1
#pragma once

#include <array>
#include <bit>

#include "games/game.h"
#include "games/grid_text.h"

namespace shusaku {

struct TicTacToe {
  static constexpr const char* kName = "tic_tac_toe";
  static constexpr bool kAlternates = true;

  struct Position {
    std::array<std::uint16_t, 2> stones{};  // a bit a cell, of X and of O
    std::uint8_t ply = 0;
    bool is_won = false;  // by the player who moved last
  };

  explicit TicTacToe(const Params&) {}
  static std::vector<ParamHelp> parameters() { return {}; }

  int num_actions() const { return 9; }
  int max_plies() const { return 9; }
  int max_legal_actions() const { return 9; }
  Shape shape() const { return {.binary = 2, .uniform = 1, .height = 3, .width = 3}; }
  int num_symmetries() const { return 8; }

  Position start() const { return {}; }
  int to_play(const Position& p) const { return p.ply & 1; }
  int ply(const Position& p) const { return p.ply; }
  bool is_terminal(const Position& p) const { return p.is_won || (p.stones[0] | p.stones[1]) == 0x1FF; }
  int num_empty(const Position& p) const { return 9 - std::popcount(unsigned(p.stones[0] | p.stones[1])); }
  int outcome(const Position& p) const { return p.is_won ? -1 : 0; }

  float score(const Position&) const { return kNoScore; }
  bool is_cut_off(const Position&) const { return false; }

  int legal_actions(const Position& p, Action* out) const {
    if (is_terminal(p)) return 0;
    int count = 0;
    for (unsigned empty = ~(p.stones[0] | p.stones[1]) & 0x1FFu; empty; empty &= empty - 1)
      out[count++] = Action(std::countr_zero(empty));
    return count;
  }

  void play(Position& p, Action action) const {
    auto& mine = p.stones[p.ply & 1];
    mine |= std::uint16_t(1u << action);
    ++p.ply;
    p.is_won = has_line(mine);
  }

  std::uint64_t evaluation_key(const Position& p) const {
    const auto stones = std::uint64_t(p.stones[0] | p.stones[1] << 9);
    return mix64(1 + stones + (std::uint64_t((std::popcount(stones) ^ p.ply) & 1) << 18));  // 0 in every game
  }
  std::uint64_t transposition_key(const Position& p) const { return evaluation_key(p); }

  void observe(const Position& p, int symmetry, std::uint8_t* bits, float* uniform) const {
    const unsigned planes = view(p.stones[0], symmetry) | view(p.stones[1], symmetry) << 9;
    for (int i = 0; i < 3; ++i) bits[i] = std::uint8_t(planes >> (8 * i));
    uniform[0] = float(1 - to_play(p));
  }

  Action permute(int symmetry, Action action) const { return Action(permute_cell(symmetry, action)); }

  // The eight symmetries of the square: bit 0 mirrors left-right, bit 1 top-bottom, bit 2 transposes afterwards.
  int permute_cell(int symmetry, int cell) const {
    int row = cell / 3, column = cell % 3;
    if (symmetry & 1) column = 2 - column;
    if (symmetry & 2) row = 2 - row;
    return symmetry & 4 ? column * 3 + row : row * 3 + column;
  }

  Position parse(const std::string& text) const {
    const Grid grid = read_grid(text, 3, 3);
    return set_up(grid, grid.ply_of_stones());
  }
  Position arrange(const std::string& text) const {
    const Grid grid = read_grid(text, 3, 3);
    return set_up(grid, grid.ply_of_turn());
  }
  std::string to_text(const Position& p) const {
    return write_grid(3, 3, to_play(p), [&](int cell) {
      return p.stones[0] >> cell & 1 ? 0 : p.stones[1] >> cell & 1 ? 1 : -1;
    });
  }

  std::string to_move(const Position&, Action action) const { return {char('a' + action % 3), char('3' - action / 3)}; }
  int from_move(const Position&, const std::string& text) const {
    if (text.size() != 2 || text[0] < 'a' || text[0] > 'c' || text[1] < '1' || text[1] > '3') return -1;
    return ('3' - text[1]) * 3 + (text[0] - 'a');
  }
  std::string render(const Position& p) const {
    std::string text;
    for (int cell = 0; cell < 9; ++cell) {
      text += p.stones[0] >> cell & 1 ? 'X' : p.stones[1] >> cell & 1 ? 'O' : '.';
      text += cell % 3 == 2 ? '\n' : ' ';
    }
    return text;
  }

 private:
  static Position set_up(const Grid& grid, int ply) {
    Position p;
    for (int cell = 0; cell < 9; ++cell)
      if (grid.cells[size_t(cell)] != '.') p.stones[grid.cells[size_t(cell)] == 'O'] |= std::uint16_t(1u << cell);
    p.ply = std::uint8_t(ply);
    p.is_won = has_line(p.stones[(p.ply + 1) & 1]);
    if (has_line(p.stones[p.ply & 1]))
      throw std::invalid_argument("the player to move has three in a row already: the game was over before");
    return p;
  }

  static bool has_line(unsigned stones) {
    for (unsigned line : {0007u, 0070u, 0700u, 0111u, 0222u, 0444u, 0421u, 0124u})
      if ((stones & line) == line) return true;
    return false;
  }

  unsigned view(unsigned stones, int symmetry) const {
    if (symmetry == 0) return stones;
    unsigned seen = 0;
    for (; stones; stones &= stones - 1) seen |= 1u << permute_cell(symmetry, std::countr_zero(stones));
    return seen;
  }
};

}  // namespace shusaku
