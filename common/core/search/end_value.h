// What the end of a game is worth to a search, and an ending that is solved.
#pragma once

#include <cmath>
#include <numbers>

#include "games/game.h"
#include "search/ending_solver.h"
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

// Marks the node of a position in which the game is over, or whose ending is solved: nothing below it is searched.  Who
// wins is all that is solved, so nothing is where points count too.
template <GameRules G, class Node>
void mark_end(const G& rules, const SearchOptions& options, EndingSolver<G>& endings,
              const typename G::Position& position, Node& node) {
  if (rules.is_terminal(position)) {
    node.raw_value = end_value(rules, options, position);
    if (is_proof(rules, options, position)) node.proof = std::uint8_t(rules.outcome(position) + 2);
  } else if (options.score_share == 0 && endings.solves(position)) {
    const int result = endings.solve(position);
    node.raw_value = float(result);
    if (options.proven_results) node.proof = std::uint8_t(result + 2);
  } else {
    return;
  }
  node.is_terminal_or_proven = true;
}

}  // namespace shusaku
