// What is known for sure of a game that has been played: its plies with few empty cells, solved (as lc0's rescorer does
// with tablebases: trainingdata/rescorer.cc).  The game, and who won it, stay as they were.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "games/game.h"
#include "rows/record_view.h"
#include "search/ending_solver.h"

namespace shusaku {

template <GameRules G>
class ExactLabels {
 public:
  using Position = typename G::Position;

  // Of plies with at most so many empty cells; 0: of none.  With `policies` also what is played there.
  // std::invalid_argument as of EndingSolver.
  ExactLabels(const G& rules, int most_empty, bool policies)
      : rules_(&rules), policies_(policies), solver_(rules, most_empty, "learner.solved_empties") {}

  // The record from this start with exact results in place of the root values of solved plies; with `policies` their
  // policies keep only the shares of actions that hold the result.  Valid until the next call.
  RecordView apply(const RecordView& r, const Position& start) {
    const std::size_t plies = r.actions.size();
    positions_.clear();
    Position position = start;
    std::size_t first = plies;  // that is solved: the board only fills up
    for (std::size_t t = 0; t < plies; rules_->play(position, r.actions[t++])) {
      if (!solver_.solves(position)) continue;
      first = std::min(first, t);
      positions_.push_back(position);
    }
    if (first == plies) return r;
    results_.assign(plies, std::numeric_limits<float>::quiet_NaN());
    root_values_.assign(r.root_values.begin(), r.root_values.end());
    shares_.assign(r.policy_shares.begin(), r.policy_shares.end());
    int at_least = rules_->is_terminal(position) ? -rules_->outcome(position) : -1;
    for (std::size_t t = plies; t-- > first; at_least = -int(results_[t])) {
      // The move that was played is worth `at_least`; whether another one is worth more is asked.
      const Position& p = positions_[t - first];
      const int result = at_least == 1 ? 1 : std::max(at_least, solver_.solve(p, at_least, 1));
      results_[t] = root_values_[t] = float(result);
      if (policies_ && result > -1) keep_best(p, result, r, t);
    }
    RecordView exact = r;
    exact.results = results_, exact.root_values = root_values_, exact.policy_shares = shares_;
    return exact;
  }

 private:
  static constexpr std::uint32_t kAll = 65535;

  // Of a position with this result: what actions that hold it not had of the policy goes to those that do.
  void keep_best(const Position& p, int result, const RecordView& r, std::size_t t) {
    const std::size_t begin = r.policy_offsets[t], end = r.policy_offsets[t + 1];
    kept_.assign(end - begin, 0);
    for (std::size_t i = begin; i < end; ++i)
      if (shares_[i] > 0 && holds(p, r.policy_actions[i], result)) kept_[i - begin] = shares_[i];
    const std::uint32_t sum = std::accumulate(kept_.begin(), kept_.end(), 0u);
    if (sum == 0 || sum == kAll) return;  // the search has seen none of them; or only them
    std::uint32_t given = 0;
    for (std::uint32_t& share : kept_) given += share = share * kAll / sum;
    *std::max_element(kept_.begin(), kept_.end()) += kAll - given;
    std::copy(kept_.begin(), kept_.end(), shares_.begin() + std::ptrdiff_t(begin));
  }

  bool holds(const Position& p, Action action, int result) {
    Position next = p;
    rules_->play(next, action);
    return (rules_->is_terminal(next) ? rules_->outcome(next) : solver_.solve(next, -result, 1 - result)) <= -result;
  }

  const G* rules_;
  bool policies_;
  EndingSolver<G> solver_;
  std::vector<Position> positions_;           // of the plies from the first that is solved on
  std::vector<float> results_, root_values_;  // [T]
  std::vector<std::uint16_t> shares_;         // [N]
  std::vector<std::uint32_t> kept_;           // of one ply
};

}  // namespace shusaku
