// Games kept as moves and policies, from which the planes of a row are made again when it is sampled: a row of chess
// costs 2.3 KB as planes, and some 140 bytes so (benchmarks/speed/kept_moves.py).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "games/game.h"
#include "rows/record_view.h"

namespace shusaku {

// An action of a policy and its share of 65,535.
struct PolicyShare {
  Action action;
  std::uint16_t share;
};

// What the rows of one game are made from; only plies of rows with weight have a policy here.
struct KeptGame {
  std::int64_t first_row = 0;
  float komi = kNoKomi;                    // of this game, if it was sampled
  std::vector<Action> actions;             // up to the ply of the last row
  std::vector<std::uint16_t> plies;        // of each row
  std::vector<std::uint32_t> policy_ends;  // of each row
  std::vector<PolicyShare> policy;

  std::int64_t nbytes() const {
    return std::int64_t(sizeof *this + sizeof(Action) * actions.capacity() + sizeof(std::uint16_t) * plies.capacity() +
                        sizeof(std::uint32_t) * policy_ends.capacity() + sizeof(PolicyShare) * policy.capacity());
  }
};

class KeptGames {
 public:
  // The rows of the record, of which there must be one, are numbered from `first_row` on: after those of every game
  // before.
  void add(const RecordView& r, std::int64_t first_row) {
    KeptGame game{first_row, r.komi, {}, {}, {}, {}};
    size_t rows = 0, shares = 0, last = 0;
    for (size_t t = 0; t < r.actions.size(); ++t) {
      if (r.row_weight[t] <= 0) continue;
      ++rows, shares += r.policy_offsets[t + 1] - r.policy_offsets[t], last = t;
    }
    game.actions.assign(r.actions.begin(), r.actions.begin() + std::ptrdiff_t(last));
    game.plies.reserve(rows), game.policy_ends.reserve(rows), game.policy.reserve(shares);
    for (size_t t = 0; t <= last; ++t) {
      if (r.row_weight[t] <= 0) continue;
      for (std::uint32_t i = r.policy_offsets[t]; i < r.policy_offsets[t + 1]; ++i)
        game.policy.push_back({r.policy_actions[i], r.policy_shares[i]});
      game.plies.push_back(std::uint16_t(t));
      game.policy_ends.push_back(std::uint32_t(game.policy.size()));
    }
    nbytes_ += game.nbytes();
    games_.push_back(std::move(game));
  }

  // Forgets the games that have no row from `row` on.
  void forget_before(std::int64_t row) {
    while (games_.size() > 1 && games_[1].first_row <= row) {
      nbytes_ -= games_.front().nbytes();
      games_.pop_front();
    }
  }

  // Of the game that `row` belongs to, which must be held.
  const KeptGame& of(std::int64_t row) const {
    return *std::prev(std::upper_bound(games_.begin(), games_.end(), row,
                                       [](std::int64_t r, const KeptGame& g) { return r < g.first_row; }));
  }

  // Of a row that is held.
  std::span<const PolicyShare> policy(std::int64_t row) const {
    const KeptGame& game = of(row);
    const size_t i = size_t(row - game.first_row);
    const std::uint32_t begin = i ? game.policy_ends[i - 1] : 0;
    return std::span(game.policy).subspan(begin, game.policy_ends[i] - begin);
  }

  std::int64_t nbytes() const { return nbytes_; }

 private:
  std::deque<KeptGame> games_;
  std::int64_t nbytes_ = 0;
};

}  // namespace shusaku
