// Gumbel AlphaZero (Danihelka et al. 2022, "Policy improvement by planning with Gumbel"): m actions
// sampled without replacement at the root, sequential halving among them, and a policy improved by the completed
// values.  The phases follow mctx/_src/seq_halving.py, the completion mctx/_src/qtransforms.py
// (qtransform_completed_by_mix_value), over legal actions only.  Edges carry logits instead of priors.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "search/move_choice.h"
#include "search/options.h"
#include "search/random.h"
#include "search/tree.h"

namespace shusaku {

// Entry s is the visit count that an action must have to be considered in simulation s.
inline std::vector<int> considered_visits(int considered, int simulations) {
  std::vector<int> sequence;
  if (considered <= 1) {
    for (int s = 0; s < simulations; ++s) sequence.push_back(s);
    return sequence;
  }
  const int phases = int(std::ceil(std::log2(double(considered))));
  std::vector<int> visits(size_t(considered), 0);
  for (int alive = considered; int(sequence.size()) < simulations; alive = std::max(2, alive / 2)) {
    const int each = std::max(1, simulations / (phases * alive));
    for (int k = 0; k < each; ++k)
      for (int i = 0; i < alive; ++i) sequence.push_back(visits[size_t(i)]++);
  }
  sequence.resize(size_t(simulations));
  return sequence;
}

class Gumbel {
 public:
  static constexpr bool kUsesNetwork = true, kSimulates = true, kSharesNodes = false, kKnowsWaiting = false;

  explicit Gumbel(const SearchOptions& options)
      : options_(options), interior_puct_(options.gumbel_interior == "puct"), proves_(options.proven_results) {}

  void make_ready(Tree&, const Node&) const {}  // its formulas take logits

  void begin(Tree& tree, int, std::uint64_t seed, Budget budget) {
    const Node& root = tree.nodes[0];
    Random random(combine(seed, 1));
    gumbel_.assign(size_t(padded(root.num_edges)), 0.f);
    for (int i = 0; i < root.num_edges; ++i) gumbel_[size_t(i)] = options_.gumbel_scale * float(random.gumbel());
    considered_ = std::min(options_.considered_actions, int(root.num_edges));
    simulations_ = budget.simulations;
  }

  int select_root(const Tree& tree, const Node& root) {
    const std::vector<int>& visits = sequence();
    const int simulation = root.visits - 1;
    const int wanted = visits[size_t(std::min(simulation, int(visits.size()) - 1))];
    const int choice = best_considered(tree, root, wanted);
    if (!proves_) return choice;
    const std::uint32_t edge = root.first_edge() + std::uint32_t(choice);
    if (tree.visits(edge) == wanted && !tree.is_lost(edge)) return choice;
    // The actions whose turn it was are proven lost: take the most visited of the others.
    int most = 0;
    for (std::uint32_t e = root.first_edge(); e < root.first_edge() + root.num_edges; ++e)
      if (!tree.is_lost(e)) most = std::max(most, tree.visits(e));
    return best_considered(tree, root, most);
  }

  // Deterministic: the action whose share of the visits lags its improved policy most (section 5 of the paper).
  int select_interior(const Tree& tree, const Node& node) {
    if (interior_puct_) return select_puct(tree, node);
    improve(tree, node);
    const F8 total(float(std::max(1, node.visits)));
    return arg_max(node.num_edges, [&](int i) {
      return F8::load(&policy_[size_t(i)]) - F8::load_int(tree.blocks(node)[i / kLanes].visits) / total;
    });
  }

  void conclude(const Tree& tree, int, std::uint64_t, SearchResult& result) {
    const Node& root = tree.nodes[0];
    improve(tree, root);
    result.prior.assign(prior_.begin(), prior_.begin() + root.num_edges);
    result.policy.assign(policy_.begin(), policy_.begin() + root.num_edges);
    if (keep_best_proven(result, result.policy)) normalise(result.policy);
    result.value = root.proof ? float(root.result()) : expected_value(tree, root, result.policy);
    int best = -1;  // of the most visited, the one with the highest gumbel + logits + sigma(q)
    const auto score = [&](int i) { return gumbel_[size_t(i)] + improved_logits_[size_t(i)]; };
    for (int i = 0; i < root.num_edges; ++i) {
      if (result.policy[size_t(i)] <= 0) continue;
      const int lead = best < 0 ? 1 : result.visits[size_t(i)] - result.visits[size_t(best)];
      if (lead > 0 || (lead == 0 && score(i) > score(best))) best = i;
    }
    result.action = result.actions[size_t(best)];
  }

  template <class Archive>
  void archive(Archive& a) {
    a.vector(gumbel_), a.number(considered_), a.number(simulations_);
  }

 private:
  const std::vector<int>& sequence() {
    if (sequence_of_ != std::pair(considered_, simulations_)) {
      sequence_of_ = {considered_, simulations_};
      sequence_ = considered_visits(considered_, simulations_);
    }
    return sequence_;
  }

  // argmax of gumbel + logits + sigma(q) over the actions with just `visits` visits.
  int best_considered(const Tree& tree, const Node& root, int visits) {
    improve(tree, root);
    const F8 wanted{float(visits)};
    return arg_max(root.num_edges, [&](int i) {
      const F8 n = F8::load_int(tree.blocks(root)[i / kLanes].visits);
      return choose(equal(n, wanted), F8::load(&gumbel_[size_t(i)]) + F8::load(&improved_logits_[size_t(i)]),
                    F8(-kInfinity));
    });
  }

  // sum over a of policy(a) completed q(a), after improve().  The mean of the root's visits would say less: sequential
  // halving spends half of them on actions that it knows to be worse.
  float expected_value(const Tree& tree, const Node& root, const std::vector<float>& policy) const {
    double value = 0;
    for (int i = 0; i < root.num_edges; ++i) {
      const std::uint32_t edge = root.first_edge() + std::uint32_t(i);
      value += double(policy[size_t(i)]) * double(tree.visits(edge) ? tree.mean_value(edge) : mixed_value_);
    }
    return std::clamp(float(value), -1.f, 1.f);
  }

  // Fills improved_logits_ = logits + sigma(completed q), policy_ = its softmax, and mixed_value_.
  void improve(const Tree& tree, const Node& node) {
    const int count = node.num_edges, size = padded(count);
    if (int(policy_.size()) < size) {
      policy_.resize(size_t(size)), improved_logits_.resize(size_t(size)), prior_.resize(size_t(size));
    }
    softmax_into(tree, node, prior_.data());
    // The mixed value stands in for the children that were not visited.
    F8 visited_sum(0.f), weighted_sum(0.f), visits_sum(0.f);
    float most = 0;
    const F8 one(1.f), zero(0.f);
    for (int i = 0; i < count; i += kLanes) {
      const EdgeBlock& block = tree.blocks(node)[i / kLanes];
      const F8 inside = lanes_below(i, count), n = choose(inside, F8::load_int(block.visits), zero);
      const F8 p = max(F8::load(&prior_[size_t(i)]), F8(1e-30f)), is_unvisited = less(n, one);
      visited_sum = visited_sum + choose(is_unvisited, zero, p);
      weighted_sum = weighted_sum + choose(is_unvisited, zero, p * mean_values(block, n));
      visits_sum = visits_sum + n;
      most = std::fmax(most, horizontal_max(n));
    }
    const float total = horizontal_sum(visits_sum), seen = horizontal_sum(visited_sum);
    const float weighted = seen > 0 ? horizontal_sum(weighted_sum) / seen : 0.f;
    mixed_value_ = (node.raw_value + total * weighted) / (total + 1.f);
    const F8 mixed{mixed_value_};
    F8 low(kInfinity), high(-kInfinity);
    for (int i = 0; i < count; i += kLanes) {
      const EdgeBlock& block = tree.blocks(node)[i / kLanes];
      const F8 n = F8::load_int(block.visits);
      const F8 q = choose(less(n, one), mixed, mean_values(block, n));
      q.store(&improved_logits_[size_t(i)]);
      const F8 inside = lanes_below(i, count);
      low = min(low, choose(inside, q, F8(kInfinity))), high = max(high, choose(inside, q, F8(-kInfinity)));
    }
    const float lowest = -horizontal_max(F8(0.f) - low), highest = horizontal_max(high);
    const float sigma = (options_.maxvisit_init + most) * options_.value_scale;
    const F8 shift(options_.rescale_values ? lowest : 0.f);
    const F8 stretch(options_.rescale_values ? sigma / std::fmax(highest - lowest, 1e-8f) : sigma);
    for (int i = 0; i < count; i += kLanes) {
      const F8 logits = F8::load_half(tree.blocks(node)[i / kLanes].prior);
      (logits + (F8::load(&improved_logits_[size_t(i)]) - shift) * stretch).store(&improved_logits_[size_t(i)]);
    }
    if (proves_ && !node.is_terminal_or_proven) {  // if all are lost, one is as good as another
      for (int i = 0; i < count; i += kLanes) {
        float* logits = &improved_logits_[size_t(i)];
        choose(are_lost(tree.blocks(node)[i / kLanes]), F8(-kInfinity), F8::load(logits)).store(logits);
      }
    }
    std::copy_n(improved_logits_.data(), size, policy_.data());
    Tree::softmax(policy_.data(), count);
  }

  static F8 mean_values(const EdgeBlock& block, F8 n) {
    return max(F8::load(block.value_sum) / max(n, F8(1.f)), F8(-1.f));  // a proven loss counts as a loss
  }

  void softmax_into(const Tree& tree, const Node& node, float* out) {
    for (int i = 0; i < node.num_edges; i += kLanes) F8::load_half(tree.blocks(node)[i / kLanes].prior).store(out + i);
    Tree::softmax(out, node.num_edges);
  }

  // AlphaZero's rule below the root, as MiniZero does; an unvisited child has its parent's value.
  int select_puct(const Tree& tree, const Node& node) {
    if (prior_.size() < size_t(padded(node.num_edges))) prior_.resize(size_t(padded(node.num_edges)));
    softmax_into(tree, node, prior_.data());
    const F8 fpu(tree.mean_value(node)), one(1.f);
    const F8 scale(options_.c_puct * std::sqrt(float(std::max(1, node.visits - 1))));
    return arg_max(node.num_edges, [&](int i) {
      const EdgeBlock& block = tree.blocks(node)[i / kLanes];
      const F8 n = F8::load_int(block.visits);
      const F8 q = choose(less(n, one), fpu, F8::load(block.value_sum) / max(n, one));
      return q + scale * F8::load(&prior_[size_t(i)]) / (one + n);
    });
  }

  SearchOptions options_;
  bool interior_puct_, proves_;
  std::int32_t considered_ = 1, simulations_ = 0;
  std::vector<float> gumbel_;          // of the root's edges
  std::pair<int, int> sequence_of_{};  // considered actions and simulations of `sequence_`
  std::vector<int> sequence_;
  std::vector<float> prior_, policy_, improved_logits_;  // scratch
  float mixed_value_ = 0;                                // the same: of children that were not visited
};

}  // namespace shusaku
