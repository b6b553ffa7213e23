// How games are made, apart from the search.  Fields are documented in common/config/schema.py, SelfPlayConfig.
#pragma once

namespace shusaku {

struct SelfPlayOptions {
  int random_plies = 0;
  float policy_plies = 0.f;
  float policy_temperature = 1.f;
  float fork_share = 0.f;
  int fork_plies = 20;
  float komi_stdev = 0.f;
  float cheap_share = 0.f;
  int cheap_simulations = 0;
  float decided_value = 1.f;
  int decided_plies = 3;
  float decided_weight = 0.1f;
  float resign_errors = 0.f;
  float never_resign_share = 0.1f;
};

}  // namespace shusaku
