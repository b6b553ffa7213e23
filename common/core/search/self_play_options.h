// How games are made, apart from the search.
#pragma once

namespace shusaku {

// As SHUSAKU_SEARCH_OPTIONS; the dataclass is SelfPlayConfig in common/config/schema.py.
#define SHUSAKU_SELF_PLAY_OPTIONS(OPTION) \
  OPTION(int, random_plies)               \
  OPTION(float, policy_plies)             \
  OPTION(float, policy_temperature)       \
  OPTION(float, fork_share)               \
  OPTION(int, fork_plies)                 \
  OPTION(float, komi_stdev)               \
  OPTION(float, cheap_share)              \
  OPTION(int, cheap_simulations)          \
  OPTION(float, decided_value)            \
  OPTION(int, decided_plies)              \
  OPTION(float, decided_weight)           \
  OPTION(float, solved_weight)            \
  OPTION(float, resign_errors)            \
  OPTION(float, never_resign_share)

struct SelfPlayOptions {
#define SHUSAKU_FIELD(type, name) type name{};
  SHUSAKU_SELF_PLAY_OPTIONS(SHUSAKU_FIELD)
#undef SHUSAKU_FIELD
};

}  // namespace shusaku
