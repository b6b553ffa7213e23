// Labels that follow from a whole game, besides policy and outcome: one pass backwards over its columns.
//
// Everything here is for the FIRST player: signs are turned once, when a row is sampled.  So nothing depends on whether
// the players alternate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "rows/record_view.h"

namespace shusaku {

// Which labels a ring works out; all off by default, and then they cost neither time nor memory.
struct LabelOptions {
  std::vector<float> horizons;  // of the short-term values, in plies, at least 1 each
  float blunder_gap = 0;        // deblunder if a move was worse than the root by more than this; 0: never
  float blunder_width = 0;      // of the transition around the gap
  bool ownership = false, score = false, reply = false;
  float policy_surprise = 0, value_surprise = 0;  // shares of the samples that go to surprising rows; 0: none
  float value_lambda = 0;                         // root values become lambda-returns of them; 0: they stay as searched
  bool is_cut_searched = false;                   // a game cut off by the ply limit ends with what its last search said
  int solved_empties = 0;                         // plies with at most so many empty cells have their exact result
  bool solved_policies = false;                   // and what is played there is what holds it

  bool weights_draws() const { return policy_surprise > 0 || value_surprise > 0; }
  bool has_outcomes() const { return blunder_gap > 0 || is_cut_searched || solved_empties > 0; }  // of each row
  bool any_column() const { return !horizons.empty() || has_outcomes() || ownership || score || reply; }
};

// Players to move at each ply turn a value for the player to move into one for the first player.
using Players = std::span<const std::int8_t>;

inline bool is_searched(const RecordView& r, size_t t) {
  return r.kind[t] != 0;
}  // common/messages.py: RowKind.OPENING
inline float for_first(float value, int player) { return player == 0 ? value : -value; }

// How the game ends, or is taken to end: the ply limit says draw, whatever the position is.
inline float end_value(const RecordView& r, Players players, const LabelOptions& o) {
  const size_t plies = r.actions.size();
  if (!o.is_cut_searched || r.ended_by != "ply_limit" || plies == 0 || !is_searched(r, plies - 1))
    return float(r.outcome);
  return for_first(r.root_values[plies - 1], players[plies - 1]);
}

// Whether no action has a greater share of the policy at ply t than the one that was played; false without a policy.
inline bool is_most_shared(const RecordView& r, size_t t) {
  std::uint16_t most = 0, played = 0;
  for (std::uint32_t i = r.policy_offsets[t]; i < r.policy_offsets[t + 1]; ++i) {
    most = std::max(most, r.policy_shares[i]);
    if (r.policy_actions[i] == r.actions[t]) played = r.policy_shares[i];
  }
  return most > 0 && played == most;
}

// out [T * stride], every stride-th: the outcome that each position is to be blamed for (lc0: trainingdata/rescorer.cc,
// "deblunder"); without a gap, how the game ends.
//
// Backwards from the end z is handed on.  If the move that was played is worse than the root's value q by `gap`, the
// outcome is a poor label of the position, and z becomes (1 - f) z + f q with
// f = min(1, (gap - threshold) / width + 1/2).  Records hold no value of each action, so the played one's is that of
// the next root, searched deeper than a child; a move that the search itself preferred is never a blunder, for there
// the gap is what the deeper search found out.  Next to plies without a search nothing can be judged, nor at the last
// ply of a game that was resigned or cut off: its result is not what the move led to.
//
// Where the result under best play is known, z is that, and is handed on from there.
inline void row_outcomes(const RecordView& r, Players players, const LabelOptions& o, float* out, size_t stride) {
  const float end = end_value(r, players, o);
  float z = end;
  for (size_t t = r.actions.size(); t-- > 0; out[t * stride] = z) {
    if (r.is_exact(t)) z = for_first(r.results[t], players[t]);
    if (o.blunder_gap <= 0 || r.is_exact(t)) continue;
    const bool is_last = t + 1 == r.actions.size();
    const bool has_policy = r.policy_offsets[t] != r.policy_offsets[t + 1];
    const bool is_judged = is_last ? r.ended_by == "rules" : is_searched(r, t + 1);
    if (!is_searched(r, t) || !has_policy || is_most_shared(r, t) || !is_judged) continue;
    const float best = r.root_values[t];
    const float next = is_last ? end : for_first(r.root_values[t + 1], players[t + 1]);
    const float gap = best - for_first(next, players[t]);
    if (gap <= o.blunder_gap - o.blunder_width / 2) continue;
    const float f = o.blunder_width > 0 ? std::min(1.f, (gap - o.blunder_gap) / o.blunder_width + 0.5f) : 1.f;
    z = (1 - f) * z + f * for_first(best, players[t]);
  }
}

// out [T * stride], every stride-th: (1 - l) sum_{t' >= t} l^(t' - t) v(t') with l = 1 - 1 / horizon; what is left of
// the weight at the end goes to the outcome (KataGo: cpp/dataio/trainingwrite.cpp, fillValueTDTargets).  Plies without
// a search have no value and are passed over; a result that is known takes the place of all that follows.
inline void short_term_values(const RecordView& r, Players players, const LabelOptions& o, float horizon, float* out,
                              size_t stride) {
  const float now = 1 / horizon;
  float value = end_value(r, players, o);
  for (size_t t = r.actions.size(); t-- > 0; out[t * stride] = value)
    if (r.is_exact(t))
      value = for_first(r.results[t], players[t]);
    else if (is_searched(r, t))
      value += now * (for_first(r.root_values[t], players[t]) - value);
}

// out [T]: the lambda-return of each position, (1 - l) sum_{t' >= t} l^(t' - t) v(t'), the outcome at the end (Sutton
// and Barto 2018, section 12.1); 0 <= l < 1.  The same as the short-term value of horizon 1 / (1 - l).
inline void value_returns(const RecordView& r, Players players, const LabelOptions& o, float* out) {
  short_term_values(r, players, o, 1 / (1 - o.value_lambda), out, 1);
}

// KL of the two-sided coin with mean `p` in [-1, 1] from the one with mean `q`, at most 1.
inline double coin_surprise(double p, double q) {
  double sum = 0;
  for (double side : {1., -1.}) {
    const double a = (1 + side * p) / 2, b = std::max((1 + side * q) / 2, 1e-30);
    if (a > 1e-30) sum += a * std::log(a / b);
  }
  return std::clamp(sum, 0., 1.);
}

// out [T]: how often each row is sampled compared with the average row of its game; only rows with weight have one, and
// over them, weighed so, it averages 1 (KataGo: cpp/program/play.cpp, policySurpriseDataWeight and
// valueSurpriseDataWeight).
//
//     w_i = 1 - a - b + a k_i / mean k + b s_i / mean s
//
// k: KL(policy || prior) of the search; s: KL of the short-term value of horizon 1 + 0.016 * cells from the raw
// network's value, at most 1.  Where the mean of s is below 0.01, as in a game decided from the start, b shrinks with
// it.
inline void sampling_weights(const RecordView& r, Players players, const LabelOptions& o, int cells, float* out) {
  const size_t plies = r.actions.size();
  short_term_values(r, players, o, 1 + 0.016f * float(cells), out, 1);
  double rows = 0, policy = 0, value = 0;  // sums over the rows, each times its weight
  auto policy_surprise = [&](size_t t) { return std::max(0., double(r.surprise[t])); };
  for (size_t t = 0; t < plies; ++t) {
    out[t] = float(coin_surprise(out[t], for_first(r.raw_values[t], players[t])));
    const double weight = r.row_weight[t];
    if (weight <= 0) continue;
    rows += weight, policy += weight * policy_surprise(t), value += weight * double(out[t]);
  }
  const double a = policy > 0 ? o.policy_surprise : 0,
               b = rows > 0 ? o.value_surprise * std::min(1., value / rows / 0.01) : 0;
  for (size_t t = 0; t < plies; ++t) {
    double weight = 1 - a - b;
    if (a > 0) weight += a * policy_surprise(t) * rows / policy;
    if (b > 0) weight += b * out[t] * rows / value;
    out[t] = r.row_weight[t] > 0 ? float(weight) : 0.f;
  }
}

}  // namespace shusaku
