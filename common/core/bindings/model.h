// The erased interface over one game: included once a game, by games/<game>.cpp.
#pragma once

#include <stdexcept>

#include "bindings/erased.h"
#include "search/gumbel.h"
#include "search/policy_only.h"
#include "search/puct.h"
#include "search/timings.h"
#include "search/uct.h"

namespace shusaku {

template <GameRules G>
class Model final : public AnyGame {
 public:
  explicit Model(const Params& params) : params_(params), rules_(params) {}
  Model(const Params& params, G rules) : params_(params), rules_(std::move(rules)) {}

  static std::shared_ptr<const AnyGame> make(const Params& params) { return std::make_shared<Model<G>>(params); }

  std::string name() const override { return name_of(rules_); }
  const Params& params() const override { return params_; }
  int num_actions() const override { return rules_.num_actions(); }
  int max_plies() const override { return rules_.max_plies(); }
  int max_legal_actions() const override { return rules_.max_legal_actions(); }
  Shape shape() const override { return rules_.shape(); }
  int num_symmetries() const override { return rules_.num_symmetries(); }
  Action permute(int symmetry, Action action) const override { return rules_.permute(symmetry, action); }
  int permute_cell(int symmetry, int cell) const override { return rules_.permute_cell(symmetry, cell); }

  std::unique_ptr<AnyPosition> start() const override {
    return std::make_unique<PositionModel>(self(), rules_.start());
  }
  std::unique_ptr<AnyPosition> parse(const std::string& text) const override {
    return std::make_unique<PositionModel>(self(), rules_.parse(text));
  }
  std::unique_ptr<AnyPosition> arrange(const std::string& text) const override {
    if constexpr (HasArrange<G>)
      return std::make_unique<PositionModel>(self(), rules_.arrange(text));
    else
      return parse(text);
  }

  std::uint64_t random_games(int games, std::uint64_t seed) const override {
    Random random(seed);
    std::vector<Action> legal(size_t(rules_.max_legal_actions()));
    std::uint64_t plies = 0;
    for (int g = 0; g < games; ++g)
      for (auto p = rules_.start(); !rules_.is_terminal(p); ++plies) {
        rules_.play(p, sample_action(rules_, p, random, legal.data()));
      }
    return plies;
  }

  std::map<std::string, double> timings(int games, std::uint64_t seed) const override {
    return shusaku::timings(rules_, games, seed);
  }

  std::unique_ptr<AnySearchBatch> search_batch(const SearchOptions& o, int size, std::uint64_t seed) const override {
    return with_policy<std::unique_ptr<AnySearchBatch>>(
        o, [&]<class P>(P*) { return std::make_unique<SearchModel<P>>(*this, o, size, seed); });
  }

  std::unique_ptr<AnyGameBatch> game_batch(const SearchOptions& o, const SelfPlayOptions& p, int size,
                                           std::uint64_t seed) const override {
    return with_policy<std::unique_ptr<AnyGameBatch>>(
        o, [&]<class P>(P*) { return std::make_unique<GameBatch<G, P>>(rules_, o, p, size, seed); });
  }

  std::unique_ptr<AnyGameBatch> value_games(const SearchOptions& o, const ValueGamesOptions& v, int size,
                                            std::uint64_t seed) const override {
    return std::make_unique<ValueGames<G>>(rules_, o, v, size, seed);
  }

  std::unique_ptr<AnyAnalysis> analysis(const SearchOptions& o, int threads, int leaves, int megabytes,
                                        std::uint64_t seed) const override {
    if (o.policy == "alphago")
      return std::make_unique<AnalysisModel<AlphaGoSearch<G>>>(*this, o, threads, leaves, megabytes, seed);
    return std::make_unique<AnalysisModel<AnalysisSearch<G>>>(*this, o, threads, leaves, megabytes, seed);
  }

  std::unique_ptr<AnyRollouts> rollouts(const std::string& file) const override {
    return std::make_unique<RolloutsModel>(*this, file);
  }

  std::unique_ptr<AnyRolloutTraining> rollout_training() const override {
    if constexpr (HasRolloutPolicy<G>)
      return std::make_unique<LearnedRollouts<G>>(rules_);
    else
      throw std::invalid_argument("game " + name() + " has no rollout policy to learn; its rollouts are uniform");
  }

  std::unique_ptr<AnyRowRing> row_ring(std::int64_t capacity, const LabelOptions& labels,
                                       bool keeps_moves) const override {
    return std::make_unique<RowRing<G>>(rules_, capacity, labels, keeps_moves);
  }

 private:
  using Self = std::shared_ptr<const Model<G>>;
  // The table of tree policies: calls `make` with a null pointer to the one that the options name.
  template <class Made, class Make>
  Made with_policy(const SearchOptions& o, Make make) const {
    const std::string& name = o.policy;
    if (o.graph) {
      if (name != "puct")
        throw std::invalid_argument("search.graph=true: policy " + name +
                                    " grows a tree; use search.policy=puct or search.graph=false");
      if (!has_transposition_key(rules_))
        throw std::invalid_argument("search.graph=true: game " + this->name() +
                                    " has no transposition_key, so no two positions are known to have the same future; "
                                    "add the method or use search.graph=false");
      return make(static_cast<GraphPuct*>(nullptr));
    }
    if (name == "puct") return make(static_cast<Puct*>(nullptr));
    if (name == "gumbel") return make(static_cast<Gumbel*>(nullptr));
    if (name == "mcts") return make(static_cast<Uct*>(nullptr));
    if (name == "policy_only") return make(static_cast<PolicyOnly*>(nullptr));
    if (name == "alphago")
      throw std::invalid_argument(
          "search.policy=alphago: searches one position at a time, for match, gtp, uci, usi, "
          "play, view and analyse; use another search here");
    throw std::invalid_argument("unknown search policy '" + name +
                                "': expected one of puct, gumbel, mcts, policy_only, alphago");
  }

  Self self() const { return std::static_pointer_cast<const Model<G>>(shared_from_this()); }

  class PositionModel final : public AnyPosition {
   public:
    PositionModel(Self game, const typename G::Position& position) : game_(std::move(game)), position_(position) {}
    const AnyGame& game() const override { return *game_; }
    std::unique_ptr<AnyPosition> copy() const override { return std::make_unique<PositionModel>(*this); }
    int to_play() const override { return rules().to_play(position_); }
    int ply() const override { return rules().ply(position_); }
    bool is_terminal() const override { return rules().is_terminal(position_); }
    int outcome() const override { return rules().outcome(position_); }
    float score() const override { return rules().score(position_); }
    bool is_cut_off() const override { return rules().is_cut_off(position_); }
    std::vector<std::int8_t> ownership() const override {
      std::vector<std::int8_t> map;
      if constexpr (HasOwnership<G>) {
        map.resize(size_t(rules().shape().cells()));
        rules().ownership(position_, map.data());
      }
      return map;
    }
    std::vector<Action> legal_actions() const override {
      std::vector<Action> list(size_t(rules().max_legal_actions()));
      list.resize(size_t(rules().legal_actions(position_, list.data())));
      return list;
    }
    std::uint64_t evaluation_key() const override { return rules().evaluation_key(position_); }
    std::uint64_t transposition_key() const override { return rules().transposition_key(position_); }
    void play(Action action) override { rules().play(position_, action); }
    void observe(int symmetry, std::uint8_t* bits, float* uniform) const override {
      rules().observe(position_, symmetry, bits, uniform);
    }
    std::string to_move(Action action) const override { return rules().to_move(position_, action); }
    std::string to_san(Action action) const override {
      if constexpr (HasSan<G>)
        return rules().to_san(position_, action);
      else
        return {};
    }
    int from_move(const std::string& text) const override { return rules().from_move(position_, text); }
    std::string why_illegal(const std::string& text) const override {
      if constexpr (HasWhyIllegal<G>)
        return rules().why_illegal(position_, text);
      else
        return {};
    }
    std::string render() const override { return rules().render(position_); }
    std::string to_text() const override {
      if constexpr (HasText<G>)
        return rules().to_text(position_);
      else
        return {};
    }
    std::uint64_t perft(int depth) const override {
      if constexpr (HasPerft<G>)
        return rules().perft(position_, depth);
      else
        return count(position_, depth);
    }

   private:
    friend Model;
    const G& rules() const { return game_->rules_; }
    // Leaves of the game tree at `depth`; finished games do not go on.
    std::uint64_t count(const typename G::Position& p, int depth) const {
      if (depth == 0) return 1;
      std::vector<Action> list(size_t(rules().max_legal_actions()));
      const int legal = rules().legal_actions(p, list.data());
      if (depth == 1) return std::uint64_t(legal);
      std::uint64_t nodes = 0;
      for (int i = 0; i < legal; ++i) {
        auto next = p;
        rules().play(next, list[size_t(i)]);
        nodes += count(next, depth - 1);
      }
      return nodes;
    }

    Self game_;
    typename G::Position position_;
  };

  template <class P>
  class SearchModel final : public SearchBatch<G, P> {
   public:
    SearchModel(const Model& game, const SearchOptions& o, int size, std::uint64_t seed)
        : SearchBatch<G, P>(game.rules_, o, size, seed), game_(game) {}
    void begin(int index, const AnyPosition& position, std::uint64_t seed) override {
      this->begin_at(index, game_.unwrap(position), seed);
    }

   private:
    const Model& game_;
  };

  template <class S>
  class AnalysisModel final : public Analysis<G, S> {
   public:
    AnalysisModel(const Model& game, const SearchOptions& o, int threads, int leaves, int megabytes, std::uint64_t seed)
        : Analysis<G, S>(game.rules_, o, threads, leaves, megabytes, seed), game_(game) {}
    void set_position(const AnyPosition& position) override { this->set_position_to(game_.unwrap(position)); }

   private:
    const Model& game_;
  };

  class RolloutsModel final : public AnyRollouts {
   public:
    RolloutsModel(const Model& game, const std::string& file) : game_(game), rollouts_(game.rules_, file) {}
    float play(const AnyPosition& position, std::uint64_t seed, std::vector<Action>& moves) const override {
      Random random(seed);
      return rollouts_.play_out(game_.unwrap(position), random, list().data(),
                                [&](Action action) { moves.push_back(action); });
    }
    std::uint64_t count_plies(const AnyPosition& position, int rollouts, std::uint64_t seed) const override {
      Random random(seed);
      std::vector<Action> scratch = list();
      std::uint64_t plies = 0;
      for (int i = 0; i < rollouts; ++i)
        rollouts_.play_out(game_.unwrap(position), random, scratch.data(), [&](Action) { ++plies; });
      return plies;
    }
    std::vector<float> priors(const AnyPosition& position) const override {
      const auto& p = game_.unwrap(position);
      std::vector<Action> legal = list();
      std::vector<float> probabilities(size_t(game_.rules_.legal_actions(p, legal.data())));
      rollouts_.priors(p, legal.data(), int(probabilities.size()), probabilities.data());
      return probabilities;
    }
    RolloutCandidates candidates(const AnyPosition& position) const override {
      RolloutCandidates found;
      if constexpr (HasRolloutPolicy<G>)
        typename G::RolloutPolicy(game_.rules_, RolloutWeights{}).candidates(game_.unwrap(position), found);
      else
        found.clear();
      return found;
    }

   private:
    std::vector<Action> list() const { return std::vector<Action>(size_t(game_.rules_.max_legal_actions())); }
    const Model& game_;
    Rollouts<G> rollouts_;
  };

  // A template, so that it is compiled only for games that have a policy.
  template <class Rules>
  class LearnedRollouts final : public AnyRolloutTraining {
   public:
    explicit LearnedRollouts(const Rules& rules) : training_(rules) {}
    void add(std::vector<Action> moves, const std::vector<float>& weights, bool is_unseen) override {
      training_.add(std::move(moves), weights, is_unseen);
    }
    size_t begin(std::int64_t least_seen) override { return training_.begin(least_seen); }
    RolloutFit learn(float rate, std::uint64_t seed) override { return training_.learn(rate, seed); }
    RolloutFit measure() override { return training_.measure(); }
    RolloutWeights weights(std::string note) const override { return training_.weights(std::move(note)); }

   private:
    RolloutTraining<Rules> training_;
  };

  const typename G::Position& unwrap(const AnyPosition& position) const {
    const auto* mine = dynamic_cast<const PositionModel*>(&position);
    const Model* theirs = mine ? mine->game_.get() : nullptr;
    if (!theirs || (theirs != this && (theirs->name() != name() || theirs->params_ != params_)))
      throw std::invalid_argument("the position is of another game than " + name());
    return mine->position_;
  }

  Params params_;
  G rules_;
};

}  // namespace shusaku
