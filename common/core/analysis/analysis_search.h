// One search that goes on as long as it is asked to: select a leaf, expand it, back its value up, on a GrowingTree.
//
// PUCT with the numbers of search/puct.h and the proofs of search/search.h, for play: no noise, no forced playouts.
// With one path at a time it visits what Search<G, Puct> visits.  Several paths may wait for the network; the caller
// makes sure that one thread at a time is in here.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "analysis/growing_tree.h"
#include "search/first_play.h"
#include "search/leaf_batch.h"
#include "search/move_choice.h"
#include "search/options.h"

namespace shusaku {

// What is known of the root and its legal actions, in their order.  Values are for the player to move at the root.
struct RootReport {
  std::int64_t simulations = 0;  // in the tree
  float value = 0;
  std::vector<int> order;  // of the legal actions, best first
  std::vector<Action> actions;
  std::vector<int> visits;
  std::vector<float> priors, values, lower_bounds;  // the root's value if unvisited; -1 below three visits
  std::vector<std::vector<int>> variations, variation_visits;
};

template <GameRules G>
class AnalysisSearch {
 public:
  using Position = typename G::Position;
  static constexpr bool kUsesNetwork = true;

  AnalysisSearch(const G& rules, const SearchOptions& options)
      : rules_(&rules), options_(options), first_play_(options), place_(rules), path_(new_path()) {
    set_root(rules.start());
  }

  const Position& root() const { return root_; }
  const std::vector<Action>& root_actions() const { return root_actions_; }

  // Forgets the tree.
  void begin(const Position& position) {
    tree_.clear();
    set_root(position);
  }

  // Plays a legal action and keeps the subtree below it.
  void advance(Action action) {
    Position next = root_;
    rules_->play(next, action);
    const std::uint32_t child = tree_.child_along(tree_.root(), action);
    if (child == kNothing || !tree_[child].is_expanded())
      tree_.clear();
    else
      tree_.keep_child(child);
    set_root(next);
  }

  // Whether `position` lies a few moves below the root along visited children; then it is the root now.
  bool follow(const Position& position) {
    if (!has_transposition_key(*rules_)) return false;
    const int plies = rules_->ply(position) - rules_->ply(root_);
    if (plies < 0 || plies > kPliesFollowed) return false;
    std::vector<Action> moves;
    int looked_at = 0;
    if (!find(position, root_, tree_.root(), plies, moves, looked_at)) return false;
    for (Action action : moves) advance(action);
    return true;
  }

  // `simulations` in all, those in the tree included; `allowed`: the only actions that are searched at the root, all if
  // empty.
  void set_limits(std::int64_t simulations, const std::vector<Action>& allowed) {
    limit_ = simulations;
    is_allowed_.assign(root_actions_.size(), allowed.empty());
    for (size_t i = 0; i < root_actions_.size(); ++i)
      for (Action action : allowed)
        if (root_actions_[i] == action) is_allowed_[i] = true;
    is_restricted_ = !allowed.empty();
    simulations_ = 0;
    tree_.for_children(tree_[tree_.root()], [&](std::uint32_t, const GrowingNode& child) {
      if (is_allowed_[child.edge]) simulations_ += child.visits;
    });
  }

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

  Path new_path() const {
    const size_t nodes = size_t(rules_->max_plies()) + 1;
    return {std::vector<std::uint32_t>(nodes), {}, std::vector<std::int8_t>(G::kAlternates ? 0 : nodes)};
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

  int num_waiting() const { return num_waiting_; }
  std::int64_t simulations() const { return simulations_; }
  std::int64_t simulations_left() const { return limit_ - simulations_; }
  bool has_evaluation() const { return tree_[tree_.root()].is_expanded(); }
  std::size_t bytes() const { return tree_.bytes(); }

  // All that may be searched is proven.
  bool is_proven() const {
    const GrowingNode& root = tree_[tree_.root()];
    if (root.proof) return true;
    if (!is_restricted_) return false;
    size_t allowed = 0, proven = 0;
    for (char is_allowed : is_allowed_) allowed += size_t(is_allowed);
    bool has_win = false;
    tree_.for_children(root, [&](std::uint32_t, const GrowingNode& child) {
      if (!is_allowed_[child.edge] || !child.proof) return;
      ++proven;
      has_win = has_win || child.result_for_mover() == 1;
    });
    return has_win || proven == allowed;
  }

  // Whether the visits of `left` more simulations cannot change the move to play.  What they might prove is not known.
  bool is_decided(double left) const {
    const GrowingNode& root = tree_[tree_.root()];
    if (!root.is_expanded()) return false;
    size_t allowed = 0;
    for (char is_allowed : is_allowed_) allowed += size_t(is_allowed);
    if (allowed == 1) return true;
    double most = 0, second = 0;
    tree_.for_children(root, [&](std::uint32_t, const GrowingNode& child) {
      if (!is_allowed_[child.edge] || (child.proof && child.result_for_mover() < 0)) return;
      const double visits = child.visits;
      second = std::max(second, std::min(most, visits)), most = std::max(most, visits);
    });
    if (options_.move_choice == "lcb")  // the others stay below the visits that an action needs for its bound
      return second + left < std::max(3.0, double(options_.lcb_least_share) * most);
    return most - second > left;
  }

  RootReport report() const {
    const GrowingNode& root = tree_[tree_.root()];
    RootReport r;
    SearchResult result;
    std::vector<double> squares;
    r.value = rules_->is_terminal(root_) ? float(rules_->outcome(root_)) : root.mean_value();
    r.simulations = std::max(0, root.visits - 1);
    const size_t count = root_actions_.size();
    r.actions = result.actions = root_actions_;
    r.visits.assign(count, 0);
    r.values.assign(count, r.value), r.lower_bounds.assign(count, -1.f), squares.assign(count, 0);
    r.priors.assign(count, 1.f / float(std::max<size_t>(1, count)));
    r.variations.resize(count), r.variation_visits.resize(count);
    for (size_t i = 0; i < count; ++i) r.variations[i] = {int(root_actions_[i])}, r.variation_visits[i] = {0};
    constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
    result.proven_value = root.proof ? float(root.result()) : kUnknown;
    result.proven_values.assign(count, kUnknown);
    if (root.is_expanded()) read_priors(root, r.priors);
    tree_.for_children(root, [&](std::uint32_t at, const GrowingNode& child) {
      const size_t i = child.edge;
      r.priors[i] = from_half(child.prior);
      if (child.proof) result.proven_values[i] = float(child.result_for_mover());
      if (child.visits == 0) return;
      r.visits[i] = child.visits;
      r.values[i] = child.value_for_mover();
      squares[i] = child.square_sum / child.visits;
      if (child.visits >= 3)
        r.lower_bounds[i] = float(std::max(-1.0, lower_bound(options_, child.visits, r.values[i], squares[i])));
      follow_variation(at, r.variations[i], r.variation_visits[i]);
    });
    result.visits = r.visits, result.q_values = r.values, result.prior = r.priors;
    order(result, squares, r);
    return r;
  }

 private:
  static constexpr int kPliesFollowed = 8, kPositionsLookedAt = 20000;

  void set_root(const Position& position) {
    root_ = position;
    root_actions_.resize(size_t(rules_->max_legal_actions()));
    root_actions_.resize(rules_->is_terminal(root_) ? 0 : size_t(rules_->legal_actions(root_, root_actions_.data())));
    set_limits(limit_, {});
  }

  bool is_over() const {
    return has_evaluation() && (simulations_ + num_waiting_ >= limit_ || tree_[tree_.root()].proof);
  }

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
        at = add_leaf(at, edge);
      }
    }
  }

  std::uint32_t add_leaf(std::uint32_t parent, int edge) {
    Position& leaf = place_.position;
    const bool is_root = parent == tree_.root();
    if (!is_root) rules_->legal_actions(leaf, place_.actions.data());
    const Action action = is_root ? root_actions_[size_t(edge)] : place_.actions[size_t(edge)];
    rules_->play(leaf, action);
    const std::uint32_t at = tree_.add_child(parent, edge, action);
    GrowingNode& node = tree_[at];
    if constexpr (!G::kAlternates) node.moves_again = rules_->to_play(leaf) == path_.players[path_.depth];
    if (rules_->is_terminal(leaf)) {
      const int outcome = rules_->outcome(leaf);
      node.is_terminal_or_proven = true;
      node.raw_value = float(outcome);
      if (options_.proven_results && !rules_->is_cut_off(leaf)) node.proof = std::uint8_t(outcome + 2);
    }
    return at;
  }

  struct Choice {
    int edge;
    std::uint32_t child;  // kNothing if it has to be made
  };

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

  // Among equal scores the first one; the edge is -1 if all are visited.
  Choice best_unvisited(const GrowingNode& node, float fpu, float scale, bool is_root) const {
    const std::uint16_t* priors = tree_.priors(node);
    if (is_root && is_restricted_) {
      Choice best{-1, kNothing};
      for (int i = 0; i < node.num_edges; ++i)
        if (is_allowed_[size_t(i)] && priors[i] != kVisited &&
            (best.edge < 0 || from_half(priors[i]) > from_half(priors[best.edge])))
          best.edge = i;
      return best;
    }
    const F8 f(fpu), s(scale), zero(0.f), nothing(-kInfinity);
    const int edge = arg_max(node.num_edges, [&](int first) __attribute__((always_inline)) {
      const F8 p = F8::load_half(priors + first);
      return choose(less(p, zero), nothing, f + s * p);
    });
    return {priors[edge] == kVisited ? -1 : edge, kNothing};
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
      if (turns(k)) value = -value;
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
      if (turns(k)) value = -value;
    }
  }

  // Whether the player to move at node k of the path is another one than at node k - 1.
  bool turns(size_t k) const { return G::kAlternates || path_.players[k] != path_.players[k - 1]; }

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

  // Depth first along visited children, `plies` moves down.
  bool find(const Position& wanted, const Position& here, std::uint32_t at, int plies, std::vector<Action>& moves,
            int& looked_at) const {
    if (++looked_at > kPositionsLookedAt) return false;
    if (plies == 0)
      return rules_->to_play(here) == rules_->to_play(wanted) &&
             rules_->transposition_key(here) == rules_->transposition_key(wanted) &&
             rules_->evaluation_key(here) == rules_->evaluation_key(wanted);
    bool is_found = false;
    tree_.for_children(tree_[at], [&](std::uint32_t below, const GrowingNode& child) {
      if (is_found) return;
      Position next = here;
      rules_->play(next, child.action);
      moves.push_back(child.action);
      is_found = find(wanted, next, below, plies - 1, moves, looked_at);
      if (!is_found) moves.pop_back();
    });
    return is_found;
  }

  void read_priors(const GrowingNode& root, std::vector<float>& priors) const {
    const size_t count = priors.size();
    std::vector<float> x;
    x.resize(size_t(padded(int(count))));
    for (size_t i = 0; i < count; ++i) x[i] = from_half(tree_.priors(root)[i]);
    if (root.stage == Stage::kEvaluated) Tree::softmax(x.data(), int(count));
    std::copy_n(x.begin(), count, priors.begin());
  }

  // The most visited moves after this node.
  void follow_variation(std::uint32_t at, std::vector<int>& actions, std::vector<int>& visits) const {
    visits.back() = tree_[at].visits;
    for (;;) {
      std::uint32_t best = kNothing;
      tree_.for_children(tree_[at], [&](std::uint32_t number, const GrowingNode& child) {
        if (child.visits > 0 && (best == kNothing || is_better(child, tree_[best]))) best = number;
      });
      if (best == kNothing) return;
      actions.push_back(tree_[best].action), visits.push_back(tree_[best].visits);
      at = best;
    }
  }

  static bool is_better(const GrowingNode& a, const GrowingNode& b) {
    const int x = a.proof ? a.result_for_mover() : 0, y = b.proof ? b.result_for_mover() : 0;
    if (x != y) return x > y;
    if (a.visits != b.visits) return a.visits > b.visits;
    return a.prior != b.prior ? from_half(a.prior) > from_half(b.prior) : a.edge < b.edge;
  }

  // The move to play, which Puct::conclude chooses, then by visits and prior; what may not be searched comes last.
  void order(SearchResult& result, const std::vector<double>& squares, RootReport& r) const {
    if (result.actions.empty()) return;
    std::vector<float> weights;
    visit_weights(result, weights);
    keep_best_proven(result, weights);
    for (size_t i = 0; i < weights.size(); ++i)
      if (!is_allowed_[i]) weights[i] = -1;
    const int best = options_.move_choice == "lcb"
                         ? highest_lower_bound(options_, result, weights, [&](size_t i) { return squares[i]; })
                         : heaviest(weights, result.prior);
    r.order.resize(result.actions.size());
    for (size_t i = 0; i < r.order.size(); ++i) r.order[i] = int(i);
    std::sort(r.order.begin(), r.order.end(), [&](int a, int b) {
      const size_t i = size_t(a), j = size_t(b);
      if ((a == best) != (b == best)) return a == best;
      if (weights[i] != weights[j]) return weights[i] > weights[j];
      if (r.visits[i] != r.visits[j]) return r.visits[i] > r.visits[j];
      return r.priors[i] != r.priors[j] ? r.priors[i] > r.priors[j] : a < b;
    });
  }

  const G* rules_;
  SearchOptions options_;
  FirstPlay first_play_;
  GrowingTree tree_;
  Position root_{};
  std::vector<Action> root_actions_;
  std::vector<char> is_allowed_;  // of the root's actions
  bool is_restricted_ = false;
  LeafPlace<G> place_;
  int num_leaf_actions_ = 0;
  std::int64_t limit_ = 0, simulations_ = 0;  // of the actions that may be searched
  int num_waiting_ = 0;
  Path path_;  // to the leaf
};

}  // namespace shusaku
