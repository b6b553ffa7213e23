// Plain UCT with random rollouts and no network (Kocsis and Szepesvari 2006): the baseline beside every table.
// Unvisited children come first, in random order; then argmax Q + c_uct * sqrt(ln N / n).
#pragma once

#include <cmath>

#include "search/move_choice.h"
#include "search/options.h"
#include "search/random.h"
#include "search/tree.h"

namespace shusaku {

class Uct {
 public:
  static constexpr bool kUsesNetwork = false, kSimulates = true, kSharesNodes = false, kKnowsWaiting = false;

  explicit Uct(const SearchOptions& options) : options_(options) {}

  // "Logits" are random numbers that order the unvisited children.
  void make_ready(Tree&, const Node&) const {}
  void begin(Tree&, int, std::uint64_t, Budget) {}

  int select_root(const Tree& tree, const Node& root) const { return select_interior(tree, root); }

  int select_interior(const Tree& tree, const Node& node) const {
    const F8 log_visits(std::log(float(std::max(1, node.visits - 1)))), c(options_.c_uct), one(1.f);
    return arg_max(node.num_edges, [&](int at) {
      const EdgeBlock& block = tree.blocks(node)[at / kLanes];
      const F8 n = F8::load_int(block.visits), some = max(n, one);
      const F8 score = F8::load(block.value_sum) / some + c * sqrt(log_visits / some);
      const F8 first = F8(1e6f) + F8::load_half(block.prior) * F8(1e3f);
      return choose(less(n, one), first, score);
    });
  }

  void conclude(const Tree& tree, int ply, std::uint64_t seed, SearchResult& result) {
    result.prior.assign(result.actions.size(), 1.f / float(result.actions.size()));
    visit_weights(result, weights_);
    keep_best_proven(result, weights_);
    conclude_by_weights(tree, options_, ply, seed, weights_, result);
  }

  template <class Archive>
  void archive(Archive&) {}

 private:
  SearchOptions options_;
  std::vector<float> weights_;  // scratch
};

}  // namespace shusaku
