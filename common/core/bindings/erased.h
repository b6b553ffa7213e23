// One interface over all games, for the bindings: virtual calls happen once a batch, never once a simulation.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analysis/analysis.h"
#include "games/game.h"
#include "rows/row_ring.h"
#include "search/game_batch.h"
#include "search/options.h"
#include "search/rollout_training.h"
#include "search/search_batch.h"
#include "search/value_games.h"

namespace shusaku {

class AnyGame;
class AnyPosition;

// Rollouts<G>, for measurements and tests.
class AnyRollouts {
 public:
  virtual ~AnyRollouts() = default;
  virtual float play(const AnyPosition& position, std::uint64_t seed, std::vector<Action>& moves) const = 0;
  virtual std::uint64_t count_plies(const AnyPosition& position, int rollouts, std::uint64_t seed) const = 0;
  virtual std::vector<float> priors(const AnyPosition& position) const = 0;  // of the legal actions
  virtual RolloutCandidates candidates(const AnyPosition& position) const = 0;
};

// RolloutTraining<G>.
class AnyRolloutTraining {
 public:
  virtual ~AnyRolloutTraining() = default;
  virtual void add(std::vector<Action> moves, const std::vector<float>& weights, bool is_unseen) = 0;
  virtual size_t begin(std::int64_t least_seen) = 0;
  virtual RolloutFit learn(float rate, std::uint64_t seed) = 0;
  virtual RolloutFit measure() = 0;
  virtual RolloutWeights weights(std::string note) const = 0;
};

class AnyPosition {
 public:
  virtual ~AnyPosition() = default;
  virtual const AnyGame& game() const = 0;
  virtual std::unique_ptr<AnyPosition> copy() const = 0;
  virtual int to_play() const = 0;
  virtual int ply() const = 0;
  virtual bool is_terminal() const = 0;
  virtual int outcome() const = 0;
  virtual float score() const = 0;
  virtual bool is_cut_off() const = 0;
  virtual std::vector<std::int8_t> ownership() const = 0;  // [H * W]; empty if the game has none
  virtual std::vector<Action> legal_actions() const = 0;
  virtual std::uint64_t evaluation_key() const = 0;
  virtual std::uint64_t transposition_key() const = 0;
  virtual void play(Action action) = 0;  // legal
  virtual void observe(int symmetry, std::uint8_t* bits, float* uniform) const = 0;
  virtual std::string to_move(Action action) const = 0;
  virtual std::string to_san(Action action) const = 0;  // empty if the game has no such notation
  virtual int from_move(const std::string& text) const = 0;
  virtual std::string why_illegal(const std::string& text) const = 0;  // empty if nothing is known
  virtual std::string render() const = 0;
  virtual std::string to_text() const = 0;  // empty if the game does not write its positions
  virtual std::uint64_t perft(int depth) const = 0;
};

class AnyGame : public std::enable_shared_from_this<AnyGame> {
 public:
  virtual ~AnyGame() = default;
  virtual std::string name() const = 0;
  virtual const Params& params() const = 0;
  virtual int num_actions() const = 0;
  virtual int max_plies() const = 0;
  virtual int max_legal_actions() const = 0;
  virtual Shape shape() const = 0;
  virtual int num_symmetries() const = 0;
  virtual Action permute(int symmetry, Action action) const = 0;
  virtual int permute_cell(int symmetry, int cell) const = 0;
  virtual std::unique_ptr<AnyPosition> start() const = 0;
  virtual std::unique_ptr<AnyPosition> parse(const std::string& text) const = 0;
  virtual std::unique_ptr<AnyPosition> arrange(const std::string& text) const = 0;
  virtual std::uint64_t random_games(int games, std::uint64_t seed) const = 0;
  virtual std::map<std::string, double> timings(int games, std::uint64_t seed) const = 0;
  virtual std::unique_ptr<AnySearchBatch> search_batch(const SearchOptions& o, int size, std::uint64_t seed) const = 0;
  virtual std::unique_ptr<AnyGameBatch> game_batch(const SearchOptions& o, const SelfPlayOptions& p, int size,
                                                   std::uint64_t seed) const = 0;
  virtual std::unique_ptr<AnyGameBatch> value_games(const SearchOptions& o, const ValueGamesOptions& v, int size,
                                                    std::uint64_t seed) const = 0;
  virtual std::unique_ptr<AnyAnalysis> analysis(const SearchOptions& o, int threads, int leaves, int megabytes,
                                                std::uint64_t seed) const = 0;
  virtual std::unique_ptr<AnyRollouts> rollouts(const std::string& file) const = 0;
  virtual std::unique_ptr<AnyRolloutTraining> rollout_training() const = 0;
  virtual std::unique_ptr<AnyRowRing> row_ring(std::int64_t capacity, const LabelOptions& labels,
                                               bool keeps_moves) const = 0;
};

// A game of the core: defined in games/<game>.cpp, listed in games/list.def.
struct GameEntry {
  const char* name;
  std::vector<ParamHelp> (*parameters)();
  std::shared_ptr<const AnyGame> (*make)(const Params& params);     // with every parameter given
  void (*complete)(Params& params, const Params& given) = nullptr;  // sets defaults that depend on other parameters
};
const std::vector<GameEntry>& game_table();
std::shared_ptr<const AnyGame> make_game(const std::string& name, const Params& params);

// Names of external games (plug-ins), which common/external/loader.py finds by their parameters.
constexpr const char* kExternalNames[] = {"open_spiel", "python"};
bool is_external(const std::string& name);
std::shared_ptr<const AnyGame> make_external_game(const std::string& name, const Params& params);  // with the GIL

}  // namespace shusaku
