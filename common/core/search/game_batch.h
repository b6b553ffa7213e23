// Games of self-play side by side.  Slot s plays its k-th game with randomness that comes from (seed, s, k, ply) alone,
// so what a game is does not depend on the others, on the cache or on when the program was stopped and resumed.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "archive.h"
#include "leaf_batch.h"
#include "search_batch.h"

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
  bool is_cut_off = false;

  template <class Archive>
  void archive(Archive& a) {
    a.vector(actions), a.vector(policy_offsets), a.vector(policy_actions), a.vector(policy_shares);
    a.vector(root_values), a.vector(raw_values), a.vector(versions), a.vector(kind), a.vector(row_weight);
    a.vector(surprise);
  }
};

enum RowKind : std::uint8_t { kOpening = 0, kFull = 1 };

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

  GameBatch(const G& rules, const SearchOptions& options, int size, std::uint64_t seed)
      : rules_(&rules), options_(options), seed_(seed), batch_(rules, options_, size, seed) {
    for (int s = 0; s < size; ++s) {
      slots_.push_back({Search<G, P>(rules, options_), rules.start(), {}, 0, 0});
      start_game(s);
    }
  }
  GameBatch(const GameBatch&) = delete;

  const Leaves& select(std::uint32_t version) {
    batch_.clear(version);
    version_ = version;
    for (int s = 0; s < int(slots_.size()); ++s) {
      if (s + 1 < int(slots_.size())) slots_[size_t(s) + 1].search.tree().prefetch();
      int budget = kBudgetPerSelect;
      while (batch_.run(slots_[size_t(s)].search, s, budget) == Step::kDone) move(s);
    }
    return batch_.leaves;
  }

  void expand_and_backup(const float* logits, const float* values, std::uint32_t version) {
    batch_.take(logits, values, version,
                [&](int s, float* l, float v) {
                  Slot& slot = slots_[size_t(s)];
                  if (!slot.search.tree().nodes[0].is_expanded) slot.root_version = version;
                  slot.search.expand(l, v);
                },
                [&](int s) { start_game(s); });  // a game with a broken evaluation is dropped and counted
  }

  const Leaves& leaves() const { return batch_.leaves; }
  std::vector<GameColumns> take_finished() { return std::exchange(finished_, {}); }

  Counters counters() const {
    Counters c = batch_.counters;
    c.simulations = c.evaluations + c.cache_hits + c.terminals;
    return c;
  }

  // Only between expand_and_backup() and select().
  std::string snapshot() {
    Writer games;
    games.number(fingerprint());
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
    for (Slot& slot : slots_) archive(r, slot);
    if (!r.is_empty()) throw std::invalid_argument("the snapshot of the open games is longer than it should be");
  }

 private:
  struct Slot {
    Search<G, P> search;
    Position position;
    GameColumns columns;
    std::uint64_t games;          // started in this slot
    std::uint32_t root_version;   // of the weights that evaluated the root of the running search
  };

  std::uint64_t game_seed(int s) const { return combine(combine(seed_, std::uint64_t(s)), slots_[size_t(s)].games); }
  std::uint64_t search_seed(int s) const {
    return combine(game_seed(s), 1 + std::uint64_t(rules_->ply(slots_[size_t(s)].position)));
  }

  void start_game(int s) {
    Slot& slot = slots_[size_t(s)];
    ++slot.games;
    Random random(combine(game_seed(s), 0));
    std::vector<Action> legal(size_t(rules_->max_legal_actions()));
    do {  // again, where the opening happened to end the game
      slot.position = rules_->start();
      slot.columns = {};
      const auto plies = random.below(std::uint64_t(options_.random_plies) + 1);
      for (std::uint64_t k = 0; k < plies && !rules_->is_terminal(slot.position); ++k)
        add_row(slot, draw_action(*rules_, slot.position, random, legal.data()), kOpening, 0.f);
    } while (rules_->is_terminal(slot.position));
    slot.root_version = version_;
    slot.search.begin(slot.position, search_seed(s));
  }

  void move(int s) {
    Slot& slot = slots_[size_t(s)];
    const SearchResult& result = result_;
    slot.search.conclude(result_);
    to_shares(result.policy, shares_);
    GameColumns& c = slot.columns;
    for (size_t i = 0; i < shares_.size(); ++i) {
      if (shares_[i] == 0) continue;
      c.policy_actions.push_back(result.actions[i]);
      c.policy_shares.push_back(shares_[i]);
    }
    add_row(slot, result.action, kFull, 1.f, result);
    ++batch_.counters.searches;
    if (rules_->is_terminal(slot.position)) {
      finish(slot);
      start_game(s);
    } else {
      slot.root_version = version_;
      slot.search.begin_after(result.action, slot.position, search_seed(s));
    }
  }

  void add_row(Slot& slot, Action action, RowKind kind, float weight, const SearchResult& result = {}) {
    GameColumns& c = slot.columns;
    c.actions.push_back(action);
    c.policy_offsets.push_back(std::uint32_t(c.policy_actions.size()));
    c.root_values.push_back(result.value), c.raw_values.push_back(result.raw_value);
    c.versions.push_back(kind == kOpening ? version_ : slot.root_version);
    c.kind.push_back(kind), c.row_weight.push_back(weight), c.surprise.push_back(result.surprise);
    rules_->play(slot.position, action);
    ++batch_.counters.plies;
  }

  void finish(Slot& slot) {
    const int outcome = rules_->outcome(slot.position);
    const float score = rules_->score(slot.position);
    const bool is_first = rules_->to_play(slot.position) == 0;
    slot.columns.outcome = is_first ? outcome : -outcome;
    slot.columns.score = is_first ? score : -score;
    slot.columns.is_cut_off = rules_->is_cut_off(slot.position);
    finished_.push_back(std::move(slot.columns));
    ++batch_.counters.games;
  }

  template <class Archive>
  void archive(Archive& a, Slot& slot) {
    slot.search.archive(a);
    a.number(slot.position);
    slot.columns.archive(a);
    a.number(slot.games), a.number(slot.root_version);
  }

  // Of everything that must be the same for a snapshot to mean the same.
  std::uint64_t fingerprint() const {
    const SearchOptions& o = options_;
    const std::string text = name_of(*rules_) + " " + o.policy + " " + o.gumbel_interior + " " +
        std::to_string(slots_.size()) + " " + std::to_string(seed_) + " " + std::to_string(sizeof(Position)) + " " +
        std::to_string(o.simulations) + " " + std::to_string(o.considered_actions) + (o.proven_results ? " proven" : "");
    return checksum(text);
  }

  static std::uint64_t checksum(std::string_view bytes) {
    std::uint64_t hash = bytes.size();
    for (char c : bytes) hash = combine(hash, std::uint64_t(static_cast<unsigned char>(c)));
    return hash;
  }

  const G* rules_;
  SearchOptions options_;
  std::uint64_t seed_;
  std::uint32_t version_ = 0;
  LeafBatch<G, P> batch_;
  std::vector<Slot> slots_;
  std::vector<GameColumns> finished_;
  SearchResult result_;                // scratch
  std::vector<std::uint16_t> shares_;  // scratch
};

}  // namespace shusaku
