// A batch of searches, each of a position that the caller gives: players, engines, strength tests.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include "search/leaf_batch.h"

namespace shusaku {

// Simulations that one game may make in one select() without a row for the network (terminal leaves, cache hits).
constexpr int kSimulationsPerSelect = 1024;

constexpr size_t kMostMovesShown = 256;  // of a variation: in a graph of an odd game it might never end

class AnyPosition;  // of bindings/, which knows which game a position is of

class AnySearchBatch : public AnyBatch {
 public:
  virtual void begin(int index, const AnyPosition& position, std::uint64_t seed) = 0;  // a new search
  virtual bool is_done() const = 0;
  virtual SearchResult result(int index) = 0;
  // What the search would conclude now; no actions before the root has its evaluation.
  virtual SearchResult result_so_far(int index) = 0;
  // The most visited moves along an edge of the root, that one first.
  virtual std::vector<Action> variation(int index, int edge) const = 0;
};

template <GameRules G, class P>
class SearchBatch : public AnySearchBatch {
 public:
  using Position = typename G::Position;

  SearchBatch(const G& rules, const SearchOptions& options, int size, std::uint64_t seed)
      : options_(options),
        batch_(rules, options_, size * std::max(1, options.leaves), seed),
        place_(rules, options.rollout, options.solved_empties) {
    if (options.leaves > 1 && !P::kKnowsWaiting)
      throw std::invalid_argument("search.leaves=" + std::to_string(options.leaves) + ": policy " + options.policy +
                                  " selects one leaf at a time; use search.policy=puct or search.leaves=1");
    for (int index = 0; index < size; ++index) searches_.emplace_back(rules, options_, place_);
    states_.assign(size_t(size), State::kIdle);
    if (options.leaves > 1) parked_.assign(size_t(size) * size_t(options.leaves), searches_[0].new_path());
  }
  SearchBatch(const SearchBatch&) = delete;

  int size() const final { return int(searches_.size()); }

  void begin_at(int index, const Position& position, std::uint64_t seed) {
    take_back_leaves();
    searches_[size_t(index)].begin(position, seed, {options_.simulations, true});
    states_[size_t(index)] = State::kRunning;
  }

  const Leaves& select(std::uint32_t version) final {
    take_back_leaves();
    batch_.clear(version);
    for (int index = 0; index < size(); ++index) {
      if (states_[size_t(index)] != State::kRunning) continue;
      Search<G, P>& search = searches_[size_t(index)];
      int simulations_left = kSimulationsPerSelect;
      Step step = batch_.run(search, index, simulations_left);
      for (int k = 1; options_.leaves > 1 && step == Step::kLeaf; ++k) {
        search.park(parked_[size_t(batch_.num_leaves() - 1)]);
        if (k == options_.leaves) break;
        step = batch_.run(search, index, simulations_left);
      }
      if (step == Step::kDone && !search.is_waiting()) {
        states_[size_t(index)] = State::kDone;
        ++batch_.counters.searches;
      }
    }
    return batch_.leaves;
  }

  void expand_and_backup(const float* logits, const float* values, std::uint32_t version) final {
    bool is_finite = true;
    batch_.distribute(
        logits, values, version,
        [&](int leaf, int index, const std::uint16_t* l, float v) {
          if (options_.leaves > 1) searches_[size_t(index)].resume(parked_[size_t(leaf)]);
          searches_[size_t(index)].expand(l, v);
        },
        [&](int leaf, int index) {  // this search ends; its other parked paths are still resumed
          if (options_.leaves > 1) searches_[size_t(index)].resume(parked_[size_t(leaf)]);
          states_[size_t(index)] = State::kIdle;
          is_finite = false;
        },
        [](int, int) {});
    if (!is_finite)
      throw std::invalid_argument("the network answered with a number that is not finite; use other weights");
  }

  // Leaves whose evaluation has failed wait in vain: their searches will select them again.
  void take_back_leaves() {
    for (int leaf = 0; options_.leaves > 1 && leaf < batch_.num_leaves(); ++leaf)
      searches_[size_t(batch_.search_of(leaf))].resume(parked_[size_t(leaf)]);
    batch_.clear(0);
  }

  bool is_done() const final {
    for (State state : states_)
      if (state == State::kRunning) return false;
    return true;
  }

  SearchResult result(int index) final {
    if (states_[size_t(index)] != State::kDone)
      throw std::invalid_argument("search " + std::to_string(index) +
                                  " has not finished; call select() until is_done()");
    SearchResult result;
    searches_[size_t(index)].conclude(result);
    return result;
  }

  SearchResult result_so_far(int index) final {
    SearchResult result;
    if (searches_[size_t(index)].tree().nodes[0].is_expanded()) searches_[size_t(index)].conclude(result);
    return result;
  }

  std::vector<Action> variation(int index, int edge) const final {
    const Tree& tree = searches_[size_t(index)].tree();
    std::vector<Action> actions;
    std::uint32_t at = 0, next = tree.nodes[0].first_edge() + std::uint32_t(edge);
    for (;;) {
      actions.push_back(tree.action(next));
      at = tree.child(next);
      if (at == kNoNode || actions.size() > kMostMovesShown) return actions;
      const Node& node = tree.nodes[at];
      std::int32_t most = 0;
      for (std::uint32_t e = node.first_edge(); e < node.first_edge() + node.num_edges; ++e)
        if (tree.visits(e) > most) most = tree.visits(e), next = e;
      if (most == 0) return actions;
    }
  }

  const Leaves& leaves() const final { return batch_.leaves; }
  const Counters& counters() const final { return batch_.counters; }

 private:
  enum class State { kIdle, kRunning, kDone };
  SearchOptions options_;
  LeafBatch<G, Search<G, P>> batch_;
  LeafPlace<G> place_;  // for all searches
  std::vector<Search<G, P>> searches_;
  std::vector<State> states_;
  std::vector<Path> parked_;  // [leaves] that wait for the network, if a search may have several
};

}  // namespace shusaku
