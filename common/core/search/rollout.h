// Rollouts: games played to their end from a position, quickly.  By the game's own rollout policy if it has one and its
// weights were given, else uniformly at random.
#pragma once

#include <algorithm>
#include <concepts>
#include <memory>
#include <stdexcept>
#include <string>

#include "games/rollout_weights.h"
#include "search/random.h"

namespace shusaku {

// clang-format off
// A game with a rollout policy of its own: a linear softmax over local features (Silver et al. 2016, Methods).  The
// object does not change after it was made, so that any thread may use it.
template <class G>
concept HasRolloutPolicy = requires(const G& rules, const RolloutWeights& weights, const typename G::RolloutPolicy& policy,
                                    const typename G::Position& position, Random& random, const Action* list, int count,
                                    float* probabilities, RolloutCandidates& candidates, void (*visit)(Action)) {
  requires std::constructible_from<typename G::RolloutPolicy, const G&, const RolloutWeights&>;
  { policy.play_out(position, random, visit) } -> std::same_as<float>;  // allocates nothing; visit(action) of each move
  { policy.priors(position, list, count, probabilities) } -> std::same_as<void>;  // of the legal actions; sum 1
  { policy.candidates(position, candidates) } -> std::same_as<void>;  // what training learns from
};
// clang-format on

template <class G>
struct RolloutPolicyOf {
  struct type {};
};
template <HasRolloutPolicy G>
struct RolloutPolicyOf<G> {
  using type = typename G::RolloutPolicy;
};

// Any thread may use one object, and copies share the weights.
template <GameRules G>
class Rollouts {
 public:
  using Position = typename G::Position;

  // `file`: of a rollout policy; empty: uniform.  std::invalid_argument if it is none of this game.
  explicit Rollouts(const G& rules, const std::string& file = {}) : rules_(&rules) {
    if (file.empty()) return;
    if constexpr (HasRolloutPolicy<G>)
      policy_ = std::make_shared<const Policy>(rules, read_rollout(rules, file));
    else
      throw std::invalid_argument("search.rollout=" + file + ": " + name_of(rules) +
                                  " has no rollout policy; leave it out: rollouts are uniform then");
  }

  bool has_policy() const { return policy_ != nullptr; }

  // The outcome of one game from here, for the player to move here; `actions` is scratch, [max_legal_actions].
  float play_out(const Position& position, Random& random, Action* actions) const {
    return play_out(position, random, actions, [](Action) {});
  }

  // The same; visit(action) is called with every move.
  template <class Visit>
  float play_out(const Position& position, Random& random, Action* actions, Visit visit) const {
    if constexpr (HasRolloutPolicy<G>)
      if (policy_) return policy_->play_out(position, random, visit);
    Position p;
    copy_position(*rules_, position, p);
    while (!rules_->is_terminal(p)) {
      const Action action = sample_action(*rules_, p, random, actions);
      visit(action);
      rules_->play(p, action);
    }
    const bool same_player = rules_->to_play(p) == rules_->to_play(position);
    return float(same_player ? rules_->outcome(p) : -rules_->outcome(p));
  }

  // The probabilities of the `count` legal actions.
  void priors(const Position& position, const Action* actions, int count, float* probabilities) const {
    if constexpr (HasRolloutPolicy<G>)
      if (policy_) return policy_->priors(position, actions, count, probabilities);
    std::fill_n(probabilities, count, 1.f / float(count));
  }

 private:
  using Policy = typename RolloutPolicyOf<G>::type;
  const G* rules_;
  std::shared_ptr<const Policy> policy_;
};

}  // namespace shusaku
