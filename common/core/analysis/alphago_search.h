// AlphaGo's search, APV-MCTS (Silver et al. 2016, Methods, "Searching with policy and value networks"), on a
// GrowingTree: leaves are worth (1 - lambda) of a value network and lambda of rollouts, and a policy network says where
// to search.
//
//   selection   argmax Q + u,  Q = (1 - lambda) W_v / N_v + lambda W_r / N_r,  u = c P sqrt(sum of N_r) / (1 + N_r)
//   leaf        the value network is asked once, after `value_after` rollouts; every visit rolls out, with
//               `virtual_loss` lost games on its path
//   expansion   when a leaf with N_r > expand_after is reached: the rollout policy's probabilities are its priors until
//               the policy network has answered p, then p^beta, normalised
//
// Nothing waits for a network: rollouts go on, and a value is backed up when it comes.  With lambda = 0 there are no
// rollouts: then a leaf waits for its value, counts of backed-up values take the place of N_r, and a leaf that is
// reached again backs up the same value.  With lambda = 1 no value network is asked.
//
// An unvisited action has Q = 0, as the paper's edges begin.  While N_v of an action is zero, W_v / N_v of its parent
// stands in for it, and while that is zero, too, Q is W_r / N_r: a value network is surer of itself than rollouts, so
// an action with its value would otherwise look better than one without wherever the player is ahead, and worse
// wherever that player is behind.  If all of the sum of N_r is zero, the action with the highest prior is taken.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "analysis/growing_search.h"
#include "search/rollout.h"

namespace shusaku {

// What a network has been asked.
enum class Asked : std::uint8_t { kNo, kYes, kAnswered };

// `visits` and `value_sum` are N_r and W_r; or, if there are no rollouts, N_v and W_v.
struct AlphaGoNode : GrowingNode {
  double network_sum = 0;           // W_v
  std::int32_t network_visits = 0;  // N_v
  std::int32_t own_visits = 0;      // of `visits` those that ended here
  std::uint16_t own_waiting = 0;    // of `waiting` those that ended here
  Asked value = Asked::kNo, policy = Asked::kNo;
};
static_assert(sizeof(AlphaGoNode) == 80);

template <GameRules G>
class AlphaGoSearch final : public GrowingSearch<G, AlphaGoNode> {
  using Shared = GrowingSearch<G, AlphaGoNode>;
  using Shared::is_allowed_, Shared::limit_, Shared::num_waiting_, Shared::options_, Shared::root_, Shared::rules_,
      Shared::simulations_, Shared::tree_;
  using typename Shared::Choice;
  using Clock = std::chrono::steady_clock;

 public:
  using Position = typename G::Position;
  using Shared::new_path;
  static constexpr bool kUsesNetwork = false;  // no cache of evaluations, which has logits and value of a position

  AlphaGoSearch(const G& rules, const SearchOptions& options, std::uint64_t seed)
      : Shared(rules, options),
        rollouts_(rules, options.rollout),
        seed_(combine(seed, 0xA160)),
        expand_after_(first_expand_after()),
        priors_(size_t(padded(rules.max_legal_actions()))),
        half_(priors_.size()) {}

  void begin(const Position& position) {
    Shared::begin(position);
    num_rollouts_ = 0;
    expand_after_ = first_expand_after();
    rollout_seconds_ = network_seconds_ = 0;
  }

  bool has_evaluation() const {
    const AlphaGoNode& root = tree_[tree_.root()];
    return root.is_expanded() && (!options_.asks_policy || root.policy == Asked::kAnswered);
  }
  bool is_proven() const { return false; }
  int num_pending() const { return num_pending_; }

  RootReport report() const {
    RootReport r = Shared::report();
    float best = -1;
    for (size_t i = 0; i < r.actions.size(); ++i)
      if (r.visits[i]) best = std::max(best, r.values[i]);
    r.resigns = r.simulations > 0 && best < options_.resign_below;
    return r;
  }

  // Whether any path still counts as visits and lost games; never once all threads have ended.
  bool has_virtual_loss() const {
    bool has = num_waiting_ != 0 || num_pending_ != 0;
    std::vector<std::uint32_t> open{tree_.root()};
    while (!open.empty()) {
      const AlphaGoNode& node = tree_[open.back()];
      open.pop_back();
      has = has || node.waiting || node.own_waiting || node.value == Asked::kYes || node.policy == Asked::kYes;
      tree_.for_children(node, [&](std::uint32_t at, const AlphaGoNode&) { open.push_back(at); });
    }
    return has;
  }

  // What a thread has asked of a network.
  struct Request {
    Path path;           // to the leaf that waits for its value
    std::uint32_t node;  // that waits for its priors
    bool is_for_policy;
  };

  // A position, and those of its actions that the network is asked about: all, or none for its value.
  struct Place {
    static constexpr bool kUsesNetwork = AlphaGoSearch::kUsesNetwork;
    const Position& leaf() const { return position; }
    const Action* leaf_actions() const { return actions.data(); }
    int num_leaf_actions() const { return count; }
    Position position{};
    std::vector<Action> actions;
    int count = 0;
  };

  // One thread: where it walks, and what it asks.  A leaf of the batch with actions is for the policy network, one
  // without for the value network.
  struct Worker {
    Worker(const G& rules, const SearchOptions& options, int leaves, std::uint64_t seed,
           std::shared_ptr<EvaluationCache> cache, const AlphaGoSearch& search)
        : batch(rules, options, leaves, seed, std::move(cache)),
          players(size_t(leaves)),
          path_(search.new_path()),
          requests_(size_t(leaves), Request{search.new_path(), 0, false}) {
      here_.actions.resize(size_t(padded(rules.max_legal_actions())));
    }

    // Simulates until there are `room` leaves, the search is over or the next leaf has to wait; or for a while, then it
    // returns false.  The lock is free while it rolls out.
    template <class IsOver>
    bool fill(AlphaGoSearch& search, std::unique_lock<std::mutex>& lock, int room, IsOver is_over) {
      for (int simulations = 0; simulations < kSimulationsPerFill; ++simulations) {
        if (is_over()) return true;
        if (!search.has_evaluation()) room = std::min(room, 1);  // the root does not wait until a batch is full
        const Walk walk = search.walk(*this, room);
        asked_at_ = Clock::now();
        if (walk == Walk::kRollout) roll_out(search, lock);
        if (walk == Walk::kBlocked || (room > 0 && batch.num_leaves() >= room)) return true;
      }
      return false;
    }
    void answer(AlphaGoSearch& search, int leaf, const std::uint16_t* logits, float value) {
      search.answer(requests_[size_t(leaf)], logits, value);
    }
    void drop(AlphaGoSearch& search, int leaf) { search.drop(requests_[size_t(leaf)]); }
    void end_answers(AlphaGoSearch& search) {
      search.adapt(std::chrono::duration<double>(Clock::now() - asked_at_).count());
    }

    LeafBatch<G, Place> batch;
    std::vector<int> players;  // [leaves] to move there

   private:
    friend AlphaGoSearch;

    void roll_out(AlphaGoSearch& search, std::unique_lock<std::mutex>& lock) {
      Random random(combine(search.seed_, std::uint64_t(search.num_rollouts_++)));
      lock.unlock();
      const Clock::time_point begin = Clock::now();
      const float outcome = search.rollouts_.play_out(here_.position, random, here_.actions.data());
      asked_at_ = Clock::now();
      const double seconds = std::chrono::duration<double>(asked_at_ - begin).count();
      lock.lock();
      search.rollout_seconds_ += seconds;
      search.add_waiting(path_, -1);
      search.back_up(path_, outcome, true, false);
      ++search.simulations_;
    }

    Place here_;
    Path path_;                      // to it
    std::vector<Request> requests_;  // [leaves]
    Clock::time_point asked_at_;     // when it has last left the lock to its evaluator
  };

 private:
  static constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
  static constexpr int kSimulationsPerFill = 64, kFirstExpandAfter = 40, kMostExpandAfter = 1000;
  static constexpr double kKeptSeconds = 0.95;  // of both sums at each answer of a network: about the last twenty count

  enum class Walk {
    kRollout,  // the leaf is to be rolled out from
    kEnded,    // the simulation is over, or waits for its value
    kBlocked,  // nothing can be done until a network answers or another thread comes back
  };

  bool rolls_out() const { return options_.rollout_share > 0; }
  bool mixes() const { return options_.rollout_share > 0 && options_.rollout_share < 1; }

 protected:
  float mean_value(const AlphaGoNode& node) const override { return node.visits ? mix(node, 0, kUnknown) : 0.f; }
  int visits_below(const AlphaGoNode& node) const override { return node.visits - node.own_visits; }
  bool is_kept(const AlphaGoNode& node) const override { return node.visits > 0 && !node.is_terminal_or_proven; }
  bool has_bounds() const override { return false; }

 private:
  // Q of a node with `lost` lost games besides its visits, for the player to move there: for who has moved to it, a
  // lost game is one that this player has won.
  // `stand_in`: its W_v / N_v while N_v is zero.
  float mix(const AlphaGoNode& node, int lost, float stand_in) const {
    const float sum = float(node.value_sum) + (node.moves_again ? -float(lost) : float(lost));
    const float simulated = sum / float(std::max(1, node.visits + lost));
    const float network = node.network_visits ? network_mean(node) : stand_in;
    if (!mixes() || std::isnan(network)) return simulated;
    return (1.f - options_.rollout_share) * network + options_.rollout_share * simulated;
  }

  static float network_mean(const AlphaGoNode& node) {
    return node.network_visits ? float(node.network_sum) / float(node.network_visits) : kUnknown;
  }

  // One simulation, up to its rollout.
  Walk walk(Worker& worker, int room) {
    Place& here = worker.here_;
    Path& path = worker.path_;
    copy_position(*rules_, root_, here.position);
    std::uint32_t at = tree_.root();
    for (path.depth = 0;; ++path.depth) {
      path.nodes[path.depth] = at;
      if constexpr (!G::kAlternates) path.players[path.depth] = std::int8_t(rules_->to_play(here.position));
      AlphaGoNode& node = tree_[at];
      const bool is_root = path.depth == 0;
      if (node.is_terminal_or_proven) {
        ++worker.batch.counters.terminals;
        back_up(path, node.raw_value, true, mixes());
        ++simulations_;
        return Walk::kEnded;
      }
      if (!node.is_expanded()) {
        if (!is_root && node.visits <= expand_after_) return end_at(node, worker, room);
        expand(node, here);
      }
      if (options_.asks_policy && node.policy == Asked::kNo && worker.batch.num_leaves() < room) {
        here.count = rules_->legal_actions(here.position, here.actions.data());
        ask(worker).node = at;
        node.policy = Asked::kYes;
        if (worker.batch.num_leaves() >= room) return Walk::kEnded;  // before anything is counted
      }
      if (is_root && simulations_ + num_waiting_ >= limit_) return Walk::kBlocked;
      const auto [edge, child] = select(node, is_root);
      if (child != kNothing) {
        rules_->play(here.position, tree_[child].action);
        at = child;
      } else {
        at = this->add_leaf(at, edge, here.position, here.actions.data(), path);
      }
    }
  }

  // The path of the worker ends at this leaf.
  Walk end_at(AlphaGoNode& leaf, Worker& worker, int room) {
    const bool may_ask = worker.batch.num_leaves() < room, is_new = leaf.value == Asked::kNo;
    if (!rolls_out()) {
      if (leaf.value == Asked::kAnswered) {
        back_up(worker.path_, leaf.raw_value, true, false);
        ++simulations_;
        return Walk::kEnded;
      }
      if (!is_new || !may_ask) return Walk::kBlocked;
    }
    if (!rolls_out() || (mixes() && leaf.visits >= options_.value_after)) {
      if (is_new && may_ask) ask_value(leaf, worker);
    }
    add_waiting(worker.path_, 1);
    return rolls_out() ? Walk::kRollout : Walk::kEnded;
  }

  void ask_value(AlphaGoNode& leaf, Worker& worker) {
    worker.here_.count = 0;
    copy_path(worker.path_, ask(worker).path);
    leaf.value = Asked::kYes;
  }

  static void copy_path(const Path& from, Path& to) {
    to.depth = from.depth;
    std::copy_n(from.nodes.begin(), from.depth + 1, to.nodes.begin());
    if constexpr (!G::kAlternates) std::copy_n(from.players.begin(), from.depth + 1, to.players.begin());
  }

  // The position of the worker, with its actions or without.
  Request& ask(Worker& worker) {
    const size_t leaf = size_t(worker.batch.num_leaves());
    worker.batch.add(worker.here_, 0);
    worker.players[leaf] = rules_->to_play(worker.here_.position);
    worker.requests_[leaf].is_for_policy = worker.here_.count > 0;
    ++num_pending_;
    return worker.requests_[leaf];
  }

  void answer(Request& request, const std::uint16_t* logits, float value) {
    --num_pending_;
    if (request.is_for_policy) return set_priors(tree_[request.node], logits);
    AlphaGoNode& leaf = tree_[request.path.nodes[request.path.depth]];
    leaf.value = Asked::kAnswered;
    leaf.raw_value = value;
    if (!rolls_out()) add_waiting(request.path, -1), ++simulations_;
    back_up(request.path, value, !rolls_out(), rolls_out());
  }

  // No answer comes: the node asks again when it is reached the next time.
  void drop(Request& request) {
    --num_pending_;
    if (request.is_for_policy) {
      tree_[request.node].policy = Asked::kNo;
      return;
    }
    tree_[request.path.nodes[request.path.depth]].value = Asked::kNo;
    if (!rolls_out()) add_waiting(request.path, -1);
  }

  // The probabilities of the rollout policy, until the policy network has answered.
  void expand(AlphaGoNode& node, Place& here) {
    const int count = rules_->legal_actions(here.position, here.actions.data());
    rollouts_.priors(here.position, here.actions.data(), count, priors_.data());
    for (int i = 0; i < count; ++i) half_[size_t(i)] = to_half(priors_[size_t(i)]);
    tree_.set_logits(node, half_.data(), count);
    node.stage = Stage::kReady;  // they are probabilities already
  }

  // p^beta, normalised.
  void set_priors(AlphaGoNode& node, const std::uint16_t* logits) {
    for (int i = 0; i < node.num_edges; ++i) priors_[size_t(i)] = options_.prior_power * from_half(logits[i]);
    Tree::softmax(priors_.data(), node.num_edges);
    tree_.replace_priors(node, priors_.data());
    node.policy = Asked::kAnswered;
  }

  Choice select(const AlphaGoNode& node, bool is_root) const {
    const int loss = options_.virtual_loss;
    const int visits = visits_below(node) + loss * (node.waiting - node.own_waiting);
    const float scale = options_.c_alphago * std::sqrt(float(std::max(1, visits)));
    const float above = network_mean(node);
    Choice best = this->best_unvisited(node, 0.f, scale, is_root);
    float highest = best.edge < 0 ? -kInfinity : scale * from_half(tree_.priors(node)[best.edge]);
    tree_.for_children(node, [&](std::uint32_t at, const AlphaGoNode& child) {
      if (is_root && !is_allowed_[child.edge]) return;
      const int lost = loss * child.waiting;
      const float q = child.moves_again ? mix(child, lost, above) : -mix(child, lost, -above);
      const float score = q + scale * from_half(child.prior) / (1.f + float(child.visits + lost));
      if (best.edge >= 0 && (score < highest || (score == highest && child.edge > best.edge))) return;
      highest = score, best = {child.edge, at};
    });
    return best;
  }

  void add_waiting(const Path& path, int paths) {
    num_waiting_ += paths;
    for (size_t k = 0; k <= path.depth; ++k) {
      AlphaGoNode& node = tree_[path.nodes[k]];
      node.waiting = std::uint16_t(node.waiting + paths);
    }
    AlphaGoNode& leaf = tree_[path.nodes[path.depth]];
    leaf.own_waiting = std::uint16_t(leaf.own_waiting + paths);
  }

  // `value` is for the player to move at the end of the path; it counts as a simulation, as a network's, or as both.
  void back_up(const Path& path, float value, bool as_simulation, bool as_network) {
    tree_[path.nodes[path.depth]].own_visits += as_simulation;
    for (size_t k = path.depth;; --k) {
      AlphaGoNode& node = tree_[path.nodes[k]];
      if (as_simulation) ++node.visits, node.value_sum += double(value);
      if (as_network) ++node.network_visits, node.network_sum += double(value);
      if (k == 0) return;
      if (this->turns(path, k)) value = -value;
    }
  }

  // search.expand_after=auto: leaves are expanded later while the threads spend more time in networks than in rollouts,
  // and sooner while they spend less (the paper's rule: as fast as the policy network answers).  Of late, for rollouts
  // become shorter in the course of a game.  Never before value_after: a leaf that has children is asked nothing more.
  void adapt(double network_seconds) {
    network_seconds_ += network_seconds;
    if (options_.expand_after > 0) return;
    const int wanted = expand_after_ + (network_seconds_ > rollout_seconds_ ? 1 : -1), least = least_expand_after();
    expand_after_ = std::clamp(wanted, least, std::max(least, kMostExpandAfter));
    network_seconds_ *= kKeptSeconds, rollout_seconds_ *= kKeptSeconds;
  }

  int least_expand_after() const { return std::max(1, options_.value_after); }
  int first_expand_after() const {
    return options_.expand_after > 0 ? options_.expand_after : std::max(kFirstExpandAfter, least_expand_after());
  }

  Rollouts<G> rollouts_;
  std::uint64_t seed_;
  std::int64_t num_rollouts_ = 0;
  int num_pending_ = 0;  // questions without an answer
  int expand_after_;
  double rollout_seconds_ = 0, network_seconds_ = 0;  // of all threads
  std::vector<float> priors_;                         // scratch
  std::vector<std::uint16_t> half_;                   // scratch
};

}  // namespace shusaku
