// What the end of a game is worth to a search.
#pragma once

#include <cmath>
#include <numbers>

#include "games/game.h"
#include "search/options.h"

namespace shusaku {

// For the player to move there: the outcome, of which options.score_share is what its points are worth, by the formula
// of actors/evaluators/score_share.py for evaluated values (KataGo, static score utility).  Without a score: the
// outcome.
template <GameRules G>
float end_value(const G& rules, const SearchOptions& options, const typename G::Position& end) {
  const float outcome = float(rules.outcome(end));
  if (options.score_share == 0) return outcome;
  const float score = rules.score(end);
  if (std::isnan(score)) return outcome;
  const Shape shape = rules.shape();
  const float half = 2 * std::sqrt(float(shape.height * shape.width));  // points that are worth half of all
  const float points = 2 / std::numbers::pi_v<float> * std::atan(score / half);
  return (1 - options.score_share) * outcome + options.score_share * points;
}

// Whether an end proves who wins: not by a limit on the plies, and not where an outcome is not all that counts.
template <GameRules G>
bool is_proof(const G& rules, const SearchOptions& options, const typename G::Position& end) {
  return options.proven_results && options.score_share == 0 && !rules.is_cut_off(end);
}

}  // namespace shusaku
