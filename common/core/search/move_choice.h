// From visit counts to the policy that is learned and the action that is played.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "options.h"
#include "random.h"

namespace shusaku {

// policy = N / sum N; the prior where nothing was visited (a search of no simulations).
inline void visit_shares(SearchResult& r) {
  const int total = std::accumulate(r.visits.begin(), r.visits.end(), 0);
  for (size_t i = 0; i < r.visits.size(); ++i) r.policy.push_back(total ? float(r.visits[i]) / float(total) : r.prior[i]);
}

// The index of an action drawn with probability visits^(1/temperature); at temperature 0 the most visited one, among
// equals the one with the higher prior, then the lower action.
inline int draw_by_visits(const SearchResult& r, float temperature, Random& random) {
  const int most = *std::max_element(r.visits.begin(), r.visits.end());
  if (temperature <= 1e-3f || most == 0) {
    int best = 0;
    for (int i = 1; i < int(r.visits.size()); ++i) {
      const bool more = r.visits[size_t(i)] > r.visits[size_t(best)];
      const bool equal = r.visits[size_t(i)] == r.visits[size_t(best)];
      if (more || (equal && r.prior[size_t(i)] > r.prior[size_t(best)])) best = i;
    }
    return best;
  }
  const bool is_plain = temperature == 1.f;
  auto weight = [&](int n) { return is_plain ? double(n) : n ? std::exp(std::log(double(n) / most) / temperature) : 0.0; };
  double total = 0;
  for (int n : r.visits) total += weight(n);
  double x = random.uniform() * total;
  int last = 0;
  for (int i = 0; i < int(r.visits.size()); ++i) {
    if (r.visits[size_t(i)] == 0) continue;
    last = i;
    if ((x -= weight(r.visits[size_t(i)])) < 0) break;
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
