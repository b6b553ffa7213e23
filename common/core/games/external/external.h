// The one adapter through which games from outside the core are played, searched and learned like the others.
//
// A position is a plain value, as everywhere: the text that it was set up from, if any, and the ACTIONS since.  The
// states that the game makes of them lie in a bounded cache inside the rules; one that is no longer there is played
// again from its nearest ancestor that is.  So positions own no state, copies and snapshots of positions are bytes, and
// memory is bounded however many games are played.
//
//   Position   key | ply, to_play, ... | words: [ text, two bytes a word | action | action | ... ]
//
// kWords bounds text and actions together: games come in a few sizes, that of a position is what a copy costs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "games/external/cache.h"

namespace shusaku {

constexpr int kExternalTextWords = 512;  // of every position, for the text that it was set up from

template <int kWords>
struct ExternalRules {
  static constexpr const char* kName = "external";
  static constexpr bool kAlternates = false;
  static constexpr int kMaxPlies = kWords - kExternalTextWords;

  struct Position {
    std::uint64_t key = 0;  // of the history
    float score = 0;
    std::uint32_t ply = 0;  // since the start, or since the position that was set up
    std::uint16_t text_bytes = 0;
    std::int8_t to_play = 0, outcome = 0;
    bool is_terminal = false, is_cut_off = false;
    std::uint16_t words[kWords] = {};

    int text_words() const { return (text_bytes + 1) / 2; }
    Action action(std::uint32_t k) const { return words[size_t(text_words()) + k]; }
    std::string text() const { return {reinterpret_cast<const char*>(words), text_bytes}; }
  };

  explicit ExternalRules(std::shared_ptr<const ExternalGame> game)
      : metadata_(game->metadata()), shared_(std::make_shared<Shared>(std::move(game), metadata_.cached_states)) {}
  static std::vector<ParamHelp> parameters() { return {}; }  // the game's own come through bindings/

  std::string name() const { return metadata_.name; }
  int num_actions() const { return metadata_.num_actions; }
  int max_plies() const { return metadata_.max_plies; }
  int max_legal_actions() const { return metadata_.max_legal_actions; }
  Shape shape() const { return metadata_.shape; }
  int num_symmetries() const { return metadata_.num_symmetries; }
  Action permute(int symmetry, Action action) const {
    return metadata_.actions[size_t(symmetry) * size_t(metadata_.num_actions) + action];
  }
  int permute_cell(int symmetry, int cell) const {
    return metadata_.cells[size_t(symmetry) * size_t(metadata_.shape.cells()) + size_t(cell)];
  }

  Position start() const { return rooted("", *shared_->start); }
  Position parse(const std::string& text) const {
    if (text.size() > 2 * kExternalTextWords)
      throw std::invalid_argument("a position of " + std::to_string(text.size()) + " bytes: at most " +
                                  std::to_string(2 * kExternalTextWords) + " are taken");
    if (text.empty()) throw std::invalid_argument("a position of no text: leave it out for the start");
    const ExternalStatePtr state = shared_->game->parse(text);
    const Position p = rooted(text, *state);
    shared_->cache.store(p.key, state);
    return p;
  }

  // Without the words that are not in use.
  void copy(const Position& from, Position& to) const {
    std::memcpy(static_cast<void*>(&to), &from, offsetof(Position, words) + 2 * (size_t(from.text_words()) + from.ply));
  }

  int to_play(const Position& p) const { return p.to_play; }
  int ply(const Position& p) const { return int(p.ply); }
  bool is_terminal(const Position& p) const { return p.is_terminal; }
  int outcome(const Position& p) const { return p.outcome; }
  float score(const Position& p) const { return p.score; }
  bool is_cut_off(const Position& p) const { return p.is_cut_off; }

  int legal_actions(const Position& p, Action* out) const {
    if (p.is_terminal) return 0;
    const ExternalStatePtr known = state(p);
    std::copy(known->legal.begin(), known->legal.end(), out);
    return int(known->legal.size());
  }

  // Leaves `p` as it is if the game fails.
  void play(Position& p, Action action) const {
    const std::uint64_t key = combine(p.key, action);
    ExternalStatePtr next = shared_->cache.find(key);
    if (!next) {
      next = located(p, [&] { return played(*state(p), action, p.ply + 1); });
      shared_->cache.store(key, next);
    }
    p.words[size_t(p.text_words()) + p.ply] = action;
    ++p.ply;
    p.key = key;
    take(p, *next);
  }

  std::uint64_t evaluation_key(const Position& p) const { return planes(p)->key; }

  // The game's own key if it has one; else the history's: the same actions have the same future.
  std::uint64_t transposition_key(const Position& p) const {
    const auto key = located(p, [&] { return shared_->game->transposition_key(*state(p)); });
    return key ? *key : p.key;
  }

  bool has_transposition_key() const { return shared_->game->transposition_key(*shared_->start).has_value(); }

  void observe(const Position& p, int symmetry, std::uint8_t* bits, float* uniform) const {
    const auto seen = planes(p);
    std::copy(seen->uniform.begin(), seen->uniform.end(), uniform);
    if (symmetry == 0) {
      std::copy(seen->bits.begin(), seen->bits.end(), bits);
      return;
    }
    const int area = metadata_.shape.cells();
    const int* cells = &metadata_.cells[size_t(symmetry) * size_t(area)];
    std::memset(bits, 0, seen->bits.size());
    for (size_t byte = 0; byte < seen->bits.size(); ++byte)
      for (unsigned left = seen->bits[byte]; left; left &= left - 1) {
        const int from = int(8 * byte) + std::countr_zero(left), plane = from / area * area;
        const int to = plane + cells[from - plane];
        bits[to / 8] |= std::uint8_t(1u << to % 8);
      }
  }

  std::string to_move(const Position& p, Action action) const {
    return located(p, [&] { return shared_->game->to_move(*state(p), action); });
  }
  int from_move(const Position& p, const std::string& text) const {
    return located(p, [&] { return shared_->game->from_move(*state(p), text); });
  }
  std::string render(const Position& p) const {
    return located(p, [&] { return shared_->game->render(*state(p)); });
  }

 private:
  struct Shared {
    Shared(std::shared_ptr<const ExternalGame> rules, size_t states)
        : game(std::move(rules)), start(game->start()), cache(states) {}
    std::shared_ptr<const ExternalGame> game;
    ExternalStatePtr start;
    ExternalCache cache;
  };

  static void take(Position& p, const ExternalState& state) {
    p.score = state.score, p.to_play = state.to_play, p.outcome = state.outcome;
    p.is_terminal = state.is_terminal, p.is_cut_off = state.is_cut_off;
  }

  static std::uint64_t root_key(const std::string& text) {
    std::uint64_t key = mix64(1 + text.size());
    for (char c : text) key = combine(key, static_cast<unsigned char>(c));
    return key;
  }

  static Position rooted(const std::string& text, const ExternalState& state) {
    Position p;
    p.key = root_key(text);
    p.text_bytes = std::uint16_t(text.size());
    std::memcpy(p.words, text.data(), text.size());
    take(p, state);
    return p;
  }

  ExternalStatePtr played(const ExternalState& state, Action action, std::uint32_t ply) const {
    ExternalStatePtr next = shared_->game->play(state, action);
    if (!next->is_terminal && ply >= std::uint32_t(metadata_.max_plies))
      throw ExternalError(metadata_.label + ": the game goes on after " + std::to_string(ply) + " plies, and its " +
                          "max_plies is " + std::to_string(metadata_.max_plies) + ": no game may be longer");
    return next;
  }

  ExternalStatePtr root(const Position& p) const {
    if (p.text_bytes == 0) return shared_->start;
    const std::string text = p.text();
    ExternalStatePtr known = shared_->cache.find(root_key(text));
    return known ? known : shared_->game->parse(text);
  }

  ExternalStatePtr state(const Position& p) const {
    ExternalStatePtr known = p.ply == 0 ? root(p) : shared_->cache.find(p.key);
    return known ? known : located(p, [&] { return replayed(p); });
  }

  // From the nearest ancestor that is known.
  ExternalStatePtr replayed(const Position& p) const {
    std::vector<std::uint64_t> keys{root_key(p.text())};
    for (std::uint32_t k = 0; k < p.ply; ++k) keys.push_back(combine(keys.back(), p.action(k)));
    std::uint32_t k = p.ply;
    ExternalStatePtr at;
    while (k > 0 && !(at = shared_->cache.find(keys[k]))) --k;
    if (k == 0) at = root(p);
    for (; k < p.ply; ++k) {
      at = played(*at, p.action(k), k + 1);
      shared_->cache.store(keys[k + 1], at);
    }
    if (at->to_play != p.to_play || at->is_terminal != p.is_terminal || at->outcome != p.outcome)
      throw ExternalError(metadata_.label +
                          ": play() led elsewhere when the same actions were played again: the same "
                          "actions must lead to the same state every time");
    return at;
  }

  std::shared_ptr<const ExternalPlanes> planes(const Position& p) const {
    const ExternalStatePtr known = state(p);
    return shared_->cache.planes(*known, [&] { return located(p, [&] { return shared_->game->observe(*known); }); });
  }

  // Returns what `ask` returns; adds to an error how the position came about.
  template <class Ask>
  auto located(const Position& p, Ask ask) const -> decltype(ask()) {
    try {
      return ask();
    } catch (const ExternalError& error) {
      if (error.has_history) throw;
      throw ExternalError(error.what() + history(p), true);
    }
  }

  std::string history(const Position& p) const {
    std::string text = p.text_bytes ? "; from the position '" + p.text() + "'" : "; from the start";
    if (p.ply == 0) return text;
    std::string actions, moves;
    for (std::uint32_t k = 0; k < p.ply; ++k) actions += " " + std::to_string(p.action(k));
    try {
      ExternalStatePtr at = root(p);
      for (std::uint32_t k = 0; k < p.ply; ++k) {
        moves += " " + shared_->game->to_move(*at, p.action(k));
        if (k + 1 < p.ply) at = shared_->game->play(*at, p.action(k));
      }
    } catch (const ExternalError&) {
      moves.clear();  // the game cannot name its moves
    }
    text += " after the actions" + actions;
    return moves.empty() || moves == actions ? text : text + ", the moves" + moves;
  }

  ExternalMetadata metadata_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace shusaku
