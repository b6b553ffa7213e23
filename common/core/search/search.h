// One search of one position: select a leaf, expand it with an evaluation from outside, back its value up.
//
// A simulation is one such pass; the evaluation of the root comes before the first and is none.  The variation is the
// tree policy P: make_ready, begin, select_root, select_interior, conclude; kUsesNetwork; kSimulates: false if the
// evaluation of the root is all there is; kSharesNodes: a graph (graph.h); kKnowsWaiting: several paths may wait.
#pragma once

#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "search/end_value.h"
#include "search/graph.h"
#include "search/move_choice.h"
#include "search/options.h"
#include "search/random.h"
#include "search/rollout.h"
#include "search/tree.h"

namespace shusaku {

enum class Step {
  kLeaf,    // leaf() waits for expand()
  kDone,    // all simulations were made
  kPaused,  // the simulations of this call are used up, or the next leaf waits for the network already
};

// From the root to a leaf.
struct Path {
  std::vector<std::uint32_t> nodes, edges;  // edges[k] leads from nodes[k] to nodes[k + 1]
  std::vector<std::int8_t> players;         // to move at nodes[k], if players do not alternate
  size_t depth = 0;                         // of the leaf
};

struct Nothing {};

// The position at the leaf and its legal actions, and what a rollout from there and a solved ending need.
template <GameRules G>
struct LeafPlace {
  // `rollout_file`: of a rollout policy; empty: rollouts are uniform.
  explicit LeafPlace(const G& rules, const std::string& rollout_file = {}, int solved_empties = 0)
      : rollouts(rules, rollout_file),
        actions(size_t(padded(rules.max_legal_actions()))),
        logits(actions.size()),
        endings(std::make_shared<EndingSolver<G>>(rules, solved_empties)) {}
  Rollouts<G> rollouts;
  typename G::Position position{};
  std::vector<Action> actions;
  std::vector<std::uint16_t> logits;         // of a rollout
  std::shared_ptr<EndingSolver<G>> endings;  // of all searches of a thread
};

// Large positions (Go: 4 KiB) are not kept beside every search: all searches use one place in turns, which stays in the
// nearest cache.  So the leaf has to be read before another search runs.
template <GameRules G>
constexpr bool kSharesPlace = sizeof(typename G::Position) > 512;

template <GameRules G, class P>
class Search {
 public:
  using Position = typename G::Position;
  static constexpr bool kUsesNetwork = P::kUsesNetwork;

  Search(const G& rules, const SearchOptions& options, LeafPlace<G>& shared)
      : rules_(&rules),
        options_(&options),
        policy_(options),
        keeps_squares_(options.move_choice == "lcb"),
        place_(place_from(shared)),
        path_(new_path()) {}

  // Starts afresh at `root`, which is not terminal.
  void begin(const Position& root, std::uint64_t seed, Budget budget) {
    set_root(root, seed, budget);
    tree_.clear();
    if constexpr (P::kSharesNodes) index_.clear();
  }

  // Starts at the position after `action`, and keeps the subtree below it if options.reuse is set.
  void begin_after(Action action, const Position& root, std::uint64_t seed, Budget budget) {
    if (options_->reuse && !P::kSharesNodes) {  // a subtree could be cut off, a part of a graph not
      const Node& old = tree_.nodes[0];
      for (std::uint32_t e = old.first_edge(); e < old.first_edge() + old.num_edges; ++e) {
        if (tree_.action(e) != action || !spare_.keep_subtree(tree_, e)) continue;
        std::swap(tree_, spare_);
        set_root(root, seed, budget);
        begin_policy();
        return;
      }
    }
    begin(root, seed, budget);
  }

  // Makes simulations until a leaf needs an evaluation, all are made or `simulations_left` of them were made in this
  // call.  With none to make, the root alone is evaluated.
  Step run(int& simulations_left, std::uint64_t& terminals) {
    while (!is_over()) {
      if (tree_.nodes[0].is_expanded() && --simulations_left < 0) return Step::kPaused;
      descend();
      const Node& leaf = tree_.nodes[path_.nodes[path_.depth]];
      if (leaf.is_terminal_or_proven) {
        ++terminals;
        ++simulations_;
        if (!P::kSharesNodes && leaf.proof && leaf.visits == 0)
          backup_proof();
        else
          backup(leaf.exact_value());
      } else if constexpr (P::kUsesNetwork) {
        if (leaf.waiting) return Step::kPaused;
        return Step::kLeaf;
      } else {
        evaluate_by_rollout();
      }
    }
    return Step::kDone;
  }

  // Both are valid until another search runs, if the searches share one place.
  const Position& leaf() const { return place().position; }
  const Action* leaf_actions() const { return place().actions.data(); }
  int num_leaf_actions() const { return tree_.nodes[path_.nodes[path_.depth]].num_edges; }

  // `logits` of the legal actions in half floats, padded with anything finite to a multiple of eight.
  void expand(const std::uint16_t* logits, float value) {
    Node& node = tree_.nodes[path_.nodes[path_.depth]];
    if (P::kKnowsWaiting && node.is_terminal_or_proven) return end_at_proof(node);
    node.raw_value = value;
    tree_.set_logits(node, logits);
    const bool is_root = path_.depth == 0;
    backup(value);
    if (is_root)
      begin_policy();
    else
      ++simulations_;
  }

  Path new_path() const {
    const size_t nodes = size_t(rules_->max_plies()) + 1;
    return {std::vector<std::uint32_t>(nodes), std::vector<std::uint32_t>(nodes),
            std::vector<std::int8_t>(G::kAlternates ? 0 : nodes)};
  }

  // Parks the path to the leaf until its evaluation is here; `parked` gives a path to write to in exchange.  A parked
  // path counts for the selection only: it changes no value, so it leaves nothing behind.
  void park(Path& parked) {
    count_waiting(1);
    std::swap(path_, parked);
  }

  // Resumes it, to be expanded.  If a node of it was proven meanwhile, the path ends there.
  void resume(Path& parked) {
    std::swap(path_, parked);
    count_waiting(-1);
    for (size_t k = 0; k < path_.depth; ++k)
      if (tree_.nodes[path_.nodes[k]].is_terminal_or_proven) path_.depth = k;
  }

  bool is_waiting() const { return num_waiting_ > 0; }

  // Whether the result of every action at the root is known without a search.
  bool is_root_solved() const {
    return options_->proven_results && options_->score_share == 0 && place().endings->solves(root_);
  }

  void conclude(SearchResult& result) {
    constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
    const Node& root = tree_.nodes[0];
    const bool is_solved = P::kUsesNetwork && is_root_solved();
    result.clear();
    result.value = tree_.mean_value(root);
    result.raw_value = root.raw_value;
    result.proven_value = root.proof ? float(root.result()) : kUnknown;
    for (std::uint32_t e = root.first_edge(); e < root.first_edge() + root.num_edges; ++e) {
      const int visits = tree_.visits(e);
      result.actions.push_back(tree_.action(e));
      result.visits.push_back(visits);
      result.q_values.push_back(visits ? tree_.mean_value(e) : kUnknown);
      int proven = 0;
      if (tree_.is_proven(e, proven))
        result.proven_values.push_back(float(proven));
      else
        result.proven_values.push_back(is_solved ? float(solved_result(tree_.action(e))) : kUnknown);
    }
    policy_.conclude(tree_, rules_->ply(root_), seed_, result);
    if (is_solved) conclude_solved(result);
    result.surprise = kl_divergence(result.policy, result.prior);
  }

  // After a network has run, no cache holds any of a search.  Prefetches what run() or expand() will read, `ahead` (3,
  // 2, 1) turns of other searches before: each turn reads only what the turn before has prefetched.
  void prefetch_run(int ahead) const {
    if (ahead == 3) {
      prefetch_until(this, &root_);
      prefetch(&root_, std::min(sizeof root_, kPositionPrefetched));
      prefetch(&seed_, 2 * sizeof path_);
      if constexpr (!kSharesPlace<G>) prefetch(&place_.actions, sizeof place_.actions);
    } else if (ahead == 2) {
      tree_.prefetch_root();
    } else {
      tree_.prefetch_edges(tree_.nodes[0]);
    }
  }
  void prefetch_expand(int ahead) const {
    if (ahead == 3) {
      prefetch(&tree_, sizeof tree_);
      prefetch(&seed_, 2 * sizeof path_);
    } else if (ahead == 2) {
      tree_.prefetch_root();
      prefetch(path_.nodes.data(), 4 * path_.depth);
      prefetch(path_.edges.data(), 4 * path_.depth);
    } else {
      for (size_t k = 0; k < path_.depth; ++k) tree_.prefetch_edge(path_.edges[k]);
      tree_.prefetch_edges(tree_.nodes[path_.nodes[path_.depth]]);
    }
  }

  const Tree& tree() const { return tree_; }
  const Position& root() const { return root_; }

  template <class Archive>
  void archive(Archive& a) {
    a.number(root_), a.number(seed_), a.number(budget_.simulations), a.number(budget_.is_full), a.number(simulations_);
    tree_.archive(a);
    if constexpr (P::kSharesNodes) index_.archive(a);
    policy_.archive(a);
  }

 private:
  static constexpr size_t kPositionPrefetched = 2048;  // bytes; the rest is history, which is read seldom

  using Place = std::conditional_t<kSharesPlace<G>, LeafPlace<G>*, LeafPlace<G>>;
  static Place place_from(LeafPlace<G>& shared) {
    if constexpr (kSharesPlace<G>)
      return &shared;
    else
      return shared;
  }
  LeafPlace<G>& place() {
    if constexpr (kSharesPlace<G>)
      return *place_;
    else
      return place_;
  }
  const LeafPlace<G>& place() const { return const_cast<Search*>(this)->place(); }

  void set_root(const Position& root, std::uint64_t seed, Budget budget) {
    root_ = root, seed_ = seed, budget_ = budget;
    simulations_ = num_waiting_ = 0;
  }

  bool is_over() const {
    const Node& root = tree_.nodes[0];
    if constexpr (P::kSimulates)
      return (root.is_expanded() && simulations_ + num_waiting_ >= budget_.simulations) || root.proof;
    else
      return root.is_expanded();
  }

  void make_ready(Node& node) {
    policy_.make_ready(tree_, node);
    node.stage = Stage::kReady;
  }

  // The root has its evaluation.
  void begin_policy() {
    if (tree_.nodes[0].stage == Stage::kEvaluated) make_ready(tree_.nodes[0]);
    policy_.begin(tree_, rules_->ply(root_), seed_, budget_);
  }

  // Descends from the root to a node without evaluation, or to a terminal or proven one; adds edges to a new node.
  void descend() {
    Position& leaf = place().position;
    copy_position(*rules_, root_, leaf);
    std::uint32_t at = 0;
    for (path_.depth = 0;; ++path_.depth) {
      path_.nodes[path_.depth] = at;
      if constexpr (!G::kAlternates) path_.players[path_.depth] = std::int8_t(rules_->to_play(leaf));
      Node& node = tree_.nodes[at];
      if (node.is_terminal_or_proven) return;
      if (node.stage != Stage::kReady) {
        if (node.stage == Stage::kNew) break;
        make_ready(node);
      }
      const int choice = at == 0 ? policy_.select_root(tree_, node) : policy_.select_interior(tree_, node);
      const std::uint32_t edge = node.first_edge() + std::uint32_t(choice);
      path_.edges[path_.depth] = edge;
      rules_->play(leaf, tree_.action(edge));
      at = tree_.child(edge);
      if (at == kNoNode) {
        node.visited_prior += from_half(tree_.prior(edge));
        at = tree_.child(edge) = add_leaf();
      }
    }
    const Action* actions = place().actions.data();
    const int count = rules_->legal_actions(leaf, place().actions.data());
    assert(count > 0);
    if (tree_.nodes[at].num_edges == 0) {
      tree_.add_edges(at, count);
      EdgeBlock* blocks = tree_.blocks(tree_.nodes[at]);
      for (int i = 0; i < count; i += kLanes)
        std::memcpy(blocks[i / kLanes].action, actions + i, sizeof blocks->action);
    }
  }

  // The node of the leaf, which no path has reached along this edge so far.
  std::uint32_t add_leaf() {
    bool moves_again = false;
    if constexpr (!G::kAlternates) moves_again = rules_->to_play(leaf()) == path_.players[path_.depth];
    if constexpr (P::kSharesNodes) {  // ply and player count beside the game's key, so no path runs in a circle
      const std::uint64_t key =
          combine(rules_->transposition_key(leaf()), std::uint64_t(2 * rules_->ply(leaf()) + moves_again));
      const std::uint32_t next = std::uint32_t(tree_.nodes.size()), known = index_.find_or_add(key, next);
      if (known != next) return known;
    }
    const std::uint32_t at = tree_.add_node();
    tree_.nodes[at].moves_again = moves_again;
    mark_end(*rules_, *options_, *place().endings, leaf(), tree_.nodes[at]);
    return at;
  }

  void count_waiting(int paths) {
    num_waiting_ += paths;
    for (size_t k = 0; k <= path_.depth; ++k) tree_.nodes[path_.nodes[k]].waiting += std::uint16_t(paths);
    for (size_t k = 0; k < path_.depth; ++k) tree_.add_waiting(path_.edges[k], paths);
  }

  [[gnu::noinline]] void end_at_proof(const Node& node) {
    backup(node.exact_value());
    ++simulations_;
  }

  // `value` is for the player to move at the end of the path.
  void backup(float value) {
    if (P::kSharesNodes)
      backup_shared(value);
    else if (keeps_squares_)
      backup_as<true>(value);
    else
      backup_as<false>(value);
  }

  template <bool kSquares>
  void backup_as(float value) {
    for (size_t k = path_.depth;; --k) {
      Node& node = tree_.nodes[path_.nodes[k]];
      ++node.visits;
      node.value_sum += value;
      if constexpr (kSquares) node.square_sum += value * value;
      if (k == 0) return;
      if (G::kAlternates || path_.players[k] != path_.players[k - 1]) value = -value;
      tree_.visit(path_.edges[k - 1], value);
    }
  }

  // In a graph: visits go up, and values are summed up on the way.
  void backup_shared(float value) {
    Node& leaf = tree_.nodes[path_.nodes[path_.depth]];
    ++leaf.visits;
    leaf.value_sum = value * float(leaf.visits), leaf.square_sum = value * value * float(leaf.visits);
    for (size_t k = path_.depth; k-- > 0;) {
      tree_.visit(path_.edges[k], 0.f);
      Node& node = tree_.nodes[path_.nodes[k]];
      ++node.visits;
      sum_up(tree_, node, options_->proven_results);
    }
  }

  // Backs up the new result of the leaf and proves the nodes above it that follow: MCTS-Solver (Winands, Bjornsson and
  // Saito 2008, section 3), with draws.  Above a proven node its result is backed up.
  [[gnu::noinline]] void backup_proof() {
    bool is_new = true;
    float value = 0;
    for (size_t k = path_.depth;; --k) {
      Node& node = tree_.nodes[path_.nodes[k]];
      if (k < path_.depth && is_new) is_new = prove(node, path_.edges[k]);
      ++node.visits;
      if (is_new) {
        value = float(node.result());
        node.value_sum = value * float(node.visits), node.square_sum = value * value * float(node.visits);
      } else {
        node.value_sum += value, node.square_sum += value * value;
      }
      if (k == 0) return;
      if (G::kAlternates || path_.players[k] != path_.players[k - 1]) value = -value;
      tree_.visit(path_.edges[k - 1], value);
      if (is_new) tree_.settle(path_.edges[k - 1], int(value));
    }
  }

  // Whether the proof of the child along `edge` settles `node`: a win does, else the best once all are proven.
  [[gnu::noinline]] bool prove(Node& node, std::uint32_t edge) {
    int best = 0;
    [[maybe_unused]] const bool is_proven = tree_.is_proven(edge, best);
    assert(is_proven);
    for (std::uint32_t e = node.first_edge(); best < 1 && e < node.first_edge() + node.num_edges; ++e) {
      int result = 0;
      if (!tree_.is_proven(e, result)) return false;
      best = std::max(best, result);
    }
    node.proof = std::uint8_t(best + 2);
    node.is_terminal_or_proven = true;
    return true;
  }

  // For the player to move at the root, whose ending is solved.
  int solved_result(Action action) {
    Position next = root_;
    rules_->play(next, action);
    return -(rules_->is_terminal(next) ? rules_->outcome(next) : place().endings->solve(next));
  }

  // The results of all actions are known, not only those of the first winning one, so the policy to learn is the prior
  // among the best.
  [[gnu::noinline]] void conclude_solved(SearchResult& result) {
    result.value = result.proven_value = *std::max_element(result.proven_values.begin(), result.proven_values.end());
    result.policy = result.prior;
    keep_best_proven(result, result.policy);
    normalise(result.policy);
    const auto chosen = std::lower_bound(result.actions.begin(), result.actions.end(), result.action);
    if (result.policy[size_t(chosen - result.actions.begin())] == 0)
      result.action = result.actions[size_t(heaviest(result.policy, result.prior))];
  }

  void evaluate_by_rollout() {
    Random random(combine(seed_, 1000 + std::uint64_t(tree_.nodes[0].visits)));
    LeafPlace<G>& here = place();
    for (std::uint16_t& x : here.logits) x = to_half(float(random.uniform()));
    expand(here.logits.data(), here.rollouts.play_out(here.position, random, here.actions.data()));
  }

  const G* rules_;
  const SearchOptions* options_;
  P policy_;
  bool keeps_squares_;
  Tree tree_, spare_;
  Position root_{};
  Place place_;  // of the leaf
  std::uint64_t seed_ = 0;
  Budget budget_;
  std::int32_t simulations_ = 0, num_waiting_ = 0;
  Path path_;  // to the leaf
  [[no_unique_address]] std::conditional_t<P::kSharesNodes, NodeIndex, Nothing> index_;
};

}  // namespace shusaku
