// What every search on a GrowingTree has: the root and its subtree, which is kept; the moves that may be searched; the
// choice of a move, and the report.  How leaves are selected and evaluated is the matter of the classes made from it:
// analysis_search.h, alphago_search.h.  The caller makes sure that one thread at a time is in here.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "analysis/growing_tree.h"
#include "search/end_value.h"
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
  bool resigns = false;  // by the rule of the policy, if it has one
};

template <GameRules G, class Node>
class GrowingSearch {
 public:
  using Position = typename G::Position;

  GrowingSearch(const G& rules, const SearchOptions& options)
      : rules_(&rules), options_(options), endings_(rules, options.solved_empties) {
    set_root(rules.start());
  }
  virtual ~GrowingSearch() = default;

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
    if (child == kNothing || !is_kept(tree_[child]))
      tree_.clear();
    else
      tree_.keep_child(child);
    set_root(next);
  }

  // Makes `position` the root if it lies a few moves below the root along visited children; how many, or -1: it does
  // not.
  int follow(const Position& position) {
    if (!has_transposition_key(*rules_)) return -1;
    const int plies = rules_->ply(position) - rules_->ply(root_);
    if (plies < 0 || plies > kPliesFollowed) return -1;
    std::vector<Action> moves;
    int looked_at = 0;
    if (!find(position, root_, tree_.root(), plies, moves, looked_at)) return -1;
    for (Action action : moves) advance(action);
    return plies;
  }

  // `simulations` in all, those in the tree included; `allowed`: the only actions that are searched at the root, all if
  // empty.  A tree that says nothing of them is forgotten: its root is proven by other actions, or was searched without
  // some of these (KataGo clears its search, too: Search::setAvoidMoveUntilByLoc).  Whether it was, or others were
  // allowed until now: then what was summed over its evaluations is of other moves.
  bool set_limits(std::int64_t simulations, const std::vector<Action>& allowed) {
    limit_ = simulations;
    is_allowed_.assign(root_actions_.size(), allowed.empty());
    for (size_t i = 0; i < root_actions_.size(); ++i)
      for (Action action : allowed)
        if (root_actions_[i] == action) is_allowed_[i] = true;
    is_restricted_ = !allowed.empty();
    const bool differs = is_allowed_ != was_allowed_;
    bool forgets = is_restricted_ && tree_[tree_.root()].proof && !proven_result();
    for (size_t i = 0; i < is_allowed_.size(); ++i) forgets = forgets || (is_allowed_[i] && !was_allowed_[i]);
    if (forgets) tree_.clear();
    was_allowed_ = is_allowed_;
    simulations_ = 0;
    tree_.for_children(tree_[tree_.root()], [&](std::uint32_t, const Node& child) {
      if (is_allowed_[child.edge]) simulations_ += child.visits;
    });
    return forgets || differs;
  }

  Path new_path() const {
    const size_t nodes = size_t(rules_->max_plies()) + 1;
    return {std::vector<std::uint32_t>(nodes), {}, std::vector<std::int8_t>(G::kAlternates ? 0 : nodes)};
  }

  int num_waiting() const { return num_waiting_; }
  std::int64_t simulations() const { return simulations_; }
  std::int64_t simulations_left() const { return limit_ - simulations_; }
  std::size_t bytes() const { return tree_.bytes(); }

  // The result of best play with the actions that may be searched, if that is proven.
  std::optional<int> proven_result() const {
    const Node& root = tree_[tree_.root()];
    if (!is_restricted_) return root.proof ? std::optional(root.result()) : std::nullopt;
    int best = -1;
    std::ptrdiff_t proven = 0;
    tree_.for_children(root, [&](std::uint32_t, const Node& child) {
      if (!is_allowed_[child.edge] || !child.proof) return;
      best = std::max(best, child.result_for_mover()), ++proven;
    });
    const bool are_all_proven = proven > 0 && proven == std::count(is_allowed_.begin(), is_allowed_.end(), 1);
    return best == 1 || are_all_proven ? std::optional(best) : std::nullopt;
  }

  // Whether the visits of `left` more simulations cannot change the move to play.  What they might prove is not known.
  bool is_decided(double left) const {
    const Node& root = tree_[tree_.root()];
    if (!root.is_expanded()) return false;
    size_t allowed = 0;
    for (char is_allowed : is_allowed_) allowed += size_t(is_allowed);
    if (allowed == 1) return true;
    double most = 0, second = 0;
    tree_.for_children(root, [&](std::uint32_t, const Node& child) {
      if (!is_allowed_[child.edge] || (child.proof && child.result_for_mover() < 0)) return;
      const double visits = child.visits;
      second = std::max(second, std::min(most, visits)), most = std::max(most, visits);
    });
    if (options_.move_choice == "lcb")  // the others stay below the visits that an action needs for its bound
      return second + left < std::max(3.0, double(options_.lcb_least_share) * most);
    return most - second > left;
  }

  RootReport report() const {
    const Node& root = tree_[tree_.root()];
    RootReport r;
    SearchResult result;
    std::vector<double> squares;
    const std::optional<int> proven = proven_result();
    r.value = rules_->is_terminal(root_) ? float(rules_->outcome(root_))
              : proven                   ? float(*proven)
              : is_restricted_           ? value_of_allowed(root)
                                         : mean_value(root);
    r.simulations = is_restricted_ ? simulations_ : std::max(0, visits_below(root));
    const size_t count = root_actions_.size();
    r.actions = result.actions = root_actions_;
    r.visits.assign(count, 0);
    r.values.assign(count, r.value), r.lower_bounds.assign(count, -1.f), squares.assign(count, 0);
    r.priors.assign(count, 1.f / float(std::max<size_t>(1, count)));
    r.variations.resize(count), r.variation_visits.resize(count);
    for (size_t i = 0; i < count; ++i) r.variations[i] = {int(root_actions_[i])}, r.variation_visits[i] = {0};
    constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
    result.proven_value = proven ? float(*proven) : kUnknown;
    result.proven_values.assign(count, kUnknown);
    if (root.is_expanded()) read_priors(root, r.priors);
    tree_.for_children(root, [&](std::uint32_t at, const Node& child) {
      const size_t i = child.edge;
      r.priors[i] = from_half(child.prior);
      if (child.proof) result.proven_values[i] = float(child.result_for_mover());
      if (child.visits == 0) return;
      r.visits[i] = child.visits;
      r.values[i] = value_for_mover(child);
      squares[i] = child.square_sum / child.visits;
      if (has_bounds() && child.visits >= 3)
        r.lower_bounds[i] = float(std::max(-1.0, lower_bound(options_, child.visits, r.values[i], squares[i])));
      follow_variation(at, r.variations[i], r.variation_visits[i]);
    });
    result.visits = r.visits, result.q_values = r.values, result.prior = r.priors;
    order(result, squares, r);
    return r;
  }

 protected:
  virtual float mean_value(const Node& node) const = 0;  // for the player to move there
  virtual int visits_below(const Node& node) const = 0;  // of all children together
  virtual bool is_kept(const Node& node) const = 0;      // as a root, rather than made anew
  virtual bool has_bounds() const { return true; }       // lower confidence bounds of values

  // The mean over the children that may be searched; the root's if none was.
  float value_of_allowed(const Node& root) const {
    double sum = 0, visits = 0;
    tree_.for_children(root, [&](std::uint32_t, const Node& child) {
      if (is_allowed_[child.edge] && child.visits > 0)
        sum += double(value_for_mover(child)) * child.visits, visits += child.visits;
    });
    return visits > 0 ? float(sum / visits) : mean_value(root);
  }

  float value_for_mover(const Node& child) const {  // visited
    if (child.proof) return float(child.result_for_mover());
    return child.moves_again ? mean_value(child) : -mean_value(child);
  }

  struct Choice {
    int edge;
    std::uint32_t child;  // kNothing if it has to be made
  };

  // Among equal scores the first one; the edge is -1 if all are visited.
  Choice best_unvisited(const Node& node, float fpu, float scale, bool is_root) const {
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

  // The child along `edge`, and the outcome if the game is over there.  `leaf`, the position at the parent, which is
  // the end of `path`, becomes that of the child; `actions` is scratch.
  std::uint32_t add_leaf(std::uint32_t parent, int edge, Position& leaf, Action* actions, const Path& path) {
    const bool is_root = parent == tree_.root();
    if (!is_root) rules_->legal_actions(leaf, actions);
    const Action action = is_root ? root_actions_[size_t(edge)] : actions[edge];
    rules_->play(leaf, action);
    const std::uint32_t at = tree_.add_child(parent, edge, action);
    Node& node = tree_[at];
    if constexpr (!G::kAlternates) node.moves_again = rules_->to_play(leaf) == path.players[path.depth];
    mark_end(*rules_, options_, endings_, leaf, node);
    return at;
  }

  // Whether the player to move at node k of the path is another one than at node k - 1.
  static bool turns(const Path& path, size_t k) { return G::kAlternates || path.players[k] != path.players[k - 1]; }

  const G* rules_;
  SearchOptions options_;
  EndingSolver<G> endings_;
  GrowingTree<Node> tree_;
  Position root_{};
  std::vector<Action> root_actions_;
  std::vector<char> is_allowed_;   // of the root's actions
  std::vector<char> was_allowed_;  // when its visits were made
  bool is_restricted_ = false;
  std::int64_t limit_ = 0, simulations_ = 0;  // of the actions that may be searched
  int num_waiting_ = 0;                       // paths

 private:
  static constexpr int kPliesFollowed = 8, kPositionsLookedAt = 20000;

  void set_root(const Position& position) {
    root_ = position;
    root_actions_.resize(size_t(rules_->max_legal_actions()));
    root_actions_.resize(rules_->is_terminal(root_) ? 0 : size_t(rules_->legal_actions(root_, root_actions_.data())));
    was_allowed_.assign(root_actions_.size(), 1);
    set_limits(limit_, {});
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
    tree_.for_children(tree_[at], [&](std::uint32_t below, const Node& child) {
      if (is_found) return;
      Position next = here;
      rules_->play(next, child.action);
      moves.push_back(child.action);
      is_found = find(wanted, next, below, plies - 1, moves, looked_at);
      if (!is_found) moves.pop_back();
    });
    return is_found;
  }

  void read_priors(const Node& root, std::vector<float>& priors) const {
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
      tree_.for_children(tree_[at], [&](std::uint32_t number, const Node& child) {
        if (child.visits > 0 && (best == kNothing || is_better(child, tree_[best]))) best = number;
      });
      if (best == kNothing) return;
      actions.push_back(tree_[best].action), visits.push_back(tree_[best].visits);
      at = best;
    }
  }

  static bool is_better(const Node& a, const Node& b) {
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
    for (size_t i = 0; i < weights.size(); ++i)
      if (!is_allowed_[i]) weights[i] = 0;
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
};

}  // namespace shusaku
