// Games of self-play side by side.  Slot s plays its k-th game with randomness that comes from (seed, s, k, ply) alone,
// and where it branches off, it does so from its (k - 1)-th: what a game is does not depend on the other slots, on the
// cache or on when the program was stopped and resumed.  (But for resignation: the slots share its threshold.)
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "search/archive.h"
#include "search/leaf_batch.h"
#include "search/resignation.h"
#include "search/search_batch.h"
#include "search/self_play_options.h"

namespace shusaku {

// The columns of one game, as in common/messages.py, GameRecord.
struct GameColumns {
  std::vector<Action> actions;
  std::vector<std::uint32_t> policy_offsets{0};  // then where the policy of each row ends
  std::vector<Action> policy_actions;
  std::vector<std::uint16_t> policy_shares;
  std::vector<float> root_values, raw_values;
  std::vector<std::uint32_t> versions;
  std::vector<std::uint8_t> kind;
  std::vector<float> row_weight, surprise;
  int outcome = 0;         // for the first player
  float score = kNoScore;  // for the first player
  float komi = kNoKomi;    // of this game, where it was drawn
  bool is_cut_off = false, is_resigned = false;

  template <class Archive>
  void archive(Archive& a) {
    a.vector(actions), a.vector(policy_offsets), a.vector(policy_actions), a.vector(policy_shares);
    a.vector(root_values), a.vector(raw_values), a.vector(versions), a.vector(kind), a.vector(row_weight);
    a.vector(surprise), a.number(komi);
  }
};

enum RowKind : std::uint8_t { kOpening = 0, kFull = 1, kCheap = 2 };

// Shares of 65,535 that sum to it: rounded down, and what is missing goes to the largest one.
inline void to_shares(const std::vector<float>& policy, std::vector<std::uint16_t>& shares) {
  double total = 0;
  for (float p : policy) total += p;
  shares.clear();
  int missing = 65535;
  for (float p : policy) {
    shares.push_back(std::uint16_t(double(p) / total * 65535.0));
    missing -= shares.back();
  }
  *std::max_element(shares.begin(), shares.end()) += std::uint16_t(missing);
}

template <GameRules G, class P>
class GameBatch {
 public:
  using Position = typename G::Position;

  GameBatch(const G& rules, const SearchOptions& options, const SelfPlayOptions& self_play, int size,
            std::uint64_t seed)
      : rules_(&rules),
        options_(options),
        self_play_(self_play),
        seed_(seed),
        batch_(rules, options_, size, seed),
        resign_(self_play.resign_errors),
        place_(rules),
        legal_(size_t(rules.max_legal_actions())) {
    if (options.leaves > 1)
      throw std::invalid_argument("search.leaves=" + std::to_string(options.leaves) +
                                  ": self-play walks to one leaf a game at a time; use search.leaves=1");
    if (options.average_symmetries)
      throw std::invalid_argument(
          "search.average_symmetries=true: self-play draws one symmetry for every leaf; use "
          "search.average_symmetries=false");
    if (self_play.komi_stdev > 0 && !HasKomi<G>)
      throw std::invalid_argument("komi_stdev " + std::to_string(self_play.komi_stdev) + ": " + name_of(rules) +
                                  " has no komi to be drawn; use 0");
    for (int s = 0; s < size; ++s) {
      slots_.push_back({.search = Search<G, P>(rules, options_, place_), .position = rules.start()});
      start_game(s);
    }
  }
  GameBatch(const GameBatch&) = delete;

  const Leaves& select(std::uint32_t version) {
    batch_.clear(version);
    version_ = version;
    // In rounds: all walk to a leaf, and only then the cache is asked, which had to be brought from far away.
    walking_.resize(slots_.size()), simulations_left_.assign(slots_.size(), kSimulationsPerSelect);
    std::iota(walking_.begin(), walking_.end(), 0);
    const bool may_walk_ahead = batch_.may_walk_ahead();
    while (!walking_.empty()) {
      size_t at_leaf = 0;
      for (size_t i = 0; i < walking_.size(); ++i) {
        for (int ahead = 3; ahead > 0; --ahead)
          if (i + size_t(ahead) < walking_.size())
            slots_[size_t(walking_[i + size_t(ahead)])].search.prefetch_run(ahead);
        const int s = walking_[i];
        Step step = Step::kDone;
        for (int& simulations_left = simulations_left_[size_t(s)]; simulations_left-- > 0;) {
          Search<G, P>& search = slots_[size_t(s)].search;
          step = may_walk_ahead ? batch_.walk(search, s, simulations_left) : batch_.run(search, s, simulations_left);
          if (step != Step::kDone) break;
          move(s);
        }
        if (step == Step::kLeaf && may_walk_ahead) walking_[at_leaf++] = s;
      }
      walking_.resize(at_leaf);
      std::erase_if(walking_, [&](int s) { return !batch_.expand_known(slots_[size_t(s)].search, s); });
    }
    return batch_.leaves;
  }

  void expand_and_backup(const float* logits, const float* values, std::uint32_t version) {
    batch_.take(
        logits, values, version,
        [&](int, int s, const std::uint16_t* l, float v) {
          Slot& slot = slots_[size_t(s)];
          if (!slot.search.tree().nodes[0].is_expanded()) slot.root_version = version;
          slot.search.expand(l, v);
        },
        [&](int, int s) { start_game(s); },  // a game with a broken evaluation is dropped and counted
        [&](int s, int ahead) { slots_[size_t(s)].search.prefetch_expand(ahead); });
  }

  int size() const { return int(slots_.size()); }
  const Leaves& leaves() const { return batch_.leaves; }
  int num_finished() const { return int(finished_.size()); }
  std::vector<GameColumns> take_finished() { return std::exchange(finished_, {}); }

  Counters counters() const {
    Counters c = batch_.counters;
    c.simulations = c.evaluations + c.cache_hits + c.terminals;
    return c;
  }

  float resign_value() const { return resign_.value(); }

  // Only between expand_and_backup() and select().
  std::string snapshot() {
    Writer games;
    games.number(fingerprint());
    resign_.archive(games);
    for (Slot& slot : slots_) archive(games, slot);
    Writer whole;
    whole.number(checksum(games.bytes));
    return whole.bytes + games.bytes;
  }

  void restore(std::string_view bytes) {
    Reader r(bytes);
    std::uint64_t sum = 0, theirs = 0;
    r.number(sum);
    if (sum != checksum(bytes.substr(sizeof sum)))  // indices inside are trusted once this holds
      throw std::invalid_argument("the snapshot of the open games is damaged or cut short");
    r.number(theirs);
    if (theirs != fingerprint())
      throw std::invalid_argument("the open games were saved under another game, search or number of games");
    resign_.archive(r);
    for (Slot& slot : slots_) archive(r, slot);
    if (!r.is_empty()) throw std::invalid_argument("the snapshot of the open games is longer than it should be");
  }

 private:
  static constexpr int kNoAction = -1, kNobody = -1;
  static constexpr std::uint64_t kForkStream = ~0ull,
                                 kKomiStream = ~1ull;  // of a game; those of plies are small numbers

  struct Slot {
    Search<G, P> search;
    Position position;
    GameColumns columns = {};
    std::uint64_t games = 0;           // started in this slot
    std::uint32_t root_version = 0;    // of the weights that evaluated the root of the running search
    std::int32_t policy_plies = 0;     // still to be drawn from the network's policy
    std::int32_t avoided = kNoAction;  // by the first of them: what was played there before
    float weight = 0;                  // of the row of the running search
    bool may_resign = false;
    std::int8_t loser = kNobody;     // who resigns
    float lowest[2] = {1.f, 1.f};    // value that each player saw when to move
    std::vector<float> values = {};  // of every ply, for the first player; NaN in the opening
  };

  std::uint64_t game_seed(int s) const { return combine(combine(seed_, std::uint64_t(s)), slots_[size_t(s)].games); }
  std::uint64_t search_seed(int s) const {
    return combine(game_seed(s), 1 + std::uint64_t(rules_->ply(slots_[size_t(s)].position)));
  }

  // `line`: what `sample_fork` said of the game before.
  void start_game(int s, const std::vector<Action>& line = {}) {
    Slot& slot = slots_[size_t(s)];
    ++slot.games;
    Random random(combine(game_seed(s), 0));
    if (!branch_off(s, line)) open(s, random);
    slot.loser = kNobody;
    slot.lowest[0] = slot.lowest[1] = 1.f;
    slot.may_resign = resign_.is_on() && random.uniform() >= self_play_.never_resign_share;
    begin_search(s, kNoAction);
  }

  void set_up(int s) {
    Slot& slot = slots_[size_t(s)];
    slot.position = rules_->start();
    slot.columns = {};
    slot.values.clear();
    if constexpr (HasKomi<G>) {
      if (self_play_.komi_stdev <= 0) return;
      slot.columns.komi = sample_komi(rules_->komi(slot.position), Random(combine(game_seed(s), kKomiStream)));
      rules_->set_komi(slot.position, slot.columns.komi);
    }
  }

  // Normal around `mean`, cut off at three standard deviations, in half points (KataGo, cpp/program/playutils.cpp; Wu
  // 2019, appendix on the variety of games).
  float sample_komi(float mean, Random random) const
    requires HasKomi<G>
  {
    double x = 0;
    do x = random.normal();
    while (std::fabs(x) > 3);
    const float komi = float(std::round(2 * (double(mean) + double(self_play_.komi_stdev) * x)) / 2);
    return G::is_komi(komi) ? komi : mean;
  }

  void open(int s, Random& random) {
    Slot& slot = slots_[size_t(s)];
    do {  // again, where the opening happened to end the game
      set_up(s);
      const auto plies = random.below(std::uint64_t(self_play_.random_plies) + 1);
      for (std::uint64_t k = 0; k < plies && !rules_->is_terminal(slot.position); ++k)
        add_row(slot, sample_action(*rules_, slot.position, random, legal_.data()), kOpening);
    } while (rules_->is_terminal(slot.position));
    slot.policy_plies = self_play_.policy_plies > 0 ? int(-std::log(random.uniform()) * self_play_.policy_plies) : 0;
    slot.avoided = kNoAction;
  }

  // Plays all of `line` but its last action, which the network's policy then replaces by another one.  False where
  // there is no line, or no other action.
  bool branch_off(int s, const std::vector<Action>& line) {
    if (line.empty()) return false;
    Slot& slot = slots_[size_t(s)];
    set_up(s);
    for (size_t k = 0; k + 1 < line.size(); ++k) add_row(slot, line[k], kOpening);
    slot.policy_plies = 1;
    slot.avoided = line.back();
    return rules_->legal_actions(slot.position, legal_.data()) > 1;
  }

  // The first plies of a game that has ended, up to one of them: its slot's next game branches off before the last of
  // these.  None, where that begins afresh (KataGo, cpp/program/play.cpp, maybeForkGame).
  std::vector<Action> sample_fork(int s) const {
    if (self_play_.fork_share <= 0) return {};
    Random random(combine(game_seed(s), kForkStream));
    if (random.uniform() >= self_play_.fork_share) return {};
    const std::vector<Action>& played = slots_[size_t(s)].columns.actions;
    const std::uint64_t choices = std::min(std::uint64_t(played.size()), std::uint64_t(self_play_.fork_plies) + 1);
    return {played.begin(), played.begin() + std::ptrdiff_t(random.below(choices)) + 1};
  }

  // Of the position of the slot, reached by `action`.
  void begin_search(int s, int action) {
    Slot& slot = slots_[size_t(s)];
    slot.root_version = version_;
    const Budget budget = choose_budget(s);
    if (action == kNoAction)
      slot.search.begin(slot.position, search_seed(s), budget);
    else
      slot.search.begin_after(Action(action), slot.position, search_seed(s), budget);
  }

  // Most searches may be cheap ones that only move on (playout cap randomization, Wu 2019, section 3.1); full ones cost
  // and count less where the game is decided (KataGo, cpp/program/play.cpp, reduceVisits).
  Budget choose_budget(int s) {
    Slot& slot = slots_[size_t(s)];
    if (slot.policy_plies > 0) return {0, false};
    Random random(combine(search_seed(s), 3));
    slot.weight = 0.f;
    if (self_play_.cheap_share > 0 && random.uniform() < self_play_.cheap_share)
      return {self_play_.cheap_simulations, false};
    slot.weight = 1.f;
    if (self_play_.decided_value >= 1.f) return {options_.simulations, true};
    const float beyond = std::max(0.f, decided(slot) - self_play_.decided_value) / (1.f - self_play_.decided_value);
    const float less = beyond * beyond;
    slot.weight += less * (self_play_.decided_weight - slot.weight);
    return {std::int32_t(std::lround(float(options_.simulations) +
                                     less * float(self_play_.cheap_simulations - options_.simulations))),
            true};
  }

  // How sure all of the last plies were of the same winner; not positive where they were not.
  float decided(const Slot& slot) const {
    const size_t plies = slot.values.size(), back = size_t(self_play_.decided_plies);
    if (plies < back) return 0.f;
    float low = 1.f, high = -1.f;
    for (size_t t = plies - back; t < plies; ++t) {
      if (std::isnan(slot.values[t])) return 0.f;
      low = std::min(low, slot.values[t]), high = std::max(high, slot.values[t]);
    }
    return std::min(1.f, std::max(low, -high));
  }

  void move(int s) {
    Slot& slot = slots_[size_t(s)];
    const SearchResult& result = result_;
    slot.search.conclude(result_);
    if (slot.policy_plies > 0) {
      --slot.policy_plies;
      Random random(combine(search_seed(s), 4));
      play_on(s, result.actions[size_t(sample_by_policy(std::exchange(slot.avoided, kNoAction), random))], kOpening);
      return;
    }
    GameColumns& c = slot.columns;
    if (slot.weight > 0) {
      to_shares(result.policy, shares_);
      for (size_t i = 0; i < shares_.size(); ++i) {
        if (shares_[i] == 0) continue;
        c.policy_actions.push_back(result.actions[i]);
        c.policy_shares.push_back(shares_[i]);
      }
    }
    ++batch_.counters.searches;
    const int player = rules_->to_play(slot.position);
    slot.lowest[player] = std::min(slot.lowest[player], result.value);
    if (slot.may_resign && result.value < resign_.value()) slot.loser = std::int8_t(player);
    play_on(s, result.action, slot.weight > 0 ? kFull : kCheap);
  }

  // The index of an action other than `avoided`, drawn with probability prior^(1 / temperature).
  int sample_by_policy(int avoided, Random& random) {
    weights_ = result_.prior;
    for (size_t i = 0; i < weights_.size(); ++i)
      if (result_.actions[i] == avoided) weights_[i] = 0;
    if (std::all_of(weights_.begin(), weights_.end(), [](float w) { return w == 0; }))  // all others: 0 in half floats
      for (size_t i = 0; i < weights_.size(); ++i) weights_[i] = result_.actions[i] != avoided;
    return sample(weights_, result_.prior, self_play_.policy_temperature, random);
  }

  void play_on(int s, Action action, RowKind kind) {
    Slot& slot = slots_[size_t(s)];
    add_row(slot, action, kind, result_);
    if (!rules_->is_terminal(slot.position) && slot.loser == kNobody) {
      begin_search(s, action);
      return;
    }
    const std::vector<Action> line = sample_fork(s);
    finish(slot);
    start_game(s, line);
  }

  void add_row(Slot& slot, Action action, RowKind kind, const SearchResult& result = {}) {
    GameColumns& c = slot.columns;
    const bool is_first = rules_->to_play(slot.position) == 0;
    slot.values.push_back(kind == kOpening ? std::numeric_limits<float>::quiet_NaN()
                          : is_first       ? result.value
                                           : -result.value);
    c.actions.push_back(action);
    c.policy_offsets.push_back(std::uint32_t(c.policy_actions.size()));
    c.root_values.push_back(result.value), c.raw_values.push_back(result.raw_value);
    c.versions.push_back(kind == kOpening ? version_ : slot.root_version);
    c.kind.push_back(kind), c.row_weight.push_back(kind == kFull ? slot.weight : 0.f),
        c.surprise.push_back(result.surprise);
    rules_->play(slot.position, action);
    ++batch_.counters.plies;
    batch_.counters.rows += c.row_weight.back() > 0;
  }

  void finish(Slot& slot) {
    GameColumns& c = slot.columns;
    c.is_resigned = !rules_->is_terminal(slot.position);
    if (c.is_resigned) {
      c.outcome = slot.loser == 0 ? -1 : 1;
    } else {
      const int outcome = rules_->outcome(slot.position);
      const float score = rules_->score(slot.position);
      const bool is_first = rules_->to_play(slot.position) == 0;
      c.outcome = is_first ? outcome : -outcome;
      c.score = is_first ? score : -score;
      c.is_cut_off = rules_->is_cut_off(slot.position);
      if (resign_.is_on() && !slot.may_resign)  // what a player who did not lose thought at worst
        resign_.add(c.outcome > 0   ? slot.lowest[0]
                    : c.outcome < 0 ? slot.lowest[1]
                                    : std::min(slot.lowest[0], slot.lowest[1]));
    }
    finished_.push_back(std::move(c));
    ++batch_.counters.games;
  }

  template <class Archive>
  void archive(Archive& a, Slot& slot) {
    slot.search.archive(a);
    a.number(slot.position);
    slot.columns.archive(a);
    a.number(slot.games), a.number(slot.root_version), a.number(slot.policy_plies), a.number(slot.avoided);
    a.number(slot.weight), a.number(slot.may_resign), a.number(slot.loser), a.number(slot.lowest),
        a.vector(slot.values);
  }

  // Of everything that must be the same for a snapshot to mean the same.
  std::uint64_t fingerprint() const {
    const SearchOptions& o = options_;
    const std::string text = name_of(*rules_) + " " + o.policy + " " + o.gumbel_interior + " " +
                             std::to_string(slots_.size()) + " " + std::to_string(seed_) + " " +
                             std::to_string(sizeof(Position)) + " " + std::to_string(o.simulations) + " " +
                             std::to_string(o.considered_actions) + (o.proven_results ? " proven" : "") +
                             (o.graph ? " graph" : "") + " " + std::to_string(self_play_.cheap_simulations);
    return checksum(text);
  }

  static std::uint64_t checksum(std::string_view bytes) {
    std::uint64_t hash = bytes.size();
    for (char c : bytes) hash = combine(hash, std::uint64_t(static_cast<unsigned char>(c)));
    return hash;
  }

  const G* rules_;
  SearchOptions options_;
  SelfPlayOptions self_play_;
  std::uint64_t seed_;
  std::uint32_t version_ = 0;
  LeafBatch<G, P> batch_;
  ResignThreshold resign_;
  LeafPlace<G> place_;  // for all searches
  std::vector<Slot> slots_;
  std::vector<GameColumns> finished_;
  std::vector<int> walking_, simulations_left_;  // scratch: of select(), slots; simulations of each
  SearchResult result_;                          // scratch
  std::vector<std::uint16_t> shares_;            // scratch
  std::vector<float> weights_;                   // scratch
  std::vector<Action> legal_;                    // scratch
};

}  // namespace shusaku
