// What the parts of a game cost: nanoseconds a call over the positions of random games.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "search/random.h"

namespace shusaku {

// Each part is called `kRepeats` times a position, so that what is measured lies in the cache, as it does in a search.
template <GameRules G>
std::map<std::string, double> timings(const G& rules, int games, std::uint64_t seed) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRepeats = 16;
  Random random(seed);
  std::vector<Action> list(size_t(rules.max_legal_actions()) + 8);
  const Shape shape = rules.shape();
  std::vector<std::uint8_t> bits(size_t(shape.packed_bytes()));
  std::vector<float> uniform(size_t(shape.uniform) + 1);
  std::map<std::string, Clock::duration> spent;
  std::uint64_t calls = 0;
  volatile std::uint64_t sink = 0;  // so that nothing is left out
  typename G::Position other = rules.start();
  for (int g = 0; g < games; ++g) {
    auto p = rules.start();
    while (!rules.is_terminal(p)) {
      const auto time = [&](const char* name, auto call) {
        const auto begin = Clock::now();
        for (int k = 0; k < kRepeats; ++k) call(k);
        spent[name] += Clock::now() - begin;
      };
      time("copy_ns", [&](int) {
        copy_position(rules, p, other);
        asm volatile("" : : "g"(&other) : "memory");
      });
      time("observe_ns", [&](int k) {
        rules.observe(p, k % rules.num_symmetries(), bits.data(), uniform.data());
        asm volatile("" : : "g"(bits.data()) : "memory");
      });
      int count = 0;
      time("legal_actions_ns", [&](int) { sink = sink + std::uint64_t(count = rules.legal_actions(p, list.data())); });
      time("evaluation_key_ns", [&](int) { sink = sink + evaluation_key(rules, p, list.data(), count); });
      rules.play(p, list[random.below(std::uint64_t(count))]);
      calls += kRepeats;
    }
  }
  std::map<std::string, double> result;
  for (const auto& [name, time] : spent)
    result[name] = double(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()) / double(calls);
  return result;
}

}  // namespace shusaku
