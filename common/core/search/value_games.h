// A batch of parallel games for a value network (Silver et al. 2016, Methods, "Value network: regression").
//
// U is drawn evenly from 1 ... last_switch.  The first U - 1 moves of a game are one policy's, move U is drawn evenly
// from all legal ones, and all later moves are another policy's, until the rules end the game; these can be drawn at
// another temperature than those before, since they are to say who wins and not to vary the games.  Only the position
// after move U is learned from: successive positions share one outcome, so a network that learned from them all would
// remember games.  A game that ends with move U or before is discarded and counted.
//
// As in game_batch.h the k-th game with index i depends on (seed, i, k) and the evaluations alone.
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <vector>

#include "search/game_batch.h"

namespace shusaku {

struct ValueGamesOptions {
  int last_switch = 0;          // the latest U, at least 1
  float temperature = 1;        // of the moves after the random one
  bool learns_all = false;      // every position in which a policy moved is learned from: the control that remembers
  std::int32_t max_leaves = 0;  // of one select(): the batch of each network
};

template <GameRules G>
class ValueGames final : public AnyGameBatch {
 public:
  using Position = typename G::Position;

  // `options`: those of policy_only.  With 2 * max_leaves - 1 games or more every batch is full.
  ValueGames(const G& rules, const SearchOptions& options, const ValueGamesOptions& games, int size, std::uint64_t seed)
      : rules_(&rules),
        options_(without_cache(options)),
        game_options_(games),
        seed_(seed),
        batch_(rules, options_, size, seed),
        legal_(size_t(padded(rules.max_legal_actions()))),
        probabilities_(legal_.size()) {
    if (options.policy != "policy_only")
      throw std::invalid_argument("search.policy=" + options.policy +
                                  ": games for a value network are played by policies without a search; use "
                                  "search.policy=policy_only");
    if (options.average_symmetries)
      throw std::invalid_argument(
          "search.average_symmetries=true: games for a value network sample one symmetry for every leaf; use "
          "search.average_symmetries=false");
    for (int index = 0; index < size; ++index) {
      games_.push_back({.turn = {rules, legal_.size()}});
      start_game(index);
    }
  }
  ValueGames(const ValueGames&) = delete;

  // 0: the policy of the moves before the random one, 1: of those after it; the one that more games wait for.
  int choose_network() override {
    assert(leaves().count == 0);
    network_ = waiting_[1].size() > waiting_[0].size();
    return network_;
  }
  int max_leaves() const override { return game_options_.max_leaves; }

  // The games that have waited longest.
  const Leaves& select(std::uint32_t version) override {
    batch_.clear(version);
    version_ = version;
    std::vector<int>& waiting = waiting_[network_];
    const auto count = std::ptrdiff_t(std::min(waiting.size(), size_t(game_options_.max_leaves)));
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      const int index = waiting[size_t(i)];
      int simulations_left = 1;
      batch_.run(games_[size_t(index)].turn, index, simulations_left);
    }
    waiting.erase(waiting.begin(), waiting.begin() + count);
    return batch_.leaves;
  }

  void expand_and_backup(const float* logits, const float* values, std::uint32_t version) override {
    batch_.distribute(
        logits, values, version, [&](int, int index, const std::uint16_t* l, float v) { move(index, l, v); },
        [&](int, int index) { start_game(index); },  // a game with a broken evaluation is dropped and counted
        [](int, int) {});
  }

  int size() const override { return int(games_.size()); }
  const Leaves& leaves() const override { return batch_.leaves; }
  int num_finished() const override { return int(finished_.size()); }
  std::vector<GameColumns> take_finished() override { return std::exchange(finished_, {}); }
  const Counters& counters() const override { return batch_.counters; }
  float resign_value() const override { return -1; }
  void begin_with_resign_value(float) override {}

  void play_pseudo_random(std::uint64_t simulations) override {
    shusaku::play_pseudo_random(*this, rules_->shape(), simulations);
  }

  std::string snapshot() override {
    return sealed(fingerprint(), [&](Writer& w) { archive_all(w); });
  }

  void restore(std::string_view bytes) override {
    unseal(bytes, fingerprint(), [&](Reader& r) { archive_all(r); });
  }

  // `policy_plies`: the moves that the first policy still makes; 0: the random move was made.
  OpenGame open_game(int index) const override {
    const ParallelGame& game = games_[size_t(index)];
    OpenGame open{game.columns, std::max(0, game.switch_ply - 1 - rules_->ply(game.turn.position))};
    open.columns.index = index, open.columns.number = game.num_started;
    return open;
  }

  void resume(int index, OpenGame open) override {
    const GameColumns& c = open.columns;
    check_lengths(c);
    Position position = rules_->start();
    int switch_ply = 0;
    for (size_t t = 0; t < c.actions.size(); ++t) {
      play_again(*rules_, position, c.actions[t], t, legal_);
      if (c.kind[t] == kOpening) switch_ply = int(t) + 1;
    }
    if (rules_->is_terminal(position)) throw std::invalid_argument("the game is over");
    if (switch_ply == 0 && open.policy_plies < 1)
      throw std::invalid_argument("the game has no random move, and none is to come");
    if (switch_ply == 0) switch_ply = int(c.actions.size()) + std::min(open.policy_plies, rules_->max_plies()) + 1;
    ParallelGame& game = games_[size_t(index)];
    std::erase(waiting_[is_switched(game)], index);
    game.turn.position = position;
    game.switch_ply = switch_ply;
    game.columns = std::move(open.columns);
    waiting_[is_switched(game)].push_back(index);
  }

 private:
  // What the batch of leaves needs of a search: one position and its legal actions.
  struct Turn {
    Turn(const G& rules, size_t actions) : rules(&rules), position(rules.start()), actions(actions) {}

    static constexpr bool kUsesNetwork = true;
    const G* rules;
    Position position;
    std::vector<Action> actions;  // [padded A]
    int num_actions = 0;

    Step run(int&, std::uint64_t&) {
      num_actions = rules->legal_actions(position, actions.data());
      return Step::kLeaf;
    }
    const Position& leaf() const { return position; }
    const Action* leaf_actions() const { return actions.data(); }
    int num_leaf_actions() const { return num_actions; }
    void expand(const std::uint16_t*, float) { assert(false); }  // only what a cache knows
  };

  struct ParallelGame {
    Turn turn;
    GameColumns columns = {};
    std::uint64_t num_started = 0;  // games with this index so far
    std::int32_t switch_ply = 0;    // U: plies before the position that is learned from
  };

  static SearchOptions without_cache(SearchOptions options) {
    options.cache = 0;  // two networks cannot share one, and few positions come twice
    options.symmetric_cache = false;
    return options;
  }

  std::uint64_t game_seed(int index) const {
    return combine(combine(seed_, std::uint64_t(index)), games_[size_t(index)].num_started);
  }

  // The random move was made: ply U is reached.
  bool is_switched(const ParallelGame& game) const { return rules_->ply(game.turn.position) >= game.switch_ply; }

  void start_game(int index) {
    ParallelGame& game = games_[size_t(index)];
    do {  // again if the game ended before the position to be learned from
      ++game.num_started;
      Random random(combine(game_seed(index), 0));
      game.turn.position = rules_->start();
      game.columns = {};
      game.switch_ply = 1 + std::int32_t(random.below(std::uint64_t(game_options_.last_switch)));
    } while (!go_on(index));
  }

  // Makes the random move if it is the turn of that; false if the game has ended by then.
  bool go_on(int index) {
    ParallelGame& game = games_[size_t(index)];
    const Position& position = game.turn.position;
    if (!rules_->is_terminal(position) && rules_->ply(position) == game.switch_ply - 1) {
      Random random(ply_seed(index));
      add_row(game, sample_action(*rules_, position, random, legal_.data()), kOpening, 0.f, 0.f);
    }
    if (rules_->is_terminal(position)) {
      ++batch_.counters.discarded;
      return false;
    }
    waiting_[is_switched(game)].push_back(index);
    return true;
  }

  std::uint64_t ply_seed(int index) const {
    return combine(game_seed(index), 1 + std::uint64_t(rules_->ply(games_[size_t(index)].turn.position)));
  }

  void move(int index, const std::uint16_t* logits, float value) {
    ParallelGame& game = games_[size_t(index)];
    const Position& position = game.turn.position;
    const int count = game.turn.num_actions, ply = rules_->ply(position);
    for (int i = 0; i < count; i += kLanes) F8::load_half(logits + i).store(&probabilities_[size_t(i)]);
    Tree::softmax(probabilities_.data(), count);
    weights_.assign(probabilities_.begin(), probabilities_.begin() + count);
    Random random(ply_seed(index));
    const bool is_learned = game_options_.learns_all || ply == game.switch_ply, was_switched = is_switched(game);
    const float temperature = was_switched ? game_options_.temperature : float(move_temperature(options_, ply));
    const int choice = sample(weights_, weights_, temperature, random);
    ++batch_.counters.searches;
    add_row(game, game.turn.actions[size_t(choice)], kFull, value, is_learned ? 1.f : 0.f);
    if (was_switched && rules_->is_terminal(position)) {
      finish(index);
      start_game(index);
    } else if (was_switched) {
      waiting_[1].push_back(index);
    } else if (!go_on(index)) {
      start_game(index);
    }
  }

  // The policy of a row is the move itself, as in an imported game.
  void add_row(ParallelGame& game, Action action, RowKind kind, float value, float weight) {
    GameColumns& c = game.columns;
    if (weight > 0) c.policy_actions.push_back(action), c.policy_shares.push_back(65535);
    c.actions.push_back(action);
    c.policy_offsets.push_back(std::uint32_t(c.policy_actions.size()));
    c.root_values.push_back(value), c.raw_values.push_back(value);
    c.versions.push_back(version_), c.kind.push_back(kind);
    c.row_weight.push_back(weight), c.surprise.push_back(0.f);
    rules_->play(game.turn.position, action);
    ++batch_.counters.plies;
  }

  void finish(int index) {
    ParallelGame& game = games_[size_t(index)];
    GameColumns& c = game.columns;
    c.index = index, c.number = game.num_started;
    take_result(*rules_, game.turn.position, c);
    batch_.counters.rows += std::uint64_t(std::ranges::count_if(c.row_weight, [](float w) { return w > 0; }));
    ++batch_.counters.games;
    finished_.push_back(std::move(c));
  }

  template <class Archive>
  void archive_all(Archive& a) {
    for (std::vector<int>& waiting : waiting_) a.vector(waiting);
    for (ParallelGame& game : games_) archive(a, game);
  }

  template <class Archive>
  void archive(Archive& a, ParallelGame& game) {
    a.number(game.turn.position);
    game.columns.archive(a);
    a.number(game.num_started), a.number(game.switch_ply);
  }

  // A hash of everything that a snapshot's meaning depends on.
  std::uint64_t fingerprint() const {
    return checksum(name_of(*rules_) + " value games " + std::to_string(games_.size()) + " " + std::to_string(seed_) +
                    " " + std::to_string(kSnapshotFormat) + " " + std::to_string(sizeof(Position)) + " " +
                    std::to_string(game_options_.last_switch) + (game_options_.learns_all ? " all" : ""));
  }

  const G* rules_;
  SearchOptions options_;
  ValueGamesOptions game_options_;
  std::uint64_t seed_;
  std::uint32_t version_ = 0;
  int network_ = 0;
  LeafBatch<G, Turn> batch_;
  std::vector<ParallelGame> games_;
  std::vector<GameColumns> finished_;
  std::vector<int> waiting_[2];       // for the network of this number: game indices, the longest first
  std::vector<Action> legal_;         // scratch
  std::vector<float> probabilities_;  // scratch, padded
  std::vector<float> weights_;        // scratch
};

}  // namespace shusaku
