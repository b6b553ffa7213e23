// Geometry of a Go board of up to N x N points, fixed when the rules are made.
//
// A point is an index into a board with a border: row r, column c lie at (r + 1) * S + c with S = N + 1, so the four
// neighbours are at fixed distances, and the one guard column serves both sides.  Bit b of a set is point b + S; a cell
// is row * size + column, as actions and planes count.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "games/game.h"
#include "games/point_set.h"

namespace shusaku {

template <int N>
struct GoBoard {
  static constexpr int kStride = N + 1;
  static constexpr int kPoints = (N + 2) * (N + 1) + 1;  // with the border
  static constexpr int kWords = (N * kStride + 63) / 64;
  static constexpr int kSteps[4] = {-kStride, -1, 1, kStride};
  using Point = std::conditional_t<(kPoints < 256), std::uint8_t, std::uint16_t>;
  using Set = PointSet<kWords>;
  enum Colour : std::uint8_t { kBlack, kWhite, kEmpty, kBorder };

  explicit GoBoard(int lines) : size(lines) {
    for (int cell = 0; cell < size * size; ++cell) {
      const int point = (cell / size + 1) * kStride + cell % size;
      point_of[cell] = Point(point);
      cell_of[point] = std::uint16_t(cell);
      all.add(point - kStride);
    }
    for (int colour = 0; colour < 2; ++colour)
      for (int p = 0; p < kPoints; ++p)
        zobrist[colour][p] = mix64(0x60B0A2D5EEDull + std::uint64_t(2 * p + colour) * 0x9E3779B97F4A7C15ull);
    for (int colour = 0; colour < 2; ++colour)
      for (int cell = 0; cell < size * size; ++cell) {
        const int p = point_of[cell];
        std::size_t slot = zobrist[colour][p] >> kSlotShift;
        while (slots[slot]) slot = (slot + 1) % kSlots;
        slots[slot] = std::uint16_t(2 * p + colour + 1);
      }
    for (int s = 0; s < 8; ++s)
      for (int cell = 0; cell < size * size; ++cell)
        view[s][point_of[cell]] = cell_view[s][cell] = std::uint16_t(permuted(s, cell));
  }

  // The eight symmetries of the square: bit 0 mirrors left-right, bit 1 top-bottom, bit 2 transposes afterwards.
  int permuted(int symmetry, int cell) const {
    int row = cell / size, column = cell % size;
    if (symmetry & 1) column = size - 1 - column;
    if (symmetry & 2) row = size - 1 - row;
    return symmetry & 4 ? column * size + row : row * size + column;
  }

  // The point where a stone of this colour has this number; -1 if there is none.
  int point_of_zobrist(int colour, std::uint64_t number) const {
    for (std::size_t slot = number >> kSlotShift; slots[slot]; slot = (slot + 1) % kSlots)
      if (const int p = (slots[slot] - 1) / 2; zobrist[colour][p] == number) return p;
    return -1;
  }

  static int bit(int point) { return point - kStride; }
  static int point(int bit) { return bit + kStride; }

  // Points next to the set, and the set itself, wherever they lie on the board or its border.
  static Set grown(const Set& s) { return s | s.up(1) | s.down(1) | s.up(kStride) | s.down(kStride); }
  static Set beside(const Set& s) { return s.up(1) | s.down(1) | s.up(kStride) | s.down(kStride); }

  // The part of `space` that is connected to `from` within it.
  static Set flood(const Set& from, const Set& space) {
    Set reached = beside(from) & space;
    for (;;) {
      const Set next = grown(reached) & space;
      if (next == reached) return reached;
      reached = next;
    }
  }

  int size;
  Set all;  // the points of the board
  std::array<Point, N * N> point_of{};
  std::array<std::uint16_t, kPoints> cell_of{};
  std::array<std::array<std::uint64_t, kPoints>, 2> zobrist{};
  static constexpr std::size_t kSlots = 2048, kSlotShift = 64 - 11;  // more than twice the stones of both colours
  std::array<std::uint16_t, kSlots>
      slots{};  // 2 * point + colour + 1 by zobrist, the next free one if it is taken; 0: free
  std::array<std::array<std::uint16_t, kPoints>, 8> view{};     // the cell where a point lies in each symmetry
  std::array<std::array<std::uint16_t, N * N>, 8> cell_view{};  // and where a cell does
};

}  // namespace shusaku
