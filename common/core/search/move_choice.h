// From the weights of the actions, such as visit counts, to the policy that is learned and the action that is played.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "options.h"
#include "random.h"

namespace shusaku {

// What is drawn from and learned: the visits, or the prior where nothing was visited (a search of no simulations).
inline void visit_weights(const SearchResult& r, std::vector<float>& weights) {
  weights.assign(r.visits.begin(), r.visits.end());
  if (std::all_of(weights.begin(), weights.end(), [](float n) { return n == 0; })) weights = r.prior;
}

// `weights` divided by their sum.
inline void to_policy(const std::vector<float>& weights, std::vector<float>& policy) {
  const float total = float(std::accumulate(weights.begin(), weights.end(), 0.0));
  policy.clear();
  for (float w : weights) policy.push_back(w / total);
}

// The index of the highest weight; among equals the one with the higher prior, then the lower action.
inline int heaviest(const std::vector<float>& weights, const std::vector<float>& prior) {
  size_t best = 0;
  for (size_t i = 1; i < weights.size(); ++i)
    if (weights[i] > weights[best] || (weights[i] == weights[best] && prior[i] > prior[best])) best = i;
  return int(best);
}

// An index drawn with probability weights^(1/temperature); at temperature 0 the heaviest.
inline int draw(const std::vector<float>& weights, const std::vector<float>& prior, float temperature, Random& random) {
  if (temperature <= 1e-3f) return heaviest(weights, prior);
  const bool is_plain = temperature == 1.f;
  const double most = *std::max_element(weights.begin(), weights.end());
  auto weight = [&](float w) { return is_plain ? double(w) : w > 0 ? std::exp(std::log(double(w) / most) / temperature) : 0.0; };
  double total = 0;
  for (float w : weights) total += weight(w);
  double x = random.uniform() * total;
  int last = 0;
  for (int i = 0; i < int(weights.size()); ++i) {
    if (weights[size_t(i)] == 0) continue;
    last = i;
    if ((x -= weight(weights[size_t(i)])) < 0) break;
  }
  return last;
}

// KL(p || q) in nats, over actions with p > 0.
inline float kl_divergence(const std::vector<float>& p, const std::vector<float>& q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i)
    if (p[i] > 0) sum += double(p[i]) * std::log(double(p[i]) / std::max(double(q[i]), 1e-8));
  return float(std::max(0.0, sum));
}

}  // namespace shusaku
