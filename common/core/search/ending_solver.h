// Exact results of positions near the end of a game whose board fills up: alpha-beta with a table of what is known, the
// move first that leaves the fewest replies, then the one that cut off the most (history heuristic, Schaeffer 1989).
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "games/game.h"

namespace shusaku {

template <GameRules G>
class EndingSolver {
 public:
  using Position = typename G::Position;

  // Solves positions with at most so many empty cells; 0: none.  std::invalid_argument if that is out of range, or if
  // the board of this game does not fill up.
  EndingSolver(const G& rules, int most_empty) : rules_(&rules), most_empty_(most_empty) {
    if (most_empty == 0) return;
    const std::string said = "search.solved_empties=" + std::to_string(most_empty) + ": ";
    if (most_empty < 0 || most_empty > kMostEmptyCells)
      throw std::invalid_argument(said + "must be at least 0 and at most " + std::to_string(kMostEmptyCells));
    if constexpr (HasEmptyCells<G>)
      known_.resize(kEntries), cutoffs_.resize(size_t(rules.num_actions()));
    else
      throw std::invalid_argument(said + "the board of " + name_of(rules) +
                                  " does not fill up, so its ends are not solved; use 0");
  }

  bool solves([[maybe_unused]] const Position& p) const {
    if constexpr (HasEmptyCells<G>)
      return most_empty_ > 0 && rules_->num_empty(p) <= most_empty_;
    else
      return false;
  }

  // The result under best play for the player to move; `p` is one that solves(), and not terminal.
  int solve(const Position& p) {
    assert(solves(p) && !rules_->is_terminal(p));
    if constexpr (HasEmptyCells<G>)
      return best_result(p, -1, 1);
    else
      return 0;
  }

 private:
  static constexpr int kMostEmptyCells = 20;  // as search.solved_empties allows
  static constexpr int kLeastKept = 4;        // empty cells: below, a look into the table costs more than it saves
  static constexpr int kMostCutoffs = 1024;
  static constexpr std::size_t kEntries = 1 << 14;  // 256 KiB, which stays in the second cache

  struct Known {
    std::uint64_t key = 0;
    std::int8_t at_least = -1, at_most = 1;
  };

  // The result if it lies between `low` and `high`, else a bound on that side of them.
  int best_result(const Position& p, int low, int high) {
    const int empty = rules_->num_empty(p);
    if (empty < kLeastKept) return try_all(p, low, high);
    const std::uint64_t key = rules_->transposition_key(p);
    if (const Known& known = known_[key % kEntries]; known.key == key) {
      if (known.at_least >= high || known.at_least == known.at_most) return known.at_least;
      if (known.at_most <= low) return known.at_most;
    }
    const int best = try_ordered(p, low, high);
    Known& known = known_[key % kEntries];
    if (known.key != key) known = {key};
    if (best > low) known.at_least = std::max(known.at_least, std::int8_t(best));
    if (best < high) known.at_most = std::min(known.at_most, std::int8_t(best));
    return best;
  }

  int try_all(const Position& p, int low, int high) {
    Actions actions;
    const int count = rules_->legal_actions(p, actions.data());
    int best = -1;
    for (int i = 0; i < count && best < high; ++i) {
      Position next = p;
      rules_->play(next, actions[size_t(i)]);
      best = std::max(
          best, rules_->is_terminal(next) ? -rules_->outcome(next) : -best_result(next, -high, -std::max(low, best)));
    }
    return best;
  }

  int try_ordered(const Position& p, int low, int high) {
    Actions actions, replies;
    const int count = rules_->legal_actions(p, actions.data());
    std::array<Position, kMostEmptyCells> after;
    std::array<std::pair<int, int>, kMostEmptyCells> order;  // rank, the lowest first, and which action
    int best = -1, open = 0;
    for (int i = 0; i < count; ++i) {
      Position& next = after[size_t(i)];
      next = p;
      rules_->play(next, actions[size_t(i)]);
      if (rules_->is_terminal(next)) {
        best = std::max(best, -rules_->outcome(next));
        if (best >= high) return best;
      } else {
        const int rank = kMostCutoffs * rules_->legal_actions(next, replies.data()) - cutoffs_[actions[size_t(i)]];
        order[size_t(open++)] = {rank, i};
      }
    }
    std::sort(order.begin(), order.begin() + open);
    for (int k = 0; k < open && best < high; ++k) {
      const size_t i = size_t(order[size_t(k)].second);
      best = std::max(best, -best_result(after[i], -high, -std::max(low, best)));
      if (best >= high) count_cutoff(actions[i], rules_->num_empty(p));
    }
    return best;
  }

  // The higher above the end, the more it is worth.
  void count_cutoff(Action action, int empty) {
    cutoffs_[action] += empty;
    if (cutoffs_[action] < kMostCutoffs) return;
    for (int& cutoffs : cutoffs_) cutoffs /= 2;
  }

  // No game that fills its board has more actions than empty cells; a list may be written one beyond its end.
  using Actions = std::array<Action, kMostEmptyCells + 1>;

  const G* rules_;
  int most_empty_;
  std::vector<Known> known_;
  std::vector<int> cutoffs_;  // by action
};

}  // namespace shusaku
