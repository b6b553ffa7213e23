// A position written as a grid: rows of X (the first player), O and . from the top, on lines of their own or with '/'
// between them, then, if the stones do not determine it, whose turn it is: "X.O/.X./... O".
#pragma once

#include <algorithm>
#include <charconv>
#include <climits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shusaku {

struct Grid {
  std::vector<char> cells;  // [H * W] of 'X', 'O', '.', row 0 at the top
  int to_play = -1;         // -1: not given

  // The number of stones, if X moves first and each ply adds one; std::invalid_argument if that cannot be.
  int ply_of_stones() const {
    const auto first = std::count(cells.begin(), cells.end(), 'X'),
               second = std::count(cells.begin(), cells.end(), 'O');
    if (first != second && first != second + 1)
      throw std::invalid_argument(std::to_string(first) + " X and " + std::to_string(second) +
                                  " O: X moves first, so there must be as many of them or one more");
    if (to_play >= 0 && to_play != first - second)
      throw std::invalid_argument(std::string("it is the turn of ") + (first == second ? "X" : "O") +
                                  " by the number of stones, the text says otherwise");
    return int(first + second);
  }

  // A ply at which it is the given turn, for stones that no game needs to have brought there; near their number.
  int ply_of_turn() const {
    const int stones = int(std::count_if(cells.begin(), cells.end(), [](char c) { return c != '.'; }));
    if (to_play < 0 || (stones & 1) == to_play) return stones;
    return stones > 0 ? stones - 1 : 1;
  }
};

// The words between blanks and line ends.
inline std::vector<std::string> split_words(const std::string& text) {
  constexpr char kBlanks[] = " \t\r\n";
  std::vector<std::string> words;
  for (size_t end = 0, at; (at = text.find_first_not_of(kBlanks, end)) != std::string::npos;) {
    end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.push_back(text.substr(at, end - at));
  }
  return words;
}

// The number that the text writes with decimal digits alone; -1 if it is none, or too great for an int.
inline int read_number(std::string_view text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number <= INT_MAX ? int(number) : -1;
}

// Rows of a square board from the top with '/' between them, as FEN writes them: runs of empty cells as numbers, and
// `name(row, column)` of the others, which is empty for an empty cell.
template <class Name>
std::string write_rows(int size, Name name) {
  std::string text;
  for (int row = 0; row < size; ++row) {
    int gap = 0;
    for (int column = 0; column < size; ++column) {
      const std::string piece = name(row, column);
      if (!piece.empty() && gap) text += char('0' + std::exchange(gap, 0));
      gap += piece.empty();
      text += piece;
    }
    if (gap) text += char('0' + gap);
    if (row + 1 < size) text += '/';
  }
  return text;
}

// What read_grid reads: `player(cell)` is 0, 1, or -1 for an empty cell.
template <class Player>
std::string write_grid(int height, int width, int to_play, Player player) {
  std::string text;
  for (int cell = 0; cell < height * width; ++cell) {
    if (cell > 0 && cell % width == 0) text += '/';
    text += ".XO"[player(cell) + 1];
  }
  return text + (to_play ? " O" : " X");
}

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
