// Randomness that is the same on every machine and needs no state to be saved: a stream is named by its seed.
#pragma once

#include <cmath>
#include <cstdint>

#include "games/game.h"

namespace shusaku {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix64(seed ^ 0xA0761D6478BD642Full)) {}

  std::uint64_t next() { return mix64(state_ += 0x9E3779B97F4A7C15ull); }  // splitmix64
  // Uniform in [0, n), by Lemire's multiplication; its bias is below n / 2^64.
  std::uint64_t below(std::uint64_t n) { return std::uint64_t((unsigned __int128)(next()) * n >> 64); }
  double uniform() { return (double(next() >> 11) + 0.5) * 0x1p-53; }  // in (0, 1)
  double gumbel() { return -std::log(-std::log(uniform())); }
  double normal() {  // Box and Muller 1958; the second value is thrown away
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }
  // Marsaglia and Tsang 2000.
  double gamma(double shape) {
    if (shape < 1) return gamma(shape + 1) * std::pow(uniform(), 1 / shape);
    const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = normal(), root = 1 + c * x;
      if (root <= 0) continue;
      const double v = root * root * root;
      if (std::log(uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
    }
  }

 private:
  std::uint64_t state_;
};

// One of the legal actions of a position that is not terminal, each as likely as the others; `list` is scratch.
template <class G>
Action sample_action(const G& rules, const typename G::Position& p, Random& random, Action* list) {
  if constexpr (requires { rules.random_action(p, random); })
    return rules.random_action(p, random);
  else
    return list[random.below(std::uint64_t(rules.legal_actions(p, list)))];
}

}  // namespace shusaku
