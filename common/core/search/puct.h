// AlphaZero's tree policy (Silver et al. 2018, Methods): argmax Q + c * P * sqrt(N) / (1 + n), Dirichlet noise at the
// root, moves sampled by the visit counts.  What an unvisited child is worth is an option (first_play.h).  As others: c
// grows with log N, and the root's forced playouts with the pruned target that goes with them (Wu 2019, section 3.2).
#pragma once

#include "search/first_play.h"
#include "search/move_choice.h"
#include "search/options.h"
#include "search/random.h"
#include "search/root_prior.h"
#include "search/schedule.h"
#include "search/tree.h"

namespace shusaku {

class Puct {
 public:
  static constexpr bool kUsesNetwork = true, kSimulates = true, kSharesNodes = false, kKnowsWaiting = true;

  explicit Puct(const SearchOptions& options)
      : options_(options), first_play_(options), grows_(options.c_puct_log != 0) {}

  void make_ready(Tree& tree, const Node& node) const { tree.make_priors(node); }

  // The root has its priors: flatten them and mix noise into them, if the options are set.  A cheap search
  // explores the root like any other node (KataGo, cpp/program/play.cpp, removeRootNoise).
  void begin(Tree& tree, int ply, std::uint64_t seed, Budget budget) {
    const Node& root = tree.nodes[0];
    explores_root_ = budget.is_full;
    raw_prior_.clear();
    for (std::uint32_t e = root.first_edge(); e < root.first_edge() + root.num_edges; ++e)
      raw_prior_.push_back(tree.prior(e));
    const double temperature = root_policy_temperature(options_, ply);
    if (!explores_root_ || (!options_.noise && temperature == 1)) return;
    prior_.clear();
    for (std::uint16_t p : raw_prior_) prior_.push_back(from_half(p));
    if (temperature != 1) flatten(prior_, temperature);
    if (options_.noise) mix_noise(options_, Random(combine(seed, 1)), prior_, noise_);
    for (std::uint32_t i = 0; i < root.num_edges; ++i) tree.prior(root.first_edge() + i) = to_half(prior_[i]);
  }

  int select_root(const Tree& tree, const Node& root) const {
    if (explores_root_ && options_.forced_playouts > 0) {
      const int forced = first_that_lags(tree, root);
      if (forced >= 0) return forced;
    }
    const float fpu_reduction = explores_root_ ? options_.root_fpu_reduction : options_.fpu_reduction;
    return root.waiting ? select_beside(tree, root, fpu_reduction) : select(tree, root, fpu_reduction);
  }
  int select_interior(const Tree& tree, const Node& node) const {
    return node.waiting ? select_beside(tree, node, options_.fpu_reduction)
                        : select(tree, node, options_.fpu_reduction);
  }

  void conclude(const Tree& tree, int ply, std::uint64_t seed, SearchResult& result) {
    for (std::uint16_t prior : raw_prior_) result.prior.push_back(from_half(prior));
    visit_weights(result, weights_);
    keep_best_proven(result, weights_);
    if (options_.prune_policy) prune(tree, result);
    conclude_by_weights(tree, options_, ply, seed, weights_, result);
  }

  template <class Archive>
  void archive(Archive& a) {
    a.vector(raw_prior_), a.number(explores_root_);
  }

 private:
  [[gnu::always_inline]] int select(const Tree& tree, const Node& node, float fpu_reduction) const {
    const F8 fpu(first_play_.value(tree.mean_value(node), node.visited_prior, fpu_reduction));
    const F8 scale(exploration(node.visits - 1));
    const F8 one(1.f);
    return arg_max(node.num_edges, [&](int first) __attribute__((always_inline)) {
      const EdgeBlock& block = tree.blocks(node)[first / kLanes];
      const F8 explored = scale * F8::load_half(block.prior);
      if (node.num_edges > kLanes && all_zero(block.visits))
        return fpu + explored;  // the same number without divisions
      const F8 n = F8::load_int(block.visits);
      const F8 q = choose(less(n, one), fpu, F8::load(block.value_sum) / max(n, one));
      return q + explored / (one + n);
    });
  }

  // The same if paths wait below the node: each counts as a visit whose value is not known, so that the next one goes
  // elsewhere (Liu et al. 2020, "Watch the unobserved: a simple approach to parallelizing Monte Carlo tree search").
  // Counted as visits that were lost (virtual loss) they cost about 130 Elo at 400 simulations of which 25 wait:
  // benchmarks/analysis/paired_games.py.  Not inlined: select() is the hot path, and has to stay small enough to be.
  [[gnu::noinline]] int select_beside(const Tree& tree, const Node& node, float fpu_reduction) const {
    const F8 fpu(first_play_.value(tree.mean_value(node), node.visited_prior, fpu_reduction));
    const F8 scale(exploration(node.visits - 1 + node.waiting));
    const F8 one(1.f);
    return arg_max(node.num_edges, [&](int first) {
      const EdgeBlock& block = tree.blocks(node)[first / kLanes];
      std::int32_t real[kLanes], waiting[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        real[i] = block.visits[i] & (kWaitingVisit - 1);
        waiting[i] = block.visits[i] / kWaitingVisit;
      }
      const F8 n = F8::load_int(real);
      const F8 q = choose(less(n, one), fpu, F8::load(block.value_sum) / max(n, one));
      return q + scale * F8::load_half(block.prior) / (one + n + F8::load_int(waiting));
    });
  }

  // c * sqrt(N), N the visits of all children.  c grows as KataGo's cpuctExploration and lc0's ComputeCpuct;
  // AlphaZero's published formula has c_puct_log = 1.
  float exploration(int child_visits) const {
    const float visits = float(std::max(1, child_visits));
    float c = options_.c_puct;
    if (grows_) c += options_.c_puct_log * float(std::log1p(double(visits) / double(options_.c_puct_base)));
    return c * std::sqrt(visits);
  }

  // The first visited child of the root that is not lost and has n < sqrt(k * P * N), else -1.
  [[gnu::noinline]] int first_that_lags(const Tree& tree, const Node& root) const {
    const F8 scale(options_.forced_playouts * float(root.visits - 1)), zero(0.f);
    for (int i = 0; i < root.num_blocks(); ++i) {
      const EdgeBlock& block = tree.blocks(root)[i];
      const F8 n = F8::load_int(block.visits);
      const unsigned lagging =
          bits(less(zero, n)) & bits(less(n, sqrt(scale * F8::load_half(block.prior)))) & ~bits(are_lost(block));
      if (lagging) return i * kLanes + std::countr_zero(lagging);
    }
    return -1;
  }

  // Takes from every action but the most visited what PUCT, knowing the final values, would not have given it, and
  // drops crumbs (KataGo, getExploreSelectionValueInverse and chosenMovePrune; the same weights play and teach there).
  void prune(const Tree& tree, const SearchResult& result) {
    const Node& root = tree.nodes[0];
    const auto edge = [&](size_t i) { return root.first_edge() + std::uint32_t(i); };
    const size_t best = size_t(heaviest(weights_, result.prior));
    if (result.visits[best] == 0 || weights_[best] <= 0) return;
    const float most = weights_[best], scale = exploration(root.visits - 1);
    const float score = result.q_values[best] + scale * from_half(tree.prior(edge(best))) / (1.f + most);
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (i == best || result.visits[i] == 0) continue;
      const float gap = score - result.q_values[i];
      if (gap <= 0) continue;
      const float wanted = std::ceil(scale * from_half(tree.prior(edge(i))) / gap - 1.f);
      weights_[i] = std::min(weights_[i], std::max(0.f, wanted));
      if (weights_[i] < std::min(1.f, most / 64.f)) weights_[i] = 0;
    }
  }

  SearchOptions options_;
  FirstPlay first_play_;
  bool grows_;                            // c, with the visits
  bool explores_root_ = true;             // noise, temperature, forced playouts and the root's own FPU
  std::vector<std::uint16_t> raw_prior_;  // of the root, before temperature and noise
  std::vector<float> prior_, weights_;    // scratch
  std::vector<double> noise_;             // scratch
};

// The same in a graph instead of a tree.
class GraphPuct : public Puct {
 public:
  static constexpr bool kSharesNodes = true;
  using Puct::Puct;
};

}  // namespace shusaku
