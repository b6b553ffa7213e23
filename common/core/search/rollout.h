// Games played to their end at random: a value of the position they begin at, and the probabilities they are drawn by.
#pragma once

#include <algorithm>

#include "games/game.h"
#include "search/random.h"

namespace shusaku {

// Any thread may use one object.
template <GameRules G>
class Rollouts {
 public:
  using Position = typename G::Position;

  explicit Rollouts(const G& rules) : rules_(&rules) {}

  // The outcome of one game from here, for the player to move here; `actions` is scratch, [max_legal_actions].
  float play_out(Position position, Random& random, Action* actions) const {
    const int player = rules_->to_play(position);
    while (!rules_->is_terminal(position)) rules_->play(position, sample_action(*rules_, position, random, actions));
    return float(rules_->to_play(position) == player ? rules_->outcome(position) : -rules_->outcome(position));
  }

  // The probabilities of the legal actions.
  void priors(const Position&, const Action*, int count, float* probabilities) const {
    std::fill_n(probabilities, count, 1.f / float(count));
  }

 private:
  const G* rules_;
};

}  // namespace shusaku
