// What a game is: rules (fixed while a game is played) and a position (a trivially copyable value).
//
// Every value is for the player to move.  No virtual call, no allocation: lists belong to the caller.  A new game is
// one header that meets `GameRules`, one file in bindings/games/ and one line in its list.def (docs/adding-a-game.md).
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace shusaku {

using Action = std::uint16_t;  // an index into the policy head, [0, num_actions)

// Planes of an observation: binary ones come first and travel as bits, uniform ones hold one number each.
struct Shape {
  int binary, uniform, height, width;
  int cells() const { return height * width; }
  int planes() const { return binary + uniform; }
  int packed_bytes() const { return (binary * cells() + 7) / 8; }
};

using Param = std::variant<bool, std::int64_t, double, std::string>;
using Params = std::map<std::string, Param>;

struct ParamHelp {
  std::string name;
  Param default_value;
  std::string help;
};

// A parameter that lies in [low, high], and one that is one of a few words; std::invalid_argument if it is not.
inline int whole_parameter(const Params& params, const std::string& game, const char* name, std::int64_t low,
                           std::int64_t high) {
  const std::int64_t value = std::get<std::int64_t>(params.at(name));
  if (value >= low && value <= high) return int(value);
  throw std::invalid_argument("parameter " + std::string(name) + "=" + std::to_string(value) + " of game " + game +
                              ": must lie in [" + std::to_string(low) + ", " + std::to_string(high) + "]");
}
inline const std::string& chosen_parameter(const Params& params, const std::string& game, const char* name,
                                           const std::vector<std::string>& known) {
  const auto& value = std::get<std::string>(params.at(name));
  std::string list;
  for (const auto& k : known) {
    if (k == value) return value;
    list += (list.empty() ? "" : ", ") + k;
  }
  throw std::invalid_argument("parameter " + std::string(name) + "=" + value + " of game " + game +
                              ": must be one of " + list);
}

// clang-format off
template <class G>
concept GameRules = std::is_trivially_copyable_v<typename G::Position> &&
    requires(const G& rules, typename G::Position& position, const typename G::Position& state, Action action,
             Action* list, int symmetry, std::uint8_t* bits, float* uniform, const std::string& text) {
  { G::kName } -> std::convertible_to<const char*>;
  { G::kAlternates } -> std::convertible_to<bool>;  // false: a player may move twice in a row
  { G::parameters() } -> std::same_as<std::vector<ParamHelp>>;
  { rules.num_actions() } -> std::same_as<int>;
  { rules.max_plies() } -> std::same_as<int>;          // no game is longer
  { rules.max_legal_actions() } -> std::same_as<int>;  // no position has more
  { rules.shape() } -> std::same_as<Shape>;
  { rules.num_symmetries() } -> std::same_as<int>;     // symmetry 0 is the identity
  { rules.start() } -> std::same_as<typename G::Position>;
  { rules.to_play(state) } -> std::same_as<int>;       // 0 moves first
  { rules.ply(state) } -> std::same_as<int>;
  { rules.is_terminal(state) } -> std::same_as<bool>;
  { rules.outcome(state) } -> std::same_as<int>;       // -1, 0, 1; only when terminal
  { rules.score(state) } -> std::same_as<float>;       // in points, only when terminal; NaN: the game has none
  { rules.is_cut_off(state) } -> std::same_as<bool>;   // terminal because of a limit on the plies, not by the rules
  { rules.legal_actions(state, list) } -> std::same_as<int>;  // ascending; their number, 0 iff terminal
  { rules.play(position, action) } -> std::same_as<void>;     // must be legal
  // Equal evaluation keys: equal observation and equal legal actions.  Equal transposition keys: equal future.
  { rules.evaluation_key(state) } -> std::same_as<std::uint64_t>;
  { rules.transposition_key(state) } -> std::same_as<std::uint64_t>;
  // Writes the planes of the position seen through `symmetry`: shape().packed_bytes() bytes, bit i of byte j is
  // cell 8j + i of [C, H, W]; and one number a uniform plane.
  { rules.observe(state, symmetry, bits, uniform) } -> std::same_as<void>;
  { rules.permute(symmetry, action) } -> std::same_as<Action>;  // where `action` lies in that view
  { rules.permute_cell(symmetry, 0) } -> std::same_as<int>;     // where a cell of [H, W] lies in that view
  { rules.parse(text) } -> std::same_as<typename G::Position>;  // std::invalid_argument naming what is wrong
  { rules.to_move(state, action) } -> std::same_as<std::string>;
  { rules.from_move(state, text) } -> std::same_as<int>;        // -1 if the text is no move of this game
  { rules.render(state) } -> std::same_as<std::string>;
};

// Optional members beside the concepts below: random_action(position, random), a legal action sampled uniformly, if that
// is faster than to list them all; copy(from, to), if a position has parts that are not in use; evaluation_key(position,
// list, count), if the legal actions are a part of the key.

// A game whose board fills up: every move but a pass takes an empty cell, no more actions are legal than cells are empty
// (a pass alone apart), and players alternate.
template <class G>
concept HasEmptyCells = G::kAlternates && requires(const G& rules, const typename G::Position& state) {
  { rules.num_empty(state) } -> std::same_as<int>;
};

// What a game knows of a position without a search, if the player to move does not win at once: bounds of the result,
// which begin as those asked for and may leave nothing between them, and the moves after which the opponent does not win
// at once.  Without such a move the opponent wins.
struct Outlook {
  static constexpr int kMostSound = 8;  // moves

  int low, high;
  std::uint64_t sound = 0;  // as the game has them
};

// A game whose board fills up and which sees threats: there is no pass, and a full board without a winner is a draw.
template <class G>
concept LooksAhead = HasEmptyCells<G> && requires(const G& rules, const typename G::Position& state,
                                                  const Outlook& outlook, typename G::Position* list) {
  { rules.wins_at_once(state) } -> std::same_as<bool>;
  { rules.look_ahead(state, 0, 0) } -> std::same_as<Outlook>;
  { rules.after_sound_moves(state, outlook, list) } -> std::same_as<int>;  // the most promising first
};

// A game whose cells belong to a player at the end.
template <class G>
concept HasOwnership = requires(const G& rules, const typename G::Position& state, std::int8_t* map) {
  rules.ownership(state, map);  // [H * W]: 1 the player to move, -1 the opponent, 0 neither
};

// A game that writes its positions in the text that parse() reads: a grid, FEN, SFEN.
template <class G>
concept HasText = requires(const G& rules, const typename G::Position& state) {
  { rules.to_text(state) } -> std::same_as<std::string>;
};

// A game that sets up stones that no game needs to have brought there, with either player to move.
template <class G>
concept HasArrange = requires(const G& rules, const std::string& text) {
  { rules.arrange(text) } -> std::same_as<typename G::Position>;
};

// A game whose moves have a second notation for people: SAN.
template <class G>
concept HasSan = requires(const G& rules, const typename G::Position& state, Action action) {
  { rules.to_san(state, action) } -> std::same_as<std::string>;
};

// A game that explains why a text is no legal move; empty if it knows no reason.
template <class G>
concept HasWhyIllegal = requires(const G& rules, const typename G::Position& state, const std::string& text) {
  { rules.why_illegal(state, text) } -> std::same_as<std::string>;
};

// A game that counts its move sequences faster than by making every one of the last moves.
template <class G>
concept HasPerft = requires(const G& rules, const typename G::Position& state, int depth) {
  { rules.perft(state, depth) } -> std::same_as<std::uint64_t>;
};

// A game whose komi is a part of its position, so that it may differ from game to game.
template <class G>
concept HasKomi = requires(const G& rules, typename G::Position& position, const typename G::Position& state, float komi) {
  { rules.komi(state) } -> std::same_as<float>;
  { rules.set_komi(position, komi) } -> std::same_as<void>;  // only before the first ply
  { G::is_komi(komi) } -> std::same_as<bool>;                // whether it is a komi of this game
};
// clang-format on

template <class G>
void copy_position(const G& rules, const typename G::Position& from, typename G::Position& to) {
  if constexpr (requires { rules.copy(from, to); })
    rules.copy(from, to);
  else
    to = from;
}

// The key of a position whose legal actions are known.
template <class G>
std::uint64_t evaluation_key(const G& rules, const typename G::Position& p, const Action* legal, int count) {
  if constexpr (requires { rules.evaluation_key(p, legal, count); })
    return rules.evaluation_key(p, legal, count);
  else
    return rules.evaluation_key(p);
}

// The name of the game; a type that stands for many games has a member name().
template <class G>
std::string name_of(const G& rules) {
  if constexpr (requires { rules.name(); })
    return rules.name();
  else
    return G::kName;
}

// Whether equal futures can be known by a key; a type that stands for many games has a member has_transposition_key().
template <class G>
bool has_transposition_key(const G& rules) {
  if constexpr (requires { rules.has_transposition_key(); })
    return rules.has_transposition_key();
  else
    return true;
}

constexpr float kNoScore = std::numeric_limits<float>::quiet_NaN();
constexpr float kNoKomi = std::numeric_limits<float>::quiet_NaN();  // the komi of the rules

// A bijective mixer of 64 bits (Steele, Lea and Flood 2014, splitmix64's finalizer).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// Seeds beside each other must not be made by adding: combine(a + 0x9E37..., b - 1) is combine(a, b).
constexpr std::uint64_t combine(std::uint64_t a, std::uint64_t b) { return mix64(a + 0x9E3779B97F4A7C15ull * (b + 1)); }

}  // namespace shusaku
