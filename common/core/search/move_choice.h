// From the weights of the actions, such as visit counts, to the policy that is learned and the action that is played.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "search/options.h"
#include "search/random.h"
#include "search/schedule.h"
#include "search/tree.h"

namespace shusaku {

// The weights that moves are sampled by and learned from: the visits, or the prior after a search without simulations.
inline void visit_weights(const SearchResult& r, std::vector<float>& weights) {
  weights.assign(r.visits.begin(), r.visits.end());
  if (std::all_of(weights.begin(), weights.end(), [](float n) { return n == 0; })) weights = r.prior;
}

// Sets to 0 the weights that proven results rule out: if a win is proven all but wins, if a draw is proven all but
// draws, else losses as long as any other action is left.  True if it changed a weight.
inline bool keep_best_proven(const SearchResult& r, std::vector<float>& weights) {
  if (std::all_of(r.proven_values.begin(), r.proven_values.end(), [](float v) { return std::isnan(v); })) return false;
  const auto is_kept = [&](size_t i) {
    return std::isnan(r.proven_value) ? r.proven_values[i] != -1 : r.proven_values[i] == r.proven_value;
  };
  bool has_weight = false, took = false;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (is_kept(i))
      has_weight = has_weight || weights[i] > 0;
    else
      took = took || weights[i] > 0, weights[i] = 0;
  }
  if (has_weight) return took;
  for (size_t i = 0; i < weights.size(); ++i)  // all visits went to what is lost
    if (is_kept(i)) weights[i] = std::max(r.prior[i], 1e-8f);
  return true;
}

// In place: divided by their sum.
inline void normalise(std::vector<float>& weights) {
  const float total = float(std::accumulate(weights.begin(), weights.end(), 0.0));
  for (float& w : weights) w /= total;
}

// The index of the highest weight; among equals the one with the higher prior, then the lower action.
inline int heaviest(const std::vector<float>& weights, const std::vector<float>& prior) {
  size_t best = 0;
  for (size_t i = 1; i < weights.size(); ++i)
    if (weights[i] > weights[best] || (weights[i] == weights[best] && prior[i] > prior[best])) best = i;
  return int(best);
}

// An index sampled with probability weights^(1/temperature); at temperature 0 the heaviest.
inline int sample(const std::vector<float>& weights, const std::vector<float>& prior, float temperature,
                  Random& random) {
  if (temperature <= 1e-3f) return heaviest(weights, prior);
  const bool is_plain = temperature == 1.f;
  const double most = *std::max_element(weights.begin(), weights.end());
  auto weight = [&](float w) {
    return is_plain ? double(w) : w > 0 ? std::exp(std::log(double(w) / most) / temperature) : 0.0;
  };
  double total = 0;
  for (float w : weights) total += weight(w);
  double x = random.uniform() * total;
  int last = 0;
  for (int i = 0; i < int(weights.size()); ++i) {
    if (weights[size_t(i)] == 0) continue;
    last = i;
    x -= weight(weights[size_t(i)]);
    if (x < 0) break;
  }
  return last;
}

// The lower confidence bound of an action with n visits: mean - radius.  The radius is the standard error times
// Student's quantile that belongs to `lcb_stdevs` of a normal one (KataGo, cpp/search/searchresults.cpp,
// getSelfUtilityLCBAndRadius; the quantile after Gaver and Kafadar 1984).
inline double lower_bound(const SearchOptions& o, double n, double mean, double mean_square) {
  const double variance = std::max(1e-8, mean_square - mean * mean);
  const double z = o.lcb_stdevs, quantile = std::sqrt(n * std::expm1(z * z * (n - 1.5) / ((n - 1) * (n - 1))));
  return mean - quantile * std::sqrt(variance / n);
}

// The index of the move with the highest lower confidence bound among those with some weight, three visits and
// `lcb_least_share` of the most visited one's; else the heaviest.  mean_square(i): of the values of action i.
template <class MeanSquare>
int highest_lower_bound(const SearchOptions& o, const SearchResult& r, const std::vector<float>& weights,
                        MeanSquare mean_square) {
  const double least = std::max(3.0, double(o.lcb_least_share) * *std::max_element(r.visits.begin(), r.visits.end()));
  int best = -1;
  double highest = 0;
  for (int i = 0; i < int(weights.size()); ++i) {
    const double n = r.visits[size_t(i)], mean = r.q_values[size_t(i)];
    if (weights[size_t(i)] <= 0 || n < least) continue;
    const double bound = lower_bound(o, n, mean, mean_square(size_t(i)));
    if (best < 0 || bound > highest) best = i, highest = bound;
  }
  return best < 0 ? heaviest(weights, r.prior) : best;
}

// In place: weights^(1 / temperature), of which the sum is 1; at temperature 0 all of it on the heaviest.
inline void temper(std::vector<float>& weights, const std::vector<float>& prior, float temperature) {
  if (temperature <= 1e-3f) {
    const int best = heaviest(weights, prior);
    weights.assign(weights.size(), 0.f);
    weights[size_t(best)] = 1.f;
    return;
  }
  if (temperature != 1.f) {
    const double most = *std::max_element(weights.begin(), weights.end());
    for (float& w : weights) w = w > 0 ? float(std::exp(std::log(double(w) / most) / double(temperature))) : 0.f;
  }
  normalise(weights);
}

// Fills policy and action: the move is sampled as long as there is a temperature, then chosen by options.move_choice.
// The policy is tempered by a temperature of its own; -1: that of the move.
inline void conclude_by_weights(const Tree& tree, const SearchOptions& o, int ply, std::uint64_t seed,
                                const std::vector<float>& weights, SearchResult& r) {
  const float temperature = float(move_temperature(o, ply));
  r.policy = weights;
  temper(r.policy, r.prior, o.target_temperature < 0 ? temperature : o.target_temperature);
  Random random(combine(seed, 2));
  const bool is_by_bound = temperature <= 1e-3f && o.move_choice == "lcb";
  const auto mean_square = [&](size_t i) {
    const Node& child = tree.nodes[tree.child(tree.nodes[0].first_edge() + std::uint32_t(i))];
    return double(child.square_sum) / child.visits;
  };
  const int choice =
      is_by_bound ? highest_lower_bound(o, r, weights, mean_square) : sample(weights, r.prior, temperature, random);
  r.action = r.actions[size_t(choice)];
}

// KL(p || q) in nats, over actions with p > 0.
inline float kl_divergence(const std::vector<float>& p, const std::vector<float>& q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i)
    if (p[i] > 0) sum += double(p[i]) * std::log(double(p[i]) / std::max(double(q[i]), 1e-8));
  return float(std::max(0.0, sum));
}

}  // namespace shusaku
