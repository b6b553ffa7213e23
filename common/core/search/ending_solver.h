// Exact results of positions near the end of a game whose board fills up: alpha-beta with a table of what is known, the
// move first that leaves the fewest replies, then the one that cut off the most (history heuristic, Schaeffer 1989).
// A game that looks ahead is searched among the moves that do not lose at once, the most threats first (Pons, "Solving
// Connect 4", blog.gamesolver.org, parts 6, 9 and 10), which sees twice as far.
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

  // Solves positions with at most so many empty cells; 0: none.  std::invalid_argument, which names the setting, if
  // that is out of range, or if the board of this game does not fill up.
  EndingSolver(const G& rules, int most_empty, const std::string& setting = "search.solved_empties")
      : rules_(&rules), most_empty_(most_empty) {
    if (most_empty == 0) return;
    const std::string said = setting + "=" + std::to_string(most_empty) + ": ";
    if constexpr (HasEmptyCells<G>) {
      if (most_empty < 0 || most_empty > kMostEmptyCells)
        throw std::invalid_argument(said + "must be at least 0 and, in " + name_of(rules) + ", at most " +
                                    std::to_string(kMostEmptyCells));
      known_.resize(kEntries), cutoffs_.resize(size_t(rules.num_actions()));
    } else {
      throw std::invalid_argument(said + "the board of " + name_of(rules) +
                                  " does not fill up, so its ends are not solved; use 0");
    }
  }

  bool solves([[maybe_unused]] const Position& p) const {
    if constexpr (HasEmptyCells<G>)
      return most_empty_ > 0 && rules_->num_empty(p) <= most_empty_;
    else
      return false;
  }

  // The result under best play for the player to move, if it lies between `low` and `high`, else a bound on that side
  // of them; `p` is one that solves(), and not terminal.
  int solve(const Position& p, int low = -1, int high = 1) {
    assert(solves(p) && !rules_->is_terminal(p) && low < high);
    if constexpr (LooksAhead<G>) {
      return rules_->wins_at_once(p) ? 1 : best_of_sound(p, rules_->num_empty(p), low, high);
    } else if constexpr (HasEmptyCells<G>) {
      return best_result(p, low, high);
    } else {
      return 0;
    }
  }

 private:
  static constexpr int kMostEmptyCells = LooksAhead<G> ? 28 : 20;
  static constexpr int kLeastKept = 4;  // empty cells: below, a look into the table costs more than it saves
  static constexpr int kMostCutoffs = 1024;
  static constexpr int kBits = 14, kShift = 64 - kBits;
  static constexpr std::size_t kEntries = 1 << kBits;  // 128 KiB, which stays in the second cache

  // A position and the bounds of its result, in one word, so that the table is small.
  class Known {
   public:
    Known() = default;
    Known(std::uint64_t key, int at_least, int at_most)
        : word_((key & kOfKey) | std::uint64_t(at_least + 1) << 2 | std::uint64_t(at_most + 1)) {}
    bool is_of(std::uint64_t key) const { return ((word_ ^ key) & kOfKey) == 0; }
    int at_least() const { return int(word_ >> 2 & 3) - 1; }
    int at_most() const { return int(word_ & 3) - 1; }

   private:
    static constexpr std::uint64_t kOfKey = ~std::uint64_t(15);
    std::uint64_t word_ = 2;
  };

  // The result if it lies between `low` and `high`, else a bound on that side of them.
  int best_result(const Position& p, int low, int high) {
    if (rules_->num_empty(p) < kLeastKept) return try_all(p, low, high);
    return kept(p, low, high, [&] { return try_ordered(p, low, high); });
  }

  // The same of a player who does not win at once.
  int best_of_sound(const Position& p, int empty, int low, int high) {
    assert(!rules_->wins_at_once(p));
    const Outlook outlook = rules_->look_ahead(p, low, high);
    low = outlook.low, high = outlook.high;
    if (low >= high) return low;
    if (outlook.sound == 0) return -1;
    if (empty <= 2) return 0;  // a sound move, and no winning one is left
    const auto try_sound = [&] {
      Position after[Outlook::kMostSound];
      const int count = rules_->after_sound_moves(p, outlook, after);
      int best = -1;
      for (int i = 0; i < count && best < high; ++i)
        best = std::max(best, -best_of_sound(after[i], empty - 1, -high, -std::max(low, best)));
      return best;
    };
    return empty < kLeastKept ? try_sound() : kept(p, low, high, try_sound);
  }

  // What `find()` finds, unless the table knows it.
  template <class Find>
  int kept(const Position& p, int low, int high, Find find) {
    const std::uint64_t key = rules_->transposition_key(p);
    Known& known = known_[key >> kShift];
    if (known.is_of(key)) {
      const int at_least = known.at_least(), at_most = known.at_most();
      if (at_least >= high || at_least == at_most) return at_least;
      if (at_most <= low) return at_most;
    }
    const int best = find();
    int at_least = -1, at_most = 1;
    if (known.is_of(key)) at_least = known.at_least(), at_most = known.at_most();
    if (best > low) at_least = std::max(at_least, best);
    if (best < high) at_most = std::min(at_most, best);
    known = {key, at_least, at_most};
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
