// Temperatures that fall as a game goes on.
#pragma once

#include <cmath>

#include "search/options.h"

namespace shusaku {

// From `early` at ply 0 towards `late`, half of what is left of the way every `half_life` plies (KataGo,
// cpp/search/searchhelpers.cpp, interpolateEarly; its half-life of 19 counts in board sides, 19 plies on 19 x 19).
inline double decayed(double early, double late, double half_life, int ply) {
  return late + (early - late) * std::pow(0.5, ply / half_life);
}

// The temperature of the root's prior.
inline double root_policy_temperature(const SearchOptions& o, int ply) {
  if (o.root_policy_temperature_half_life <= 0) return o.root_policy_temperature;
  return decayed(o.root_policy_temperature_early, o.root_policy_temperature, o.root_policy_temperature_half_life, ply);
}

// The temperature at which the move to play is sampled.
inline double move_temperature(const SearchOptions& o, int ply) {
  if (ply >= o.temperature_plies) return o.temperature_final;
  if (o.temperature_half_life <= 0) return o.temperature;
  return decayed(o.temperature, o.temperature_final, o.temperature_half_life, ply);
}

}  // namespace shusaku
