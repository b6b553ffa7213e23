// AlphaZero's tree policy (Silver et al. 2018, Methods): argmax Q + c_puct * P * sqrt(N) / (1 + n), Dirichlet noise
// at the root, moves drawn from the visit counts.  An unvisited child is worth its parent's value less a reduction
// that grows with the prior already visited (KataGo, cpp/search/searchexplorehelpers.cpp; lc0, FpuStrategy).
#pragma once

#include "effort.h"
#include "move_choice.h"
#include "options.h"
#include "random.h"
#include "tree.h"

namespace shusaku {

class Puct {
 public:
  static constexpr bool kUsesNetwork = true;

  explicit Puct(const SearchOptions& options) : options_(options) {}

  void store_evaluation(Tree& tree, const Node& node, float* logits) const { tree.set_priors(node, logits); }

  // The root has its priors: mix noise into them.
  void begin(Tree& tree, std::uint64_t seed, Effort effort) {
    const Node& root = tree.nodes[0];
    raw_prior_.clear();
    for (std::uint32_t e = root.first_edge(); e < root.first_edge() + root.num_edges; ++e) raw_prior_.push_back(tree.prior(e));
    if (!options_.noise || !effort.is_full) return;
    Random random(combine(seed, 1));
    std::vector<double>& noise = noise_;
    noise.assign(root.num_edges, 0);
    double sum = 0;
    for (double& x : noise) sum += x = random.gamma(options_.dirichlet_alpha);
    const float epsilon = options_.dirichlet_fraction;
    for (int i = 0; i < root.num_edges; ++i)
      tree.prior(root.first_edge() + std::uint32_t(i)) =
          to_half((1 - epsilon) * from_half(raw_prior_[size_t(i)]) + epsilon * float(noise[size_t(i)] / sum));
  }

  int select_root(const Tree& tree, const Node& root) const { return select(tree, root, options_.root_fpu_reduction); }
  int select_interior(const Tree& tree, const Node& node) const { return select(tree, node, options_.fpu_reduction); }

  void conclude(const Tree&, int ply, std::uint64_t seed, SearchResult& result) const {
    for (std::uint16_t prior : raw_prior_) result.prior.push_back(from_half(prior));
    visit_shares(result);
    Random random(combine(seed, 2));
    const float temperature = ply < options_.temperature_plies ? options_.temperature : 0.f;
    result.action = result.actions[size_t(draw_by_visits(result, temperature, random))];
  }

  template <class Archive>
  void archive(Archive& a) { a.vector(raw_prior_); }

 private:
  int select(const Tree& tree, const Node& node, float fpu_reduction) const {
    const float parent_visits = float(std::max(1, node.visits - 1));
    const F8 fpu(tree.mean_value(node) - fpu_reduction * std::sqrt(node.visited_prior));
    const F8 scale(options_.c_puct * std::sqrt(parent_visits));
    const F8 one(1.f);
    return arg_max(node.num_edges, [&](int first) {
      const EdgeBlock& block = tree.blocks(node)[first / kLanes];
      const F8 explored = scale * F8::load_half(block.prior);
      if (node.num_edges > kLanes && all_zero(block.visits)) return fpu + explored;  // the same number without divisions
      const F8 n = F8::load_int(block.visits);
      const F8 q = choose(less(n, one), fpu, F8::load(block.value_sum) / max(n, one));
      return q + explored / (one + n);
    });
  }

  SearchOptions options_;
  std::vector<std::uint16_t> raw_prior_;  // of the root, before the noise
  std::vector<double> noise_;
};

}  // namespace shusaku
