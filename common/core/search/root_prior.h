// The prior of the root before a puct search: flattened by a temperature, then mixed with Dirichlet noise.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "search/options.h"
#include "search/random.h"

namespace shusaku {

// In place: p^(1 / temperature), normalised.
inline void flatten(std::vector<float>& prior, double temperature) {
  const double top = *std::max_element(prior.begin(), prior.end());
  double sum = 0;
  for (float& p : prior) sum += p = p > 0 ? float(std::exp(std::log(p / top) / temperature)) : 0.f;
  for (float& p : prior) p = float(p / sum);
}

// Alphas that add up to `total`: one half spread evenly, the other one by how far the logarithm of a prior, cut off at
// 1 %, lies above the mean (KataGo, cpp/search/searchhelpers.cpp, computeDirichletAlphaDistribution).
inline void shaped_alphas(const std::vector<float>& prior, double total, std::vector<double>& alphas) {
  const double count = double(prior.size());
  alphas.clear();
  double mean = 0, above = 0;
  for (float p : prior) alphas.push_back(std::log(std::min(0.01, double(p)) + 1e-20)), mean += alphas.back();
  mean /= count;
  for (double& a : alphas) above += a = std::max(0.0, a - mean);
  for (double& a : alphas) a = total * (above > 0 ? 0.5 * (a / above + 1 / count) : 1 / count);
}

// In place: (1 - fraction) * prior + fraction * a sample of Dirichlet(alphas).  `noise` is scratch.
inline void mix_noise(const SearchOptions& o, Random random, std::vector<float>& prior, std::vector<double>& noise) {
  if (o.dirichlet_total > 0)
    shaped_alphas(prior, o.dirichlet_total, noise);
  else
    noise.assign(prior.size(), double(o.dirichlet_alpha));
  double sum = 0;
  for (double& x : noise) sum += x = random.gamma(x);
  if (!(sum > 0)) return;  // a small alpha: each sample was too small for a number
  const float epsilon = o.dirichlet_fraction;
  for (size_t i = 0; i < prior.size(); ++i) prior[i] = (1 - epsilon) * prior[i] + epsilon * float(noise[i] / sum);
}

}  // namespace shusaku
