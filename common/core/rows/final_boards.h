// How games ended, kept once a game and found by any of its rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "games/game.h"

namespace shusaku {

struct FinalBoard {
  std::int64_t first_row = 0;
  float score = kNoScore;              // for the first player; NaN: the game has none, or was resigned
  std::vector<std::int8_t> ownership;  // [H * W] 1 the first player; empty: not known
};

class FinalBoards {
 public:
  // `board.first_row` is greater than that of any board before.
  void add(FinalBoard board) {
    nbytes_ += size_of(board);
    boards_.push_back(std::move(board));
  }

  // Forgets the games that have no row from `row` on.
  void forget_before(std::int64_t row) {
    while (boards_.size() > 1 && boards_[1].first_row <= row) {
      nbytes_ -= size_of(boards_.front());
      boards_.pop_front();
    }
  }

  // Of the game that `row` belongs to, which must be held.
  const FinalBoard& of(std::int64_t row) const {
    return *std::prev(std::upper_bound(boards_.begin(), boards_.end(), row,
                                       [](std::int64_t r, const FinalBoard& b) { return r < b.first_row; }));
  }

  std::int64_t nbytes() const { return nbytes_; }

 private:
  static std::int64_t size_of(const FinalBoard& b) { return std::int64_t(sizeof b + b.ownership.size()); }

  std::deque<FinalBoard> boards_;
  std::int64_t nbytes_ = 0;
};

}  // namespace shusaku
