// Go as text: vertices of GTP, set-up properties of SGF, handicap points, a board as text.
#pragma once

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "games/grid_text.h"

namespace shusaku::go_text {

// Cells are row * size + column, row 0 at the top.
struct SetUp {
  std::vector<std::pair<int, int>> stones;  // cell, 0 black or 1 white
  int to_play = -1;                         // -1: not given
};

constexpr char kColumns[] = "ABCDEFGHJKLMNOPQRST";

inline std::string vertex(int size, int cell) {
  if (cell == size * size) return "pass";
  return kColumns[cell % size] + std::to_string(size - cell / size);
}

// -1 if the text is no vertex of the board.
inline int cell_of(int size, const std::string& text) {
  std::string upper;
  for (char c : text) upper += char(std::toupper(static_cast<unsigned char>(c)));
  if (upper == "PASS") return size * size;
  if (upper.size() < 2 || upper.size() > 3) return -1;
  int column = 0;
  while (column < size && kColumns[column] != upper[0]) ++column;
  const int row = read_number(upper.substr(1));
  if (column == size || row < 1 || row > size || upper[1] == '0') return -1;
  return (size - row) * size + column;
}

// The points of GTP's fixed_handicap (GTP 2, section 4.1.1); std::invalid_argument if the board has fewer.
inline std::vector<int> handicap_cells(int size, int stones) {
  const int most = size < 7 ? 0 : size % 2 == 0 || size == 7 ? 4 : 9;
  if (stones < 0 || stones == 1 || stones > most)
    throw std::invalid_argument("parameter handicap=" + std::to_string(stones) + " of game go: must be 0" +
                                (most ? " or lie in [2, " + std::to_string(most) + "]" : std::string()) + " on " +
                                std::to_string(size) + " x " + std::to_string(size));
  const int edge = size < 13 ? 2 : 3, far = size - 1 - edge, middle = size / 2;
  const auto at = [&](int column, int row_from_below) { return (size - 1 - row_from_below) * size + column; };
  std::vector<int> cells;
  const std::pair<int, int> corners[] = {{edge, edge}, {far, far}, {edge, far}, {far, edge}};
  for (int i = 0; i < 4 && i < stones; ++i) cells.push_back(at(corners[i].first, corners[i].second));
  if (stones >= 6) cells.push_back(at(edge, middle)), cells.push_back(at(far, middle));
  if (stones >= 8) cells.push_back(at(middle, edge)), cells.push_back(at(middle, far));
  if (stones >= 5 && stones % 2 == 1) cells.push_back(at(middle, middle));
  return cells;
}

namespace detail {

[[noreturn]] inline void fail(const std::string& what) {
  throw std::invalid_argument("set-up in SGF: " + what + "; write (;SZ[9]AB[cc][ee:fe]AW[gg]PL[W])");
}

inline int coordinate(int size, char c) {
  const int value = c - 'a';
  if (value < 0 || value >= size) fail(quoted({c}) + " is no line of a board of " + std::to_string(size));
  return value;
}

// "cc", or a rectangle "aa:cc" -> its cells.
inline std::vector<int> points(int size, const std::string& text) {
  if (text.size() != 2 && !(text.size() == 5 && text[2] == ':')) fail(quoted(text) + " is no point");
  const int left = coordinate(size, text[0]), top = coordinate(size, text[1]);
  const int right = text.size() == 2 ? left : coordinate(size, text[3]),
            bottom = text.size() == 2 ? top : coordinate(size, text[4]);
  if (right < left || bottom < top) fail(quoted(text) + " is no rectangle from its upper left to its lower right");
  std::vector<int> cells;
  for (int row = top; row <= bottom; ++row)
    for (int column = left; column <= right; ++column) cells.push_back(row * size + column);
  return cells;
}

}  // namespace detail

// The set-up properties of the root of an SGF tree (FF[4]): SZ, AB, AW, AE, PL.  Moves are refused; other properties,
// KM and RU among them, are passed over: the game's own parameters hold.  std::invalid_argument naming what is wrong.
inline SetUp read_sgf(const std::string& text, int size) {
  using detail::fail;
  size_t at = 0;
  const auto skip = [&] {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
  };
  const auto expect = [&](char c) {
    skip();
    if (at >= text.size() || text[at] != c) fail("a " + quoted({c}) + " is missing");
    ++at;
  };
  std::vector<int> cells(size_t(size) * size_t(size), -2);  // -2: not given, -1 empty
  std::vector<std::string> seen;
  SetUp result;
  expect('('), expect(';');
  for (skip(); at < text.size() && std::isupper(static_cast<unsigned char>(text[at])); skip()) {
    std::string name;
    while (at < text.size() && std::isupper(static_cast<unsigned char>(text[at]))) name += text[at++];
    if (name == "B" || name == "W") fail("moves (" + name + "[..]) are no set-up: play them instead");
    for (const std::string& earlier : seen)
      if (earlier == name) fail(name + " stands there twice");
    seen.push_back(name);
    skip();
    if (at >= text.size() || text[at] != '[') fail(quoted(name) + " has no value");
    for (; at < text.size() && text[at] == '['; skip()) {
      std::string value;
      for (++at; at < text.size() && text[at] != ']'; ++at) {
        if (text[at] == '\\' && at + 1 < text.size()) ++at;
        value += text[at];
      }
      if (at >= text.size()) fail("a ']' is missing");
      ++at;
      if (name == "AB" || name == "AW" || name == "AE") {
        for (int cell : detail::points(size, value)) {
          if (cells[size_t(cell)] != -2) fail(vertex(size, cell) + " is set up twice");
          cells[size_t(cell)] = name == "AE" ? -1 : name == "AW";
        }
      } else if (name == "PL") {
        if (value != "B" && value != "W") fail("PL[" + quoted(value) + "] is neither B nor W");
        result.to_play = value == "W";
      } else if (name == "SZ") {
        if (value != std::to_string(size))
          fail("SZ[" + quoted(value) + "], this board has " + std::to_string(size) + " lines");
      } else if (name == "GM" && value != "1") {
        fail("GM[" + quoted(value) + "] is not Go");
      }
    }
  }
  if (at < text.size() && (text[at] == ';' || text[at] == '('))
    fail("only the first node is read: play the moves instead");
  if (at < text.size() && text[at] != ')')
    fail("after the properties, " + quoted(text.substr(at)) + " is none; they have capital letters");
  expect(')');
  skip();
  if (at < text.size()) fail("behind its end there is " + quoted(text.substr(at)));
  for (size_t cell = 0; cell < cells.size(); ++cell)
    if (cells[cell] >= 0) result.stones.emplace_back(int(cell), cells[cell]);
  return result;
}

// Either form.
inline SetUp read(const std::string& text, int size) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '(') return read_sgf(text, size);
  const Grid grid = read_grid(text, size, size);
  SetUp result;
  for (size_t cell = 0; cell < grid.cells.size(); ++cell)
    if (grid.cells[cell] != '.') result.stones.emplace_back(int(cell), grid.cells[cell] == 'O');
  result.to_play = grid.to_play;
  return result;
}

// `colour(cell)`: 0 black, 1 white, -1 empty.
template <class F>
std::string render(int size, F colour) {
  std::string letters = "  ";
  for (int column = 0; column < size; ++column) letters += std::string(" ") + kColumns[column];
  std::string text = letters + "\n";
  for (int row = 0; row < size; ++row) {
    const std::string number = std::to_string(size - row);
    text += (number.size() < 2 ? " " : "") + number;
    for (int column = 0; column < size; ++column) {
      const int c = colour(row * size + column);
      text += c < 0 ? " ·" : c == 0 ? " ●" : " ○";
    }
    text += " " + number + "\n";
  }
  return text + letters + "\n";
}

}  // namespace shusaku::go_text
