// What a search is told and what it concludes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "games/game.h"

namespace shusaku {

// The options of a search: type and name.  The list is the struct and its binding, so that an option is one line here
// and one field of a dataclass in common/config/search.py, which documents it and holds its default.
#define SHUSAKU_SEARCH_OPTIONS(OPTION)             \
  OPTION(std::string, policy)                      \
  OPTION(int, simulations)                         \
  OPTION(float, c_puct)                            \
  OPTION(float, c_puct_log)                        \
  OPTION(float, c_puct_base)                       \
  OPTION(std::string, fpu)                         \
  OPTION(float, fpu_reduction)                     \
  OPTION(float, root_fpu_reduction)                \
  OPTION(bool, noise)                              \
  OPTION(float, dirichlet_alpha)                   \
  OPTION(float, dirichlet_total)                   \
  OPTION(float, dirichlet_fraction)                \
  OPTION(float, root_policy_temperature)           \
  OPTION(float, root_policy_temperature_early)     \
  OPTION(float, root_policy_temperature_half_life) \
  OPTION(float, forced_playouts)                   \
  OPTION(bool, prune_policy)                       \
  OPTION(float, temperature)                       \
  OPTION(float, temperature_half_life)             \
  OPTION(float, temperature_final)                 \
  OPTION(int, temperature_plies)                   \
  OPTION(float, target_temperature)                \
  OPTION(std::string, move_choice)                 \
  OPTION(float, lcb_stdevs)                        \
  OPTION(float, lcb_least_share)                   \
  OPTION(bool, reuse)                              \
  OPTION(bool, proven_results)                     \
  OPTION(int, solved_empties)                      \
  OPTION(float, score_share)                       \
  OPTION(int, leaves)                              \
  OPTION(bool, graph)                              \
  OPTION(std::int64_t, cache)                      \
  OPTION(bool, symmetric_cache)                    \
  OPTION(bool, average_symmetries)                 \
  OPTION(int, considered_actions)                  \
  OPTION(float, gumbel_scale)                      \
  OPTION(std::string, gumbel_interior)             \
  OPTION(float, value_scale)                       \
  OPTION(float, maxvisit_init)                     \
  OPTION(bool, rescale_values)                     \
  OPTION(float, c_uct)                             \
  OPTION(float, c_alphago)                         \
  OPTION(float, rollout_share)                     \
  OPTION(int, expand_after)                        \
  OPTION(int, value_after)                         \
  OPTION(float, prior_power)                       \
  OPTION(int, virtual_loss)                        \
  OPTION(float, resign_below)                      \
  OPTION(bool, asks_policy)                        \
  OPTION(std::string, rollout)                     \
  OPTION(bool, symmetries)

// Every option must be set: there are no defaults here.
struct SearchOptions {
#define SHUSAKU_FIELD(type, name) type name{};
  SHUSAKU_SEARCH_OPTIONS(SHUSAKU_FIELD)
#undef SHUSAKU_FIELD
};

// How much is spent on one search.
struct Budget {
  std::int32_t simulations = 0;
  bool is_full = true;  // false: a cheap search, which is not learned from; puct adds no noise to it
};

// All lists are over the legal actions of the root, ascending.
struct SearchResult {
  Action action = 0;    // to play
  float value = 0;      // of the root, for the player to move: the mean; gumbel: what its policy expects
  float raw_value = 0;  // what the network said of the root
  float surprise = 0;   // KL(policy || prior)
  std::vector<Action> actions;
  std::vector<float> policy;  // to learn
  std::vector<int> visits;
  std::vector<float> q_values;       // NaN where unvisited
  std::vector<float> prior;          // without noise and temperature
  float proven_value = 0;            // of the root, for the player to move; NaN where the tree proves nothing
  std::vector<float> proven_values;  // of the actions

  // Keeps the memory of the lists.
  void clear() {
    actions.clear(), policy.clear(), visits.clear(), q_values.clear(), prior.clear(), proven_values.clear();
  }
};

}  // namespace shusaku
