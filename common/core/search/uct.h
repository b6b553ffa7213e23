// Plain UCT with random rollouts and no network (Kocsis and Szepesvari 2006): the baseline beside every table.
// Unvisited children come first, in random order; then argmax Q + c_uct * sqrt(ln N / n).
#pragma once

#include <cmath>

#include "move_choice.h"
#include "options.h"
#include "random.h"
#include "tree.h"

namespace shusaku {

class Uct {
 public:
  static constexpr bool kUsesNetwork = false;

  explicit Uct(const SearchOptions& options) : options_(options) {}

  // "Logits" are random numbers that order the unvisited children.
  void store_evaluation(Tree& tree, const Node& node, const float* logits) const { tree.set_logits(node, logits); }
  void begin(Tree&, std::uint64_t) {}

  int select_root(const Tree& tree, const Node& root) const { return select_interior(tree, root); }

  int select_interior(const Tree& tree, const Node& node) const {
    const F8 log_visits(std::log(float(std::max(1, node.visits - 1)))), c(options_.c_uct), one(1.f);
    ArgMax best;
    for (int i = 0; i < node.num_edges; i += kLanes) {
      const std::uint32_t e = node.first_edge + std::uint32_t(i);
      const F8 n = F8::load_int(&tree.visits[e]), some = max(n, one);
      const F8 score = F8::load(&tree.value_sum[e]) / some + c * sqrt(log_visits / some);
      const F8 first = F8(1e6f) + F8::load_half(&tree.prior[e]);
      best.add(choose(lanes_below(i, node.num_edges), choose(less(n, one), first, score), F8(-kInfinity)), i);
    }
    return best.index;
  }

  void conclude(const Tree&, int ply, std::uint64_t seed, SearchResult& result) const {
    result.prior.assign(result.actions.size(), 1.f / float(result.actions.size()));
    result.policy = visit_shares(result.visits, result.prior);
    Random random(combine(seed, 2));
    const float temperature = ply < options_.temperature_plies ? options_.temperature : 0.f;
    result.action = result.actions[size_t(draw_by_visits(result, temperature, random))];
  }

  template <class Archive>
  void archive(Archive&) {}

 private:
  SearchOptions options_;
};

}  // namespace shusaku
