// A batch of parallel games of self-play.  The k-th game with index i takes its randomness from (seed, i, k, ply)
// alone, and a fork starts from the (k - 1)-th game with that index.  So a game depends neither on the other games nor
// on the cache nor on when the program was stopped and resumed.  (One exception: all games share the resign threshold.)
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
  float komi = kNoKomi;    // of this game, if it was sampled
  bool is_cut_off = false, is_resigned = false;
  int index = 0;             // where the game was played,
  std::uint64_t number = 0;  // and its number among the games with that index: 1, 2, ...

  template <class Archive>
  void archive(Archive& a) {
    a.vector(actions), a.vector(policy_offsets), a.vector(policy_actions), a.vector(policy_shares);
    a.vector(root_values), a.vector(raw_values), a.vector(versions), a.vector(kind), a.vector(row_weight);
    a.vector(surprise), a.number(komi);
  }
};

// A game that goes on: what it needs beside its moves, but not the search of the position that it has reached.
struct OpenGame {
  GameColumns columns;
  std::int32_t policy_plies = 0;  // still to be sampled from the network's policy
  std::int32_t avoided = -1;      // the action that the first of them must not repeat; -1: none
  bool may_resign = false;
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

// How the game ended in this position, by the rules.
template <GameRules G>
void take_result(const G& rules, const typename G::Position& final, GameColumns& c) {
  const int outcome = rules.outcome(final);
  const float score = rules.score(final);
  const bool is_first = rules.to_play(final) == 0;
  c.outcome = is_first ? outcome : -outcome;
  c.score = is_first ? score : -score;
  c.is_cut_off = rules.is_cut_off(final);
}

// Throws unless the columns of an open game fit each other.
inline void check_lengths(const GameColumns& c) {
  const size_t plies = c.actions.size();
  const bool are_plies = c.root_values.size() == plies && c.raw_values.size() == plies && c.versions.size() == plies &&
                         c.kind.size() == plies && c.row_weight.size() == plies && c.surprise.size() == plies;
  const bool are_entries = c.policy_offsets.size() == plies + 1 && c.policy_offsets.front() == 0 &&
                           c.policy_offsets.back() == c.policy_actions.size() &&
                           c.policy_actions.size() == c.policy_shares.size() &&
                           std::is_sorted(c.policy_offsets.begin(), c.policy_offsets.end());
  if (!are_plies || !are_entries) throw std::invalid_argument("the columns of the open game differ in length");
}

inline std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t hash = bytes.size();
  for (char c : bytes) hash = combine(hash, std::uint64_t(static_cast<unsigned char>(c)));
  return hash;
}

constexpr int kSnapshotFormat = 1;  // grows when a snapshot's bytes mean something else

// A snapshot: a checksum, a fingerprint, and what `write` writes.  The fingerprint is a hash of what the meaning of
// these bytes depends on, but for the parameters of the game, which actors/self_play.py compares.
template <class Write>
std::string sealed(std::uint64_t fingerprint, Write write) {
  Writer games;
  games.number(fingerprint);
  write(games);
  Writer whole;
  whole.number(checksum(games.bytes));
  return whole.bytes + games.bytes;
}

// Lets `read` read a snapshot that is whole and of the same fingerprint; std::invalid_argument otherwise.
template <class Read>
void unseal(std::string_view bytes, std::uint64_t fingerprint, Read read) {
  Reader r(bytes);
  std::uint64_t sum = 0, theirs = 0;
  r.number(sum);
  if (sum != checksum(bytes.substr(sizeof sum)))  // indices inside are trusted once this holds
    throw std::invalid_argument("the snapshot of the open games is damaged or cut short");
  r.number(theirs);
  if (theirs != fingerprint)
    throw std::invalid_argument("the open games were saved under another game, search or number of games");
  read(r);
  if (!r.is_empty()) throw std::invalid_argument("the snapshot of the open games is longer than it should be");
}

// Plays the move of an open game that is resumed; std::invalid_argument if it is illegal.
template <GameRules G>
void play_again(const G& rules, typename G::Position& position, Action action, size_t ply, std::vector<Action>& legal) {
  const auto end = legal.begin() + rules.legal_actions(position, legal.data());
  if (!std::binary_search(legal.begin(), end, action))
    throw std::invalid_argument("action " + std::to_string(action) + " is illegal at ply " + std::to_string(ply));
  rules.play(position, action);
}

class AnyGameBatch : public AnyBatch {
 public:
  // Which network is to answer the next select(), if the games are played by several.
  virtual int choose_network() { return 0; }
  virtual int max_leaves() const { return size(); }  // of one select()
  virtual int num_finished() const = 0;
  virtual std::vector<GameColumns> take_finished() = 0;
  virtual float resign_value() const = 0;
  virtual void begin_with_resign_value(float value) = 0;
  // So many simulations with pseudo-random evaluations and no call from outside: the speed of the tree alone.
  virtual void play_pseudo_random(std::uint64_t simulations) = 0;
  virtual std::string snapshot() = 0;  // only between expand_and_backup() and select()
  virtual void restore(std::string_view bytes) = 0;
  virtual OpenGame open_game(int index) const = 0;
  // Replaces the game with this index; its search begins anew.  Only while no leaf waits.  Throws with the reason, and
  // changes nothing, unless the moves are legal and lead to a position in which a move can be made.
  virtual void resume(int index, OpenGame game) = 0;
};

inline void play_pseudo_random(AnyGameBatch& batch, const Shape& shape, std::uint64_t simulations) {
  const std::uint64_t goal = batch.counters().simulations() + simulations;
  std::vector<float> logits(batch.leaves().actions.size()), values(batch.leaves().offsets.size());
  while (batch.counters().simulations() < goal) {
    batch.choose_network();
    const Leaves& l = batch.select(0);
    pseudo_random_evaluate(l.packed.data(), shape.packed_bytes(), l.uniform.data(), shape.uniform, l.offsets.data(),
                           l.actions.data(), l.count, logits.data(), values.data());
    batch.expand_and_backup(logits.data(), values.data(), 0);
    batch.take_finished();
  }
}

template <GameRules G, class P>
class GameBatch final : public AnyGameBatch {
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
        place_(rules, options.rollout, options.solved_empties),
        legal_(size_t(rules.max_legal_actions())) {
    if (options.leaves > 1)
      throw std::invalid_argument("search.leaves=" + std::to_string(options.leaves) +
                                  ": self-play selects one leaf a game at a time; use search.leaves=1");
    if (options.average_symmetries)
      throw std::invalid_argument(
          "search.average_symmetries=true: self-play samples one symmetry for every leaf; use "
          "search.average_symmetries=false");
    if (self_play.komi_stdev > 0 && !HasKomi<G>)
      throw std::invalid_argument("komi_stdev " + std::to_string(self_play.komi_stdev) + ": " + name_of(rules) +
                                  " has no komi to be sampled; use 0");
    for (int index = 0; index < size; ++index) {
      games_.push_back({.search = Search<G, P>(rules, options_, place_), .position = rules.start()});
      start_game(index);
    }
  }
  GameBatch(const GameBatch&) = delete;

  const Leaves& select(std::uint32_t version) override {
    batch_.clear(version);
    version_ = version;
    // In rounds: every search selects a leaf, then all leaves are looked up in the cache, whose entries are far away.
    selecting_.resize(games_.size()), simulations_left_.assign(games_.size(), kSimulationsPerSelect);
    std::iota(selecting_.begin(), selecting_.end(), 0);
    const bool may_select_ahead = batch_.may_select_ahead();
    while (!selecting_.empty()) {
      size_t at_leaf = 0;
      for (size_t i = 0; i < selecting_.size(); ++i) {
        for (int ahead = 3; ahead > 0; --ahead)
          if (i + size_t(ahead) < selecting_.size())
            games_[size_t(selecting_[i + size_t(ahead)])].search.prefetch_run(ahead);
        const int index = selecting_[i];
        Step step = Step::kDone;
        for (int& simulations_left = simulations_left_[size_t(index)]; simulations_left-- > 0;) {
          Search<G, P>& search = games_[size_t(index)].search;
          step = may_select_ahead ? batch_.select_ahead(search, index, simulations_left)
                                  : batch_.run(search, index, simulations_left);
          if (step != Step::kDone) break;
          move(index);
        }
        if (step == Step::kLeaf && may_select_ahead) selecting_[at_leaf++] = index;
      }
      selecting_.resize(at_leaf);
      std::erase_if(selecting_, [&](int index) { return !batch_.expand_known(games_[size_t(index)].search, index); });
    }
    return batch_.leaves;
  }

  void expand_and_backup(const float* logits, const float* values, std::uint32_t version) override {
    batch_.distribute(
        logits, values, version,
        [&](int, int index, const std::uint16_t* l, float v) {
          ParallelGame& game = games_[size_t(index)];
          if (!game.search.tree().nodes[0].is_expanded()) game.root_version = version;
          game.search.expand(l, v);
        },
        [&](int, int index) { start_game(index); },  // a game with a broken evaluation is dropped and counted
        [&](int index, int ahead) { games_[size_t(index)].search.prefetch_expand(ahead); });
  }

  int size() const override { return int(games_.size()); }
  const Leaves& leaves() const override { return batch_.leaves; }
  int num_finished() const override { return int(finished_.size()); }
  std::vector<GameColumns> take_finished() override { return std::exchange(finished_, {}); }
  const Counters& counters() const override { return batch_.counters; }

  void play_pseudo_random(std::uint64_t simulations) override {
    shusaku::play_pseudo_random(*this, rules_->shape(), simulations);
  }

  float resign_value() const override { return resign_.value(); }
  void begin_with_resign_value(float value) override { resign_.begin_with(value); }

  std::string snapshot() override {
    return sealed(fingerprint(), [&](Writer& w) { archive_all(w); });
  }

  void restore(std::string_view bytes) override {
    unseal(bytes, fingerprint(), [&](Reader& r) { archive_all(r); });
  }

  OpenGame open_game(int index) const override {
    const ParallelGame& game = games_[size_t(index)];
    OpenGame open{game.columns, game.policy_plies, game.avoided, game.may_resign};
    open.columns.index = index, open.columns.number = game.num_started;
    return open;
  }

  void resume(int index, OpenGame open) override {
    check_lengths(open.columns);
    ParallelGame game{.search = Search<G, P>(*rules_, options_, place_), .position = rules_->start()};
    if (!std::isnan(open.columns.komi)) set_komi(game.position, open.columns.komi);
    const GameColumns& c = open.columns;
    for (size_t t = 0; t < c.actions.size(); ++t) {
      record_value(game, RowKind(c.kind[t]), c.root_values[t]);
      play_again(*rules_, game.position, c.actions[t], t, legal_);
    }
    const int choices = rules_->legal_actions(game.position, legal_.data());
    if (choices == 0) throw std::invalid_argument("the game is over");
    game.policy_plies = std::clamp(open.policy_plies, 0, rules_->max_plies());
    game.avoided = choices > 1 && game.policy_plies > 0 ? open.avoided : kNoAction;
    game.may_resign = resign_.is_on() && open.may_resign;
    game.num_started = games_[size_t(index)].num_started;
    game.columns = std::move(open.columns);
    games_[size_t(index)] = std::move(game);
    begin_search(index, kNoAction);
  }

 private:
  static constexpr int kNoAction = -1, kNoLoser = -1;
  static constexpr std::uint64_t kForkStream = ~0ull,
                                 kKomiStream = ~1ull;  // streams of a game; those of plies are small numbers

  struct ParallelGame {
    Search<G, P> search;
    Position position;
    GameColumns columns = {};
    std::uint64_t num_started = 0;     // games with this index so far
    std::uint32_t root_version = 0;    // of the weights that evaluated the root of the running search
    std::int32_t policy_plies = 0;     // still to be sampled from the network's policy
    std::int32_t avoided = kNoAction;  // the action that the first of them must not repeat
    float weight = 0;                  // of the running search's row
    bool may_resign = false;
    std::int8_t loser = kNoLoser;    // the player who resigns
    float lowest[2] = {1.f, 1.f};    // the lowest value that each player saw when to move
    std::vector<float> values = {};  // of every ply, for the first player; NaN in the opening
  };

  std::uint64_t game_seed(int index) const {
    return combine(combine(seed_, std::uint64_t(index)), games_[size_t(index)].num_started);
  }
  std::uint64_t search_seed(int index) const {
    return combine(game_seed(index), 1 + std::uint64_t(rules_->ply(games_[size_t(index)].position)));
  }

  // `line` comes from sample_fork() of the game before.
  void start_game(int index, const std::vector<Action>& line = {}) {
    ParallelGame& game = games_[size_t(index)];
    ++game.num_started;
    Random random(combine(game_seed(index), 0));
    if (!branch_off(index, line)) open(index, random);
    game.loser = kNoLoser;
    game.lowest[0] = game.lowest[1] = 1.f;
    game.may_resign = resign_.is_on() && random.uniform() >= self_play_.never_resign_share;
    begin_search(index, kNoAction);
  }

  void set_komi(Position& position, float komi) const {
    if constexpr (HasKomi<G>) {
      if (G::is_komi(komi)) {
        rules_->set_komi(position, komi);
        return;
      }
    }
    throw std::invalid_argument("a komi of " + std::to_string(komi) + ", which " + name_of(*rules_) + " cannot have");
  }

  void set_up(int index) {
    ParallelGame& game = games_[size_t(index)];
    game.position = rules_->start();
    game.columns = {};
    game.values.clear();
    if constexpr (HasKomi<G>) {
      if (self_play_.komi_stdev <= 0) return;
      game.columns.komi = sample_komi(rules_->komi(game.position), Random(combine(game_seed(index), kKomiStream)));
      rules_->set_komi(game.position, game.columns.komi);
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

  void open(int index, Random& random) {
    ParallelGame& game = games_[size_t(index)];
    do {  // again if the opening has ended the game
      set_up(index);
      const auto plies = random.below(std::uint64_t(self_play_.random_plies) + 1);
      for (std::uint64_t k = 0; k < plies && !rules_->is_terminal(game.position); ++k)
        add_row(game, sample_action(*rules_, game.position, random, legal_.data()), kOpening);
    } while (rules_->is_terminal(game.position));
    game.policy_plies = self_play_.policy_plies > 0 ? int(-std::log(random.uniform()) * self_play_.policy_plies) : 0;
    game.avoided = kNoAction;
  }

  // Plays all of `line` but its last action, which the network's policy then replaces by another one.  False if there
  // is no line, or no other action.
  bool branch_off(int index, const std::vector<Action>& line) {
    if (line.empty()) return false;
    ParallelGame& game = games_[size_t(index)];
    set_up(index);
    for (size_t k = 0; k + 1 < line.size(); ++k) add_row(game, line[k], kOpening);
    game.policy_plies = 1;
    game.avoided = line.back();
    return rules_->legal_actions(game.position, legal_.data()) > 1;
  }

  // The first plies of a game that has ended: the next game with this index branches off before the last of them.
  // Empty if that game begins at the start (KataGo, cpp/program/play.cpp, maybeForkGame).
  std::vector<Action> sample_fork(int index) const {
    if (self_play_.fork_share <= 0) return {};
    Random random(combine(game_seed(index), kForkStream));
    if (random.uniform() >= self_play_.fork_share) return {};
    const std::vector<Action>& played = games_[size_t(index)].columns.actions;
    const std::uint64_t choices = std::min(std::uint64_t(played.size()), std::uint64_t(self_play_.fork_plies) + 1);
    return {played.begin(), played.begin() + std::ptrdiff_t(random.below(choices)) + 1};
  }

  // Searches the position of the game, which `action` has reached.
  void begin_search(int index, int action) {
    ParallelGame& game = games_[size_t(index)];
    game.root_version = version_;
    const Budget budget = choose_budget(index);
    if (action == kNoAction)
      game.search.begin(game.position, search_seed(index), budget);
    else
      game.search.begin_after(Action(action), game.position, search_seed(index), budget);
  }

  // Most searches may be cheap and only choose a move (playout cap randomization, Wu 2019, section 3.1).  A full search
  // costs less and counts less if the game is decided (KataGo, cpp/program/play.cpp, reduceVisits).
  Budget choose_budget(int index) {
    ParallelGame& game = games_[size_t(index)];
    if (game.policy_plies > 0) return {0, false};
    Random random(combine(search_seed(index), 3));
    game.weight = 0.f;
    if (self_play_.cheap_share > 0 && random.uniform() < self_play_.cheap_share)
      return {self_play_.cheap_simulations, false};
    game.weight = 1.f;
    if (self_play_.decided_value >= 1.f) return {options_.simulations, true};
    const float beyond = std::max(0.f, decided(game) - self_play_.decided_value) / (1.f - self_play_.decided_value);
    const float less = beyond * beyond;
    game.weight += less * (self_play_.decided_weight - game.weight);
    return {std::int32_t(std::lround(float(options_.simulations) +
                                     less * float(self_play_.cheap_simulations - options_.simulations))),
            true};
  }

  // How sure all of the last plies were of the same winner; not positive if they were not.
  float decided(const ParallelGame& game) const {
    const size_t plies = game.values.size(), back = size_t(self_play_.decided_plies);
    if (plies < back) return 0.f;
    float low = 1.f, high = -1.f;
    for (size_t t = plies - back; t < plies; ++t) {
      if (std::isnan(game.values[t])) return 0.f;
      low = std::min(low, game.values[t]), high = std::max(high, game.values[t]);
    }
    return std::min(1.f, std::max(low, -high));
  }

  void move(int index) {
    ParallelGame& game = games_[size_t(index)];
    const SearchResult& result = result_;
    game.search.conclude(result_);
    if (game.policy_plies > 0) {
      --game.policy_plies;
      Random random(combine(search_seed(index), 4));
      play_on(index, result.actions[size_t(sample_by_policy(std::exchange(game.avoided, kNoAction), random))],
              kOpening);
      return;
    }
    GameColumns& c = game.columns;
    if (game.search.is_root_solved()) game.weight *= self_play_.solved_weight;
    if (game.weight > 0) {
      to_shares(result.policy, shares_);
      for (size_t i = 0; i < shares_.size(); ++i) {
        if (shares_[i] == 0) continue;
        c.policy_actions.push_back(result.actions[i]);
        c.policy_shares.push_back(shares_[i]);
      }
    }
    ++batch_.counters.searches;
    if (game.may_resign && result.value < resign_.value()) game.loser = std::int8_t(rules_->to_play(game.position));
    play_on(index, result.action, game.weight > 0 ? kFull : kCheap);
  }

  // The index of an action other than `avoided`, sampled with probability prior^(1 / temperature).
  int sample_by_policy(int avoided, Random& random) {
    weights_ = result_.prior;
    for (size_t i = 0; i < weights_.size(); ++i)
      if (result_.actions[i] == avoided) weights_[i] = 0;
    if (std::all_of(weights_.begin(), weights_.end(), [](float w) { return w == 0; }))  // all others: 0 in half floats
      for (size_t i = 0; i < weights_.size(); ++i) weights_[i] = result_.actions[i] != avoided;
    return sample(weights_, result_.prior, self_play_.policy_temperature, random);
  }

  void play_on(int index, Action action, RowKind kind) {
    ParallelGame& game = games_[size_t(index)];
    add_row(game, action, kind, result_);
    if (!rules_->is_terminal(game.position) && game.loser == kNoLoser) {
      begin_search(index, action);
      return;
    }
    const std::vector<Action> line = sample_fork(index);
    finish(index);
    start_game(index, line);
  }

  void add_row(ParallelGame& game, Action action, RowKind kind, const SearchResult& result = {}) {
    GameColumns& c = game.columns;
    record_value(game, kind, result.value);
    c.actions.push_back(action);
    c.policy_offsets.push_back(std::uint32_t(c.policy_actions.size()));
    c.root_values.push_back(result.value), c.raw_values.push_back(result.raw_value);
    c.versions.push_back(kind == kOpening ? version_ : game.root_version);
    c.kind.push_back(kind), c.row_weight.push_back(kind == kFull ? game.weight : 0.f),
        c.surprise.push_back(result.surprise);
    rules_->play(game.position, action);
    ++batch_.counters.plies;
    batch_.counters.rows += c.row_weight.back() > 0;
  }

  // What the player to move sees, before the move is played.
  void record_value(ParallelGame& game, RowKind kind, float value) const {
    const int player = rules_->to_play(game.position);
    if (kind != kOpening) game.lowest[player] = std::min(game.lowest[player], value);
    game.values.push_back(kind == kOpening ? std::numeric_limits<float>::quiet_NaN() : player == 0 ? value : -value);
  }

  void finish(int index) {
    ParallelGame& game = games_[size_t(index)];
    GameColumns& c = game.columns;
    c.index = index, c.number = game.num_started;
    c.is_resigned = !rules_->is_terminal(game.position);
    if (c.is_resigned) {
      c.outcome = game.loser == 0 ? -1 : 1;
    } else {
      take_result(*rules_, game.position, c);
      // A draw by the limit of plies says nothing of who could have won, and a game without a search nothing at all.
      const bool is_searched =
          std::any_of(game.values.begin(), game.values.end(), [](float v) { return !std::isnan(v); });
      if (resign_.is_on() && !game.may_resign && is_searched && !(c.is_cut_off && c.outcome == 0))
        measure_resignation(c.outcome > 0   ? game.lowest[0]
                            : c.outcome < 0 ? game.lowest[1]
                                            : std::min(game.lowest[0], game.lowest[1]));
    }
    batch_.counters.resigned += c.is_resigned;
    finished_.push_back(std::move(c));
    ++batch_.counters.games;
  }

  // A game was played to the end; `lowest`: the lowest value of a player who did not lose.
  void measure_resignation(float lowest) {
    if (resign_.value() > -1) {
      ++batch_.counters.played_on;
      batch_.counters.wrongly_resigned += lowest < resign_.value();
    }
    resign_.add(lowest);
  }

  template <class Archive>
  void archive_all(Archive& a) {
    resign_.archive(a);
    for (ParallelGame& game : games_) archive(a, game);
  }

  template <class Archive>
  void archive(Archive& a, ParallelGame& game) {
    game.search.archive(a);
    a.number(game.position);
    game.columns.archive(a);
    a.number(game.num_started), a.number(game.root_version), a.number(game.policy_plies), a.number(game.avoided);
    a.number(game.weight), a.number(game.may_resign), a.number(game.loser), a.number(game.lowest),
        a.vector(game.values);
  }

  // A hash of everything that a snapshot's meaning depends on.
  std::uint64_t fingerprint() const {
    const SearchOptions& o = options_;
    const std::string text =
        name_of(*rules_) + " " + o.policy + " " + o.gumbel_interior + " " + std::to_string(games_.size()) + " " +
        std::to_string(seed_) + " " + std::to_string(kSnapshotFormat) + " " + std::to_string(sizeof(Node)) + " " +
        std::to_string(sizeof(Position)) + " " + std::to_string(o.simulations) + " " +
        std::to_string(o.considered_actions) + (o.proven_results ? " proven" : "") + (o.graph ? " graph" : "") +
        (o.solved_empties ? " solved " + std::to_string(o.solved_empties) : "") + " " +
        std::to_string(self_play_.cheap_simulations);
    return checksum(text);
  }

  const G* rules_;
  SearchOptions options_;
  SelfPlayOptions self_play_;
  std::uint64_t seed_;
  std::uint32_t version_ = 0;
  LeafBatch<G, Search<G, P>> batch_;
  ResignThreshold resign_;
  LeafPlace<G> place_;  // for all searches
  std::vector<ParallelGame> games_;
  std::vector<GameColumns> finished_;
  std::vector<int> selecting_, simulations_left_;  // scratch of select(): game indices; simulations by index
  SearchResult result_;                            // scratch
  std::vector<std::uint16_t> shares_;              // scratch
  std::vector<float> weights_;                     // scratch
  std::vector<Action> legal_;                      // scratch
};

}  // namespace shusaku
