// Hex on a rhombus of 2 x 2 to 13 x 13 cells: X connects the top with the bottom, O the left with the right.
//
//     a b c d            actions   size * row + column, row 0 at the top
//   1 . . . .            moves     column and row as written beside the board: "c1"
//    2 . . . .           planes    [3, size, size]: stones of the player to move, stones of the opponent,
//     3 . . . .                    whose turn (0: X, 1: O), which also tells whose edges are whose
//      4 . . . .
//                        Neighbours of a cell: left and right, the two above (same column, one further), the two below
//                        (one less, same column).  X moves first; there is no swap, and no game is drawn.
//
// Whether a player is connected is known at every ply: besides its stones a player has two sets, those that are linked
// with its first edge and those with its second.  A new stone that touches a set (or that edge) takes its group along;
// one that touches both wins.  A stone enters a set once, so a whole game costs a number of steps that is linear in its
// stones.
#pragma once

#include <array>

#include "games/game.h"
#include "games/grid_text.h"
#include "games/point_set.h"

namespace shusaku {

// One class for the sizes whose cells fit into kWords words.
template <int kWords>
class Hex {
 public:
  static constexpr const char* kName = "hex";
  static constexpr bool kAlternates = true;
  static constexpr int kMinSize = 2, kMaxSize = 13;

  using Cells = PointSet<kWords>;

  struct Player {
    Cells stones;
    std::array<Cells, 2> linked;  // with its first edge (top, left), with its second one (bottom, right)
  };
  struct Position {
    std::array<Player, 2> players;
    std::uint32_t ply = 0;
    std::uint32_t is_won = 0;  // by the player who moved last
  };

  explicit Hex(const Params& params) : Hex(checked_size(params)) {}
  static std::vector<ParamHelp> parameters() { return {{"size", std::int64_t(11), "rows and columns: 2 to 13"}}; }
  static int checked_size(const Params& params) {
    const std::int64_t size = std::get<std::int64_t>(params.at("size"));
    if (size < kMinSize || size > kMaxSize)
      throw std::invalid_argument(
          "size " + std::to_string(size) +
          ": hex is played on 2 x 2 to 13 x 13 here; say size=11, or another number from 2 to 13");
    return int(size);
  }

  int num_actions() const { return cells_; }
  int max_plies() const { return cells_; }
  int max_legal_actions() const { return cells_; }
  Shape shape() const { return {.binary = 2, .uniform = 1, .height = size_, .width = size_}; }
  int num_symmetries() const { return 2; }

  Position start() const { return {}; }
  int to_play(const Position& p) const { return p.ply & 1; }
  int ply(const Position& p) const { return int(p.ply); }
  bool is_terminal(const Position& p) const { return p.is_won; }  // a full board is always won (Gale 1979)
  int num_empty(const Position& p) const { return empty(p).count(); }
  int outcome(const Position&) const { return -1; }
  float score(const Position&) const { return kNoScore; }
  bool is_cut_off(const Position&) const { return false; }

  int legal_actions(const Position& p, Action* out) const {
    if (p.is_won) return 0;
    int count = 0;
    empty(p).each([&](int cell) { out[count++] = Action(cell); });
    return count;
  }

  template <class Random>
  Action random_action(const Position& p, Random& random) const {
    const Cells free = empty(p);
    return Action(free.nth(int(random.below(std::uint64_t(free.count())))));
  }

  void play(Position& p, Action action) const {
    Player& me = p.players[p.ply & 1];
    p.is_won = place(me, int(p.ply & 1), action);
    ++p.ply;
  }

  std::uint64_t evaluation_key(const Position& p) const {
    std::uint64_t key = 0;
    for (const Player& player : p.players)
      for (std::uint64_t word : player.stones.words) key = combine(key, word);
    const int stones = p.players[0].stones.count() + p.players[1].stones.count();
    return key ^ ((unsigned(stones) ^ p.ply) & 1);  // 0 in every game
  }
  std::uint64_t transposition_key(const Position& p) const { return evaluation_key(p); }

  void observe(const Position& p, int symmetry, std::uint8_t* bits, float* uniform) const {
    const int bytes = shape().packed_bytes();
    for (int i = 0; i < bytes; ++i) bits[i] = 0;
    for (int plane = 0; plane < 2; ++plane)
      p.players[(p.ply + unsigned(plane)) & 1].stones.each([&](int cell) {
        const int at = plane * cells_ + permute_cell(symmetry, cell);
        bits[at / 8] |= std::uint8_t(1 << at % 8);
      });
    uniform[0] = float(to_play(p));
  }

  Action permute(int symmetry, Action action) const { return Action(permute_cell(symmetry, action)); }
  // Half a turn: every edge comes to lie on the other one of the same player.
  int permute_cell(int symmetry, int cell) const { return symmetry ? cells_ - 1 - cell : cell; }

  Position parse(const std::string& text) const {
    const Grid grid = read_grid(text, size_, size_);
    return set_up(grid, grid.ply_of_stones());
  }
  Position arrange(const std::string& text) const {
    const Grid grid = read_grid(text, size_, size_);
    return set_up(grid, grid.ply_of_turn());
  }
  std::string to_text(const Position& p) const {
    return write_grid(size_, size_, to_play(p), [&](int cell) {
      return p.players[0].stones.has(cell) ? 0 : p.players[1].stones.has(cell) ? 1 : -1;
    });
  }

  std::string to_move(const Position&, Action action) const {
    return char('a' + action % size_) + std::to_string(action / size_ + 1);
  }
  int from_move(const Position&, const std::string& text) const {
    if (text.size() < 2 || text.size() > 3 || text[0] < 'a' || text[0] >= 'a' + size_ || text[1] < '1') return -1;
    const int row = read_number(text.substr(1));
    return row >= 1 && row <= size_ ? (row - 1) * size_ + (text[0] - 'a') : -1;
  }
  std::string render(const Position& p) const {
    std::string text = "  ";
    for (int column = 0; column < size_; ++column) text += {' ', char('a' + column)};
    for (int row = 0; row < size_; ++row) {
      const std::string number = std::to_string(row + 1);
      text += "\n" + std::string(size_t(row) + 2 - number.size(), ' ') + number;
      for (int cell = row * size_; cell < (row + 1) * size_; ++cell)
        text += p.players[0].stones.has(cell) ? " ●" : p.players[1].stones.has(cell) ? " ○" : " ·";
    }
    return text + (p.is_won    ? p.ply & 1 ? "\n● has won\n" : "\n○ has won\n"
                   : p.ply & 1 ? "\n○ to move\n"
                               : "\n● to move\n");
  }

 private:
  Position set_up(const Grid& grid, int ply) const {
    Position p{.players = {}, .ply = std::uint32_t(ply), .is_won = 0};
    std::array<bool, 2> is_connected{};
    for (int cell = 0; cell < cells_; ++cell) {
      if (grid.cells[size_t(cell)] == '.') continue;
      const size_t player = grid.cells[size_t(cell)] == 'O';
      is_connected[player] |= place(p.players[player], int(player), cell);
    }
    if (is_connected[p.ply & 1])
      throw std::invalid_argument("the player to move has connected its edges already: the game was over before");
    p.is_won = is_connected[(p.ply + 1) & 1];
    return p;
  }

  explicit Hex(int size) : size_(size), cells_(size * size) {
    for (int cell = 0; cell < cells_; ++cell) {
      const int row = cell / size, column = cell % size;
      board_.add(cell);
      constexpr int kSteps[6][2] = {{0, -1}, {0, 1}, {-1, 0}, {-1, 1}, {1, -1}, {1, 0}};
      for (const auto& [down, right] : kSteps)
        if (row + down >= 0 && row + down < size && column + right >= 0 && column + right < size)
          neighbours_[size_t(cell)].add(cell + down * size + right);
      if (row == 0) edges_[0][0].add(cell);
      if (row == size - 1) edges_[0][1].add(cell);
      if (column == 0) edges_[1][0].add(cell);
      if (column == size - 1) edges_[1][1].add(cell);
    }
  }

  Cells empty(const Position& p) const { return board_.without(p.players[0].stones | p.players[1].stones); }

  // Adds a stone; true when it links both edges.  The sets are not kept up beyond that.
  bool place(Player& me, int player, int cell) const {
    me.stones.add(cell);
    std::array<bool, 2> reaches{};
    for (size_t edge = 0; edge < 2; ++edge)
      reaches[edge] =
          edges_[size_t(player)][edge].has(cell) || !(neighbours_[size_t(cell)] & me.linked[edge]).is_empty();
    if (reaches[0] && reaches[1]) return true;
    for (size_t edge = 0; edge < 2; ++edge)
      if (reaches[edge]) link(me, me.linked[edge], cell);
    return false;
  }

  // Adds `cell` and all stones that hang together with it to `linked`.
  void link(const Player& me, Cells& linked, int cell) const {
    linked.add(cell);
    for (Cells open = (neighbours_[size_t(cell)] & me.stones).without(linked); !open.is_empty();) {
      const int next = open.take();
      linked.add(next);
      open = open | (neighbours_[size_t(next)] & me.stones).without(linked);
    }
  }

  int size_, cells_;
  Cells board_;
  std::array<Cells, 64 * kWords> neighbours_{};
  std::array<std::array<Cells, 2>, 2> edges_{};  // [player][first or second]
};

}  // namespace shusaku
