// A game that is written in another language, as the core sees it: virtual calls that may take microseconds, and
// states that only the game understands.  `ExternalRules` (external.h) makes a game of the core of it; bindings/
// implements it over Python, so that nothing here knows of Python.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "games/game.h"

namespace shusaku {

// The game broke its contract; the text names the method, the rule and the value.
struct ExternalError : std::runtime_error {
  explicit ExternalError(const std::string& text, bool has_history = false)
      : std::runtime_error(text), has_history(has_history) {}
  bool has_history;  // the moves that led there are in the text
};

// The planes of symmetry 0 as `observe` writes them, and their hash together with the legal actions.
struct ExternalPlanes {
  std::vector<std::uint8_t> bits;
  std::vector<float> uniform;
  std::uint64_t key = 0;
};

// A state of the game and what is known of it: each method is called once a state.  Shared, and never changed, but for
// `planes`, which the first caller fills in under the lock of the cache.
class ExternalState {
 public:
  virtual ~ExternalState() = default;
  std::vector<Action> legal;  // ascending; none iff terminal
  float score = kNoScore;
  std::int8_t to_play = 0, outcome = 0;  // the outcome is for the player to move
  bool is_terminal = false, is_cut_off = false;
  std::shared_ptr<const ExternalPlanes> planes;
};
using ExternalStatePtr = std::shared_ptr<ExternalState>;

struct ExternalMetadata {
  std::string name;   // as game_names() would list it
  std::string label;  // for messages: which game
  int num_actions = 0, max_plies = 0, max_legal_actions = 0;
  Shape shape{};
  int num_symmetries = 1;
  std::vector<int> cells;       // [S, H * W] where a cell lies in the view
  std::vector<Action> actions;  // [S, A]
  size_t cached_states = 0;     // states kept at most
};

// Every call throws ExternalError if the game breaks its contract.  Called from several threads at once.
class ExternalGame {
 public:
  virtual ~ExternalGame() = default;
  virtual const ExternalMetadata& metadata() const = 0;
  virtual ExternalStatePtr start() const = 0;
  virtual ExternalStatePtr play(const ExternalState& state, Action action) const = 0;
  virtual ExternalStatePtr parse(const std::string& text) const = 0;  // std::invalid_argument naming what is wrong
  virtual ExternalPlanes observe(const ExternalState& state) const = 0;
  virtual std::optional<std::uint64_t> transposition_key(const ExternalState& state) const = 0;  // if it has them
  virtual std::string to_move(const ExternalState& state, Action action) const = 0;
  virtual int from_move(const ExternalState& state, const std::string& text) const = 0;  // -1: no move of this game
  virtual std::string render(const ExternalState& state) const = 0;
};

}  // namespace shusaku
