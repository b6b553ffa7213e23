// What a search is told and what it concludes.  Fields are documented in common/config/schema.py, SearchConfig.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "games/game.h"

namespace shusaku {

struct SearchOptions {
  std::string policy = "puct";
  int simulations = 64;
  float c_puct = 1.5f;
  float c_puct_log = 0.f;
  float c_puct_base = 19652.f;
  float fpu_reduction = 0.2f;
  float root_fpu_reduction = 0.f;
  bool noise = false;
  float dirichlet_alpha = 1.f;
  float dirichlet_total = 0.f;
  float dirichlet_fraction = 0.25f;
  float root_policy_temperature = 1.f;
  float root_policy_temperature_early = 1.f;
  float root_policy_temperature_half_life = 0.f;
  float forced_playouts = 0.f;
  bool prune_policy = false;
  float temperature = 1.f;
  float temperature_half_life = 0.f;
  float temperature_final = 0.f;
  int temperature_plies = 30;
  std::string move_choice = "visits";
  float lcb_stdevs = 5.f;
  float lcb_least_share = 0.15f;
  bool reuse = false;
  bool proven_results = false;
  int leaves = 1;
  bool graph = false;
  std::int64_t cache = 0;
  bool symmetric_cache = false;
  bool average_symmetries = false;
  int considered_actions = 16;
  float gumbel_scale = 1.f;
  std::string gumbel_interior = "improved";
  float value_scale = 0.1f;
  float maxvisit_init = 50.f;
  bool rescale_values = true;
  float c_uct = 1.4f;
  bool symmetries = true;
};

// All lists are over the legal actions of the root, ascending.
struct SearchResult {
  Action action = 0;    // to play
  float value = 0;      // of the root, for the player to move
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
