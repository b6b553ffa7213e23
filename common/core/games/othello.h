// Othello on 8 x 8 or 6 x 6, as bitboards: bit 8 * row + column, row 0 at the top, on both sizes.
//
//       a b c d e f g h        actions   size * row + column, and size * size: pass, legal only if nothing else is
//     1 . . . . . . . .        moves     column and row as written beside the board: "d3"; "pass"
//     2 . . . . . . . .        planes    [3, size, size]: discs of the player to move, discs of the opponent,
//     3 . . . . . . . .                  whose turn (0: X, 1: O)
//     4 . . . O X . . .
//     5 . . . X O . . .        X moves first.  The game ends when neither player can place a disc, so no player passes
//     6 . . . . . . . .        twice in a row, and the ply after a pass is always a placement.
//     ...
#pragma once

#include <array>
#include <cstring>
#include <utility>

#include "games/game.h"
#include "games/grid_text.h"
#include "games/square_bits.h"

namespace shusaku {

template <int kSize>
struct Othello {
  static_assert(kSize == 6 || kSize == 8);
  static constexpr const char* kName = "othello";
  static constexpr bool kAlternates = true;  // a pass is a ply
  static constexpr int kCells = kSize * kSize, kPass = kCells;
  static constexpr std::uint64_t kRow = (1u << kSize) - 1;
  static constexpr std::uint64_t kBoard = kSize == 8 ? ~0ull : kRow * 0x0000010101010101ull;
  static constexpr std::uint64_t kInner =
      kBoard & (kRow >> 2 << 1) * 0x0101010101010101ull;  // all but the outer columns

  struct Position {
    std::uint64_t own = 0;    // discs of the player to move
    std::uint64_t other = 0;  // discs of the opponent
    std::uint64_t moves = 0;  // where the player to move may place one; none: a pass, or the end
    std::uint32_t ply = 0;
    std::uint16_t to_play = 0;
    std::uint16_t is_over = 0;
  };

  explicit Othello(const Params&) {}
  static std::vector<ParamHelp> parameters() { return {{"size", std::int64_t(8), "rows and columns: 8 or 6"}}; }

  int num_actions() const { return kCells + 1; }
  // A placement needs a disc of either player on the board, so there are at most kCells - 2 of them, and before each
  // at most one pass.  (From the start it is one ply less than twice kCells - 4; a position that was set up may have
  // two discs only.)
  int max_plies() const { return 2 * (kCells - 2); }
  int max_legal_actions() const { return kCells; }
  Shape shape() const { return {.binary = 2, .uniform = 1, .height = kSize, .width = kSize}; }
  int num_symmetries() const { return 4; }

  Position start() const {
    constexpr int low = kSize / 2 - 1, high = kSize / 2;
    return settled({.own = bit(low, high) | bit(high, low), .other = bit(low, low) | bit(high, high)});
  }
  int to_play(const Position& p) const { return p.to_play; }
  int ply(const Position& p) const { return int(p.ply); }
  bool is_terminal(const Position& p) const { return p.is_over; }
  int num_empty(const Position& p) const { return kCells - std::popcount(p.own | p.other); }
  int outcome(const Position& p) const { return (lead(p) > 0) - (lead(p) < 0); }
  float score(const Position& p) const { return float(lead(p)); }  // empty cells count for neither player
  bool is_cut_off(const Position&) const { return false; }

  int legal_actions(const Position& p, Action* out) const {
    if (p.moves == 0) {
      out[0] = kPass;
      return !p.is_over;
    }
    int count = 0;
    for (std::uint64_t left = p.moves; left; left &= left - 1) out[count++] = to_action(left);
    return count;
  }

  template <class Random>
  Action random_action(const Position& p, Random& random) const {
    if (p.moves == 0) return kPass;
    return to_action(nth_bit(p.moves, unsigned(random.below(unsigned(std::popcount(p.moves))))));
  }

  void play(Position& p, Action action) const {
    if (action != kPass) {
      const std::uint64_t disc = to_bit(action), flipped = flips(disc, p.own, p.other);
      p.own |= disc | flipped;
      p.other ^= flipped;
    }
    std::swap(p.own, p.other);
    ++p.ply;
    p.to_play ^= 1;
    p = settled(p);
  }

  std::uint64_t evaluation_key(const Position& p) const {
    const std::uint64_t discs = combine(mix64(p.own), p.other);
    return p.to_play ? ~discs : discs;
  }
  std::uint64_t transposition_key(const Position& p) const { return evaluation_key(p); }

  void observe(const Position& p, int symmetry, std::uint8_t* bits, float* uniform) const {
    const std::uint64_t own = without_gaps<kSize, kSize>(view(p.own, symmetry)),
                        other = without_gaps<kSize, kSize>(view(p.other, symmetry));
    const std::uint64_t low = kSize == 8 ? own : own | other << kCells % 64,
                        high = kSize == 8 ? other : other >> (64 - kCells) % 64;
    for (int i = 0; i < 8; ++i) bits[i] = std::uint8_t(low >> (8 * i));
    for (int i = 8; i < 2 * kCells / 8; ++i) bits[i] = std::uint8_t(high >> (8 * i - 64));
    uniform[0] = float(p.to_play);
  }

  Action permute(int symmetry, Action action) const { return Action(kViews[size_t(symmetry)][size_t(action)]); }
  int permute_cell(int symmetry, int cell) const { return kViews[size_t(symmetry)][size_t(cell)]; }

  Position parse(const std::string& text) const {
    const Grid grid = read_grid(text, kSize, kSize);
    std::uint64_t discs[2] = {};
    for (int cell = 0; cell < kCells; ++cell)
      if (const char c = grid.cells[size_t(cell)]; c != '.') discs[c == 'O'] |= to_bit(Action(cell));
    const bool is_second = grid.to_play == 1;
    const int placed = std::popcount(discs[0] | discs[1]) - 4;  // a grid does not show how often a player passed
    return settled({.own = discs[is_second],
                    .other = discs[!is_second],
                    .ply = std::uint32_t(placed > 0 ? placed : 0),
                    .to_play = is_second});
  }

  std::string to_text(const Position& p) const {
    const std::uint64_t first = p.to_play ? p.other : p.own, second = p.to_play ? p.own : p.other;
    return write_grid(kSize, kSize, p.to_play, [&](int cell) {
      const std::uint64_t at = to_bit(Action(cell));
      return first & at ? 0 : second & at ? 1 : -1;
    });
  }

  void ownership(const Position& p, std::int8_t* map) const {
    for (int cell = 0; cell < kCells; ++cell) {
      const std::uint64_t at = to_bit(Action(cell));
      map[cell] = p.own & at ? 1 : p.other & at ? -1 : 0;
    }
  }

  std::string to_move(const Position&, Action action) const {
    if (action == kPass) return "pass";
    return {char('a' + action % kSize), char('1' + action / kSize)};
  }
  int from_move(const Position&, const std::string& text) const {
    if (text == "pass") return kPass;
    if (text.size() != 2 || text[0] < 'a' || text[0] >= 'a' + kSize || text[1] < '1' || text[1] >= '1' + kSize)
      return -1;
    return (text[1] - '1') * kSize + (text[0] - 'a');
  }
  std::string render(const Position& p) const {
    std::string text = " ";
    for (int column = 0; column < kSize; ++column) text += {' ', char('a' + column)};
    const std::uint64_t first = p.to_play ? p.other : p.own, second = p.to_play ? p.own : p.other;
    for (int row = 0; row < kSize; ++row) {
      text += {'\n', char('1' + row)};
      for (int column = 0; column < kSize; ++column)
        text += first & bit(row, column) ? " ●" : second & bit(row, column) ? " ○" : " ·";
    }
    return text + (p.is_over ? "\nthe game is over\n" : p.to_play ? "\n○ to move\n" : "\n● to move\n");
  }

 private:
  // Four directions at once, and their opposites: along a row, the diagonals, a column.
  typedef std::uint64_t Lanes __attribute__((vector_size(32)));
  static constexpr Lanes kSteps{1, 7, 8, 9};
  // Discs that can be flanked: none of an outer column along a row or a diagonal, where the shift would wrap around.
  static constexpr Lanes kFlankable{kInner, kInner, kBoard, kInner};

  static constexpr std::uint64_t bit(int row, int column) { return 1ull << (8 * row + column); }
  static std::uint64_t to_bit(Action action) {
    return 1ull << (kSize == 8 ? action : action / kSize * 8 + action % kSize);
  }
  // Of the lowest bit.
  static Action to_action(std::uint64_t set) {
    const int at = std::countr_zero(set);
    return Action(kSize == 8 ? at : at / 8 * kSize + at % 8);
  }

  static int lead(const Position& p) { return std::popcount(p.own) - std::popcount(p.other); }

  // With `moves` and `is_over` computed from the discs.
  static Position settled(Position p) {
    p.moves = moves(p.own, p.other);
    p.is_over = p.moves == 0 && moves(p.other, p.own) == 0;
    return p;
  }

  static Lanes all(std::uint64_t x) { return Lanes{x, x, x, x}; }
  static std::uint64_t any(Lanes x) { return (x[0] | x[1]) | (x[2] | x[3]); }

  // Extends every run of `fill` by the discs of `through` that follow it: kSize - 2 cells in all, the first one
  // included.  Doubling steps (Kogge and Stone 1973).
  template <bool kUp>
  static Lanes extended(Lanes fill, Lanes through) {
    fill |= through & (kUp ? fill << kSteps : fill >> kSteps);
    const Lanes pairs = through & (kUp ? through << kSteps : through >> kSteps), steps = kSteps + kSteps;
    fill |= pairs & (kUp ? fill << steps : fill >> steps);
    if constexpr (kSize == 8) fill |= pairs & (kUp ? fill << steps : fill >> steps);
    return fill;
  }

  // Empty cells from which a run of `other` leads to a disc of `own`.
  static std::uint64_t moves(std::uint64_t own, std::uint64_t other) {
    const Lanes from = all(own), through = all(other) & kFlankable;
    const Lanes up = extended<true>(through & from << kSteps, through) << kSteps;
    const Lanes down = extended<false>(through & from >> kSteps, through) >> kSteps;
    return any(up | down) & ~(own | other) & kBoard;
  }

  // Discs of `other` between `disc` and a disc of `own`.
  static std::uint64_t flips(std::uint64_t disc, std::uint64_t own, std::uint64_t other) {
    const Lanes from = all(disc), ends = all(own), through = all(other) & kFlankable;
    const Lanes up = extended<true>(through & from << kSteps, through);
    const Lanes down = extended<false>(through & from >> kSteps, through);
    const Lanes is_up = Lanes((ends & up << kSteps) != 0), is_down = Lanes((ends & down >> kSteps) != 0);
    return any((up & is_up) | (down & is_down));
  }

  // [S, A]: where a cell lies in the view of a symmetry; a pass stays one.  The symmetries of the square that leave the
  // start as it is: the reflection in the diagonal of O (1), in that of X (2), and both (3), which is half a turn.  The
  // other four exchange the colours of the start.
  static constexpr auto kViews = [] {
    std::array<std::array<std::uint8_t, kCells + 1>, 4> views{};
    for (int symmetry = 0; symmetry < 4; ++symmetry) {
      views[size_t(symmetry)][kPass] = kPass;
      for (int cell = 0; cell < kCells; ++cell) {
        const bool is_crossed = symmetry == 1 || symmetry == 2;
        const int at = is_crossed ? cell % kSize * kSize + cell / kSize : cell;
        views[size_t(symmetry)][size_t(cell)] = std::uint8_t(symmetry & 2 ? kCells - 1 - at : at);
      }
    }
    return views;
  }();

  static std::uint64_t view(std::uint64_t x, int symmetry) {
    if (symmetry == 1 || symmetry == 2) x = transpose(x);
    return symmetry & 2 ? turn_half(x) >> 9 * (8 - kSize) : x;
  }
};

}  // namespace shusaku
