// One finished game as the rows of a ring are made from it.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "games/game.h"

namespace shusaku {

// Views of the columns of common/messages.py, GameRecord.
struct RecordView {
  std::span<const Action> actions;
  std::span<const std::uint32_t> policy_offsets;
  std::span<const Action> policy_actions;
  std::span<const std::uint16_t> policy_shares;
  std::span<const float> root_values, raw_values;
  std::span<const std::uint32_t> versions;
  std::span<const std::uint8_t> kind;
  std::span<const float> row_weight, surprise;
  int outcome;  // for the first player
  float score;  // for the first player; NaN: the game has none
  std::string ended_by;
  float komi;                      // of this game; NaN: that of the rules
  std::span<const float> results;  // [T] under best play, for the player to move; NaN: not known; empty: none is

  bool is_exact(std::size_t t) const { return !results.empty() && !std::isnan(results[t]); }
};

}  // namespace shusaku
