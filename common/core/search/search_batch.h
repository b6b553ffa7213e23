// Many searches side by side, each of a position that the caller gives: players, engines, strength tests.
#pragma once

#include <stdexcept>

#include "leaf_batch.h"

namespace shusaku {

// Simulations that one game may make in one select() without a row for the network (terminal leaves, cache hits).
constexpr int kBudgetPerSelect = 1024;

template <GameRules G, class P>
class SearchBatch {
 public:
  using Position = typename G::Position;

  SearchBatch(const G& rules, const SearchOptions& options, int size, std::uint64_t seed)
      : options_(options), batch_(rules, options_, size, seed) {
    for (int slot = 0; slot < size; ++slot) searches_.emplace_back(rules, options_);
    states_.assign(size_t(size), State::kIdle);
  }
  SearchBatch(const SearchBatch&) = delete;

  int size() const { return int(searches_.size()); }

  void begin(int slot, const Position& position, std::uint64_t seed) {
    searches_[size_t(slot)].begin(position, seed, {options_.simulations, true});
    states_[size_t(slot)] = State::kRunning;
  }

  const Leaves& select(std::uint32_t version) {
    batch_.clear(version);
    for (int slot = 0; slot < size(); ++slot) {
      if (states_[size_t(slot)] != State::kRunning) continue;
      int budget = kBudgetPerSelect;
      if (batch_.run(searches_[size_t(slot)], slot, budget) == Step::kDone) {
        states_[size_t(slot)] = State::kDone;
        ++batch_.counters.searches;
      }
    }
    return batch_.leaves;
  }

  void expand_and_backup(const float* logits, const float* values, std::uint32_t version) {
    bool is_finite = true;
    batch_.take(logits, values, version,
                [&](int slot, float* l, float v) { searches_[size_t(slot)].expand(l, v); },
                [&](int) { is_finite = false; });
    if (!is_finite) throw std::invalid_argument("the network answered with a number that is not finite; use other weights");
  }

  bool is_done() const {
    for (State state : states_)
      if (state == State::kRunning) return false;
    return true;
  }

  SearchResult result(int slot) {
    if (states_[size_t(slot)] != State::kDone)
      throw std::invalid_argument("slot " + std::to_string(slot) + " has no finished search; call select() until is_done()");
    SearchResult result;
    searches_[size_t(slot)].conclude(result);
    return result;
  }

  const Leaves& leaves() const { return batch_.leaves; }
  Counters counters() const {
    Counters c = batch_.counters;
    c.simulations = c.evaluations + c.cache_hits + c.terminals;
    return c;
  }

 private:
  enum class State { kIdle, kRunning, kDone };
  SearchOptions options_;
  LeafBatch<G, P> batch_;
  std::vector<Search<G, P>> searches_;
  std::vector<State> states_;
};

}  // namespace shusaku
