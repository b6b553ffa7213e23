// PUCT on a GrowingTree, as long as it is asked to: select a leaf, expand it, back its value up.
//
// The numbers of search/puct.h and the proofs of search/search.h, for play: no noise, no forced playouts.  With one
// path at a time it visits what Search<G, Puct> visits.  Several paths may wait for the network.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "analysis/growing_search.h"
#include "search/first_play.h"
#include "search/search_batch.h"

namespace shusaku {

template <GameRules G>
class AnalysisSearch final : public GrowingSearch<G, GrowingNode> {
  using Shared = GrowingSearch<G, GrowingNode>;
  using Shared::best_unvisited, Shared::is_allowed_, Shared::is_restricted_, Shared::limit_, Shared::num_waiting_,
      Shared::options_, Shared::root_, Shared::root_actions_, Shared::rules_, Shared::simulations_, Shared::tree_;
  using typename Shared::Choice;

 public:
  using Position = typename G::Position;
  using Shared::new_path;
  static constexpr bool kUsesNetwork = true;

  AnalysisSearch(const G& rules, const SearchOptions& options, std::uint64_t = 0)  // no seed: nothing is drawn
      : Shared(rules, options), first_play_(options), place_(rules), path_(new_path()) {}

  // As Search::run.
  Step run(int& simulations_left, std::uint64_t& terminals) {
    while (!is_over()) {
      const GrowingNode& root = tree_[tree_.root()];
      if (root.is_expanded() ? --simulations_left < 0 : root.waiting > 0) return Step::kPaused;
      descend();
      GrowingNode& leaf = tree_[path_.nodes[path_.depth]];
      if (leaf.is_terminal_or_proven) {
        ++terminals, ++simulations_;
        if (leaf.proof && leaf.visits == 0)
          backup_proof();
        else
          backup(leaf.exact_value());
        continue;
      }
      if (leaf.waiting) return Step::kPaused;
      num_leaf_actions_ = rules_->legal_actions(place_.position, place_.actions.data());
      return Step::kLeaf;
    }
    return Step::kDone;
  }

  const Position& leaf() const { return place_.position; }
  const Action* leaf_actions() const { return place_.actions.data(); }
  int num_leaf_actions() const { return num_leaf_actions_; }

  // The leaf that run() has found, with the logits of its legal actions in half floats.
  void expand(const std::uint16_t* logits, float value) { expand(logits, num_leaf_actions_, value); }
  void expand(const std::uint16_t* logits, int count, float value) {
    GrowingNode& node = tree_[path_.nodes[path_.depth]];
    if (node.is_terminal_or_proven) {  // meanwhile
      backup(node.exact_value());
      ++simulations_;
      return;
    }
    node.raw_value = value;
    tree_.set_logits(node, logits, count);
    backup(value);
    if (path_.depth > 0) ++simulations_;
  }

  void park(Path& parked) {
    count_waiting(1);
    std::swap(path_, parked);
  }
  // If a node of the path was proven meanwhile, it ends there.
  void resume(Path& parked) {
    std::swap(path_, parked);
    count_waiting(-1);
    for (size_t k = 0; k < path_.depth; ++k)
      if (tree_[path_.nodes[k]].is_terminal_or_proven) path_.depth = k;
  }

  bool has_evaluation() const { return tree_[tree_.root()].is_expanded(); }
  int num_pending() const { return num_waiting_; }
  bool has_virtual_loss() const { return false; }

  bool is_proven() const { return this->proven_result().has_value(); }

  // One thread's leaves, and the paths to them.
  struct Worker {
    Worker(const G& rules, const SearchOptions& options, int leaves, std::uint64_t seed,
           std::shared_ptr<EvaluationCache> cache, const AnalysisSearch& search)
        : batch(rules, options, leaves, seed, std::move(cache)),
          players(size_t(leaves)),
          parked_(size_t(leaves), search.new_path()),
          counts_(size_t(leaves)) {}

    // Selects leaves until there are `room`, or the next one has to wait for another.  The lock is held.
    template <class IsOver>
    bool fill(AnalysisSearch& search, std::unique_lock<std::mutex>&, int room, IsOver) {
      int simulations_left = kSimulationsPerSelect;
      Step step = Step::kLeaf;
      while (step == Step::kLeaf && batch.num_leaves() < room) {
        step = batch.run(search, 0, simulations_left);
        if (step == Step::kLeaf) park(search);
      }
      return true;
    }
    void answer(AnalysisSearch& search, int leaf, const std::uint16_t* logits, float value) {
      search.resume(parked_[size_t(leaf)]);
      search.expand(logits, counts_[size_t(leaf)], value);
    }
    void drop(AnalysisSearch& search, int leaf) { search.resume(parked_[size_t(leaf)]); }
    void end_answers(AnalysisSearch&) {}

    LeafBatch<G, AnalysisSearch> batch;
    std::vector<int> players;  // [leaves] to move there

   private:
    void park(AnalysisSearch& search) {
      const size_t leaf = size_t(batch.num_leaves() - 1);
      counts_[leaf] = search.num_leaf_actions(), players[leaf] = search.rules_->to_play(search.leaf());
      search.park(parked_[leaf]);
    }

    std::vector<Path> parked_;  // [leaves] that wait for the network
    std::vector<int> counts_;   // [leaves] their legal actions
  };

 protected:
  float mean_value(const GrowingNode& node) const override { return node.mean_value(); }
  int visits_below(const GrowingNode& node) const override { return node.visits - 1; }
  bool is_kept(const GrowingNode& node) const override { return node.is_expanded(); }

 private:
  bool is_over() const { return has_evaluation() && (simulations_ + num_waiting_ >= limit_ || this->proven_result()); }

  // From the root to a node without evaluation, or to a terminal or proven one.
  void descend() {
    Position& leaf = place_.position;
    copy_position(*rules_, root_, leaf);
    std::uint32_t at = tree_.root();
    for (path_.depth = 0;; ++path_.depth) {
      path_.nodes[path_.depth] = at;
      if constexpr (!G::kAlternates) path_.players[path_.depth] = std::int8_t(rules_->to_play(leaf));
      GrowingNode& node = tree_[at];
      if (node.is_terminal_or_proven || node.stage == Stage::kNew) return;
      if (node.stage == Stage::kEvaluated) tree_.make_priors(node);
      const auto [edge, child] = select(node, at == tree_.root());
      if (child != kNothing) {
        rules_->play(leaf, tree_[child].action);
        at = child;
      } else {
        at = this->add_leaf(at, edge, leaf, place_.actions.data(), path_);
      }
    }
  }

  // Puct::select, and Puct::select_beside if paths wait: each counts as a visit whose value is not known.
  Choice select(const GrowingNode& node, bool is_root) const {
    const float reduction = is_root ? options_.root_fpu_reduction : options_.fpu_reduction;
    const float fpu = first_play_.value(node.mean_value(), node.visited_prior, reduction);
    const float scale = exploration(node.visits - 1 + node.waiting);
    Choice best = best_unvisited(node, fpu, scale, is_root);
    float highest = best.edge < 0 ? -kInfinity : fpu + scale * from_half(tree_.priors(node)[best.edge]);
    tree_.for_children(node, [&](std::uint32_t at, const GrowingNode& child) {
      if (is_root && !is_allowed_[child.edge]) return;
      const float q = child.visits < 1 ? fpu : child.sum_for_mover() / float(child.visits);
      const float score = q + scale * from_half(child.prior) / (1.f + float(child.visits + child.waiting));
      if (best.edge >= 0 && (score < highest || (score == highest && child.edge > best.edge))) return;
      highest = score, best = {child.edge, at};
    });
    return best;
  }

  // Puct::exploration.
  float exploration(int child_visits) const {
    const float visits = float(std::max(1, child_visits));
    float c = options_.c_puct;
    if (options_.c_puct_log != 0)
      c += options_.c_puct_log * float(std::log1p(double(visits) / double(options_.c_puct_base)));
    return c * std::sqrt(visits);
  }

  void count_waiting(int paths) {
    num_waiting_ += paths;
    for (size_t k = 0; k <= path_.depth; ++k)
      tree_[path_.nodes[k]].waiting = std::uint16_t(tree_[path_.nodes[k]].waiting + paths);
  }

  // `value` is for the player to move at the end of the path.
  void backup(float value) {
    for (size_t k = path_.depth;; --k) {
      GrowingNode& node = tree_[path_.nodes[k]];
      ++node.visits;
      node.value_sum += double(value);
      node.square_sum += double(value) * double(value);
      if (k == 0) return;
      if (this->turns(path_, k)) value = -value;
    }
  }

  // Search::backup_proof: the new result of the leaf, and of the nodes above it that follow.
  void backup_proof() {
    bool is_new = true;
    float value = 0;
    for (size_t k = path_.depth;; --k) {
      GrowingNode& node = tree_[path_.nodes[k]];
      if (k < path_.depth && is_new) is_new = prove(node, tree_[path_.nodes[k + 1]]);
      ++node.visits;
      if (is_new) {
        value = float(node.result());
        node.value_sum = double(value) * node.visits, node.square_sum = double(value) * double(value) * node.visits;
      } else {
        node.value_sum += double(value), node.square_sum += double(value) * double(value);
      }
      if (k == 0) return;
      if (this->turns(path_, k)) value = -value;
    }
  }

  // Whether the proof of `child` settles `node`: a win does, else the best once all are proven.
  bool prove(GrowingNode& node, const GrowingNode& child) {
    int best = child.result_for_mover(), num_proven = 0;
    if (best < 1) {
      tree_.for_children(node, [&](std::uint32_t, const GrowingNode& other) {
        if (!other.proof) return;
        best = std::max(best, other.result_for_mover()), ++num_proven;
      });
      if (best < 1 && num_proven < node.num_edges) return false;
    }
    node.proof = std::uint8_t(best + 2);
    node.is_terminal_or_proven = true;
    return true;
  }

  FirstPlay first_play_;
  LeafPlace<G> place_;
  int num_leaf_actions_ = 0;
  Path path_;  // to the leaf
};

}  // namespace shusaku
