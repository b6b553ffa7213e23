// A position written as a grid: rows of X (the first player), O and . from the top, on lines of their own or with '/'
// between them, then, if the stones do not determine it, whose turn it is: "X.O/.X./... O".
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace shusaku {

struct Grid {
  std::vector<char> cells;  // [H * W] of 'X', 'O', '.', row 0 at the top
  int to_play = -1;         // -1: not given

  int count(char symbol) const {
    int n = 0;
    for (char c : cells) n += c == symbol;
    return n;
  }
};

// Printable and short, for a message of one line.
inline std::string quoted(const std::string& text) {
  std::string safe = "'";
  for (size_t i = 0; i < text.size() && i < 60; ++i) {
    const char c = text[i];
    safe += c >= 0x20 && c < 0x7F ? c : '?';  // beyond ASCII, too: half a character is none, and some end the line
  }
  return safe + (text.size() > 60 ? "...'" : "'");
}

// Throws std::invalid_argument naming the row and the rule.  Blanks between the cells of a row are allowed.
inline Grid read_grid(const std::string& text, int height, int width) {
  const auto fail = [&](const std::string& what) {
    throw std::invalid_argument(
        "a position is " + std::to_string(height) + " rows of " + std::to_string(width) +
        " of X, O and ., with / or line ends between them, and X or O behind them for whose turn it is: " + what);
  };
  Grid grid;
  std::vector<std::string> rows(1);
  for (char c : text) {
    if (c == '/' || c == '\n')
      rows.emplace_back();
    else if (c != ' ' && c != '\r' && c != '\t')
      rows.back() += c;
  }
  while (rows.size() > 1 && rows.back().empty()) rows.pop_back();
  if (int(rows.size()) == height + 1 && rows.back().size() == 1) {  // whose turn, on a line of its own
    rows[rows.size() - 2] += rows.back();
    rows.pop_back();
  }
  if (int(rows.size()) != height) fail(std::to_string(rows.size()) + " rows in " + quoted(text));
  if (int(rows.back().size()) == width + 1) {
    const char turn = rows.back().back();
    if (turn != 'X' && turn != 'O') fail(quoted({turn}) + " behind the last row is neither X nor O");
    grid.to_play = turn == 'O';
    rows.back().pop_back();
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    if (int(rows[row].size()) != width)
      fail("row " + std::to_string(row + 1) + " has " + std::to_string(rows[row].size()) + " cells");
    for (char c : rows[row]) {
      if (c != 'X' && c != 'O' && c != '.') fail("row " + std::to_string(row + 1) + " has " + quoted({c}));
      grid.cells.push_back(c);
    }
  }
  return grid;
}

}  // namespace shusaku
