// Go's rollout policy: a linear softmax over local patterns (Silver et al. 2016, Methods "Rollout policy" and Extended
// Data Table 4).  A move's features, equal under the eight symmetries and the exchange of the colours:
//
//   pattern   what its eight neighbours look like, with liberties                     key 1 << 56 | canonical code
//   response  what the twelve points around the last move look like, and which of     key 2 << 56 | place << 36 | ring
//             them the move is
//   near      it is beside the last move (place 1), diagonal (2) or two away (3)      key 3 << 56 | place
//   saves     it rescues a chain that the last move has put in atari                  key 4 << 56
//   nakade    it is the middle of three to six stones that the last move took         key 5 << 56
//
// A rollout never fills an own eye and never commits suicide; it knows ko, not superko, and passes when nothing else is
// left.  It ends by two passes or by the rules' limit on the plies, and is scored by area.
//
// Speed: exp(pattern weight) of every empty point is kept as a whole number for each player, with sums of the rows, and
// follows the points whose surroundings change.  Only the few points near the last move, and where it threatens, are
// weighed anew; whole numbers leave no rounding behind when they are put back.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "games/go/rollout_state.h"
#include "games/rollout_weights.h"

namespace shusaku {

namespace go_rollout {

enum Kind : std::uint64_t { kPattern = 1, kResponse, kNear, kSaves, kNakade };
constexpr std::uint64_t key(Kind kind, std::uint64_t value = 0) { return std::uint64_t(kind) << 56 | value; }

// Where a move lies among the twelve points: the eight of the ring clockwise from north, then two steps north, east,
// south and west.
constexpr int place_of(int index) { return index >= 8 ? 3 : index % 2 ? 2 : 1; }

// Of the move at `index` of the twelve points, from what the ring of eight and the far ring of four look like to its
// player: the board is turned until the move lies north, or north-east, and of the two mirrored views that leave it
// there the smaller counts.
constexpr std::uint64_t response_key(std::uint32_t ring, std::uint32_t far, int index) {
  using namespace go_pattern;
  const int quarters = index >= 8 ? index - 8 : index / 2;
  ring = turned(ring, -6 * quarters, 24), far = turned(far, -3 * quarters, 12);
  const bool is_diagonal = place_of(index) == 2;
  const std::uint32_t other_ring = turned(reversed8(ring), is_diagonal ? 9 : 3, 24);
  const std::uint32_t other_far = turned(reversed4(far), is_diagonal ? 6 : 3, 12);
  const std::uint64_t code = std::uint64_t(far) << 24 | ring, other = std::uint64_t(other_far) << 24 | other_ring;
  return key(kResponse, std::uint64_t(place_of(index)) << 36 | std::min(code, other));
}

// A hash table of fixed content: keys to values, with one value for all others.
template <class Key, class Value>
class Table {
 public:
  Table() : entries_(1, Entry{}) {}
  void fill(const std::vector<std::pair<Key, Value>>& items, Value other) {
    int bits = 1;
    while ((size_t(1) << bits) < 2 * items.size() + 2) ++bits;
    shift_ = 64 - bits, mask_ = (size_t(1) << bits) - 1;
    entries_.assign(mask_ + 1, Entry{kNone, other});
    for (const auto& [key, value] : items) {
      size_t at = first(key);
      while (entries_[at].key != kNone) at = (at + 1) & mask_;
      entries_[at] = {key, value};
    }
    other_ = other;
  }
  Value of(Key key) const {
    for (size_t at = first(key);; at = (at + 1) & mask_) {
      if (entries_[at].key == key) return entries_[at].value;
      if (entries_[at].key == kNone) return other_;
    }
  }

 private:
  static constexpr Key kNone = ~Key(0);
  struct Entry {
    Key key = kNone;
    Value value{};
  };
  size_t first(Key key) const { return size_t(std::uint64_t(key) * 0x9E3779B97F4A7C15ull >> shift_) & mask_; }
  std::vector<Entry> entries_;
  int shift_ = 63;
  size_t mask_ = 0;
  Value other_{};
};

}  // namespace go_rollout

template <int N>
class GoRolloutPolicy {
  using Board = GoBoard<N>;
  using Set = typename Board::Set;
  using State = GoRolloutState<N>;
  static constexpr int S = Board::kStride;

 public:
  using Position = GoPosition<N>;

  template <class Rules>
  GoRolloutPolicy(const Rules& rules, const RolloutWeights& weights)
      : board_(rules.board()), max_plies_(rules.max_plies()) {
    using namespace go_rollout;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> patterns;
    std::vector<std::pair<std::uint64_t, float>> responses;
    for (size_t i = 0; i < weights.keys.size(); ++i) {
      const std::uint64_t k = weights.keys[i];
      const float factor = std::exp(std::clamp(weights.weights[i], -kMostLog, kMostLog));
      if (k >> 56 == kPattern) patterns.emplace_back(std::uint32_t(k), whole(factor));
      if (k >> 56 == kResponse) responses.emplace_back(k, factor);
    }
    patterns_.fill(patterns, whole(1.f));
    responses_.fill(responses, 1.f);
    const auto factor = [&](std::uint64_t k) { return std::exp(std::clamp(weights.of(k), -kMostLog, kMostLog)); };
    for (std::uint64_t place = 1; place < 4; ++place) near_[place] = factor(key(kNear, place));
    saves_ = factor(key(kSaves)), nakade_ = factor(key(kNakade));
    for (int cell = 0; cell < board_.size * board_.size; ++cell) {
      const int row = cell / board_.size, column = cell % board_.size, point = board_.point_of[size_t(cell)];
      const int reach = board_.size - 2;
      far_[size_t(point)] = {std::int16_t(row >= 2 ? point - 2 * S : 0), std::int16_t(column < reach ? point + 2 : 0),
                             std::int16_t(row < reach ? point + 2 * S : 0), std::int16_t(column >= 2 ? point - 2 : 0)};
    }
  }

  // The outcome for the player to move; visit(action) is called with every move.
  template <class R, class Visit>
  float play_out(const Position& p, R& random, Visit visit) const {
    State state(board_, p);
    Weighed weighed;
    int player = p.to_play, passes = p.num_passes;
    for (int ply = p.ply; passes < 2 && ply < max_plies_; ++ply, player ^= 1) {
      const int point = choose(state, weighed, player, random);
      visit(Action(point ? board_.cell_of[size_t(point)] : board_.size * board_.size));
      if (point) {
        passes = 0;
        state.play(point, player);
      } else {
        ++passes;
        state.pass();
      }
    }
    const float points = float(state.area()) - 0.5f * float(p.half_komi);
    const float black = points > 0 ? 1.f : points < 0 ? -1.f : 0.f;
    return p.to_play == 0 ? black : -black;
  }

  // Of legal actions.  Those that a rollout does not choose (the pass, own eyes, what only superko decides) share
  // kShareOfOthers evenly.
  void priors(const Position& p, const Action* actions, int count, float* probabilities) const {
    State state(board_, p);
    Weighed weighed;
    const int player = p.to_play;
    refresh(state, weighed, player);
    Changes changes;
    apply(state, weighed, player, changes);
    std::uint64_t total = 0;
    int others = 0;
    for (int i = 0; i < count; ++i) {
      const std::uint32_t weight = weight_of(weighed, player, actions[i]);
      total += weight;
      others += weight == 0;
    }
    const double share = !others ? 0. : total ? kShareOfOthers : 1.;
    for (int i = 0; i < count; ++i) {
      const std::uint32_t weight = weight_of(weighed, player, actions[i]);
      probabilities[i] = float(weight ? (1 - share) * double(weight) / double(total) : share / others);
    }
  }

  // Ascending.
  void candidates(const Position& p, RolloutCandidates& out) const {
    using namespace go_rollout;
    State state(board_, p);
    const int player = p.to_play;
    const Set saves = state.saves(player);
    const int nakade = state.nakade();
    std::array<std::uint8_t, Board::kPoints> indices{};  // 1 + index among the twelve points
    const Twelve twelve = twelve_points(state, player);
    if (state.last())
      for (int i = 0; i < 12; ++i)
        if (twelve.points[size_t(i)] > 0) indices[size_t(twelve.points[size_t(i)])] = std::uint8_t(i + 1);
    out.clear();
    state.empty().each([&](int bit) {
      const int point = Board::point(bit);
      const std::uint32_t code = state.code(point, player);
      if (!go_pattern::is_playable(code) || point == state.ko()) return;
      out.keys.push_back(key(kPattern, go_pattern::canonical(code)));
      if (const int i = indices[size_t(point)] - 1; i >= 0) {
        out.keys.push_back(response_key(twelve.ring, twelve.far, i));
        out.keys.push_back(key(kNear, std::uint64_t(place_of(i))));
      }
      if (saves.has(bit)) out.keys.push_back(key(kSaves));
      if (point == nakade) out.keys.push_back(key(kNakade));
      out.end(board_.cell_of[size_t(point)]);
    });
  }

 private:
  static constexpr double kShareOfOthers = 0.01;
  static constexpr float kOne = 65536.f, kMostLog = 9.f, kMost = 2147483648.f;

  // A weight as a whole number, at least 1: what may be played has a chance.
  static std::uint32_t whole(float factor) { return std::uint32_t(std::clamp(factor * kOne + 0.5f, 1.f, kMost)); }

  // exp(score) of the empty points that may be played, and the sums of their rows, for each player.
  struct Weighed {
    std::uint32_t points[2][N * S] = {};  // at bits
    std::uint64_t rows[2][N] = {};
    void set(int player, int bit, std::uint32_t weight) {
      std::uint32_t& old = points[player][bit];
      rows[player][bit / S] += std::uint64_t(weight) - std::uint64_t(old);
      old = weight;
    }
  };

  // What one move's features near the last one have changed, to be put back.
  struct Changes {
    int count = 0;
    std::uint16_t bits[N * N];
    std::uint32_t weights[N * N];
  };

  struct Twelve {
    std::uint32_t ring = 0, far = 0;
    std::array<int, 12> points{};  // 0 or less: outside
  };
  Twelve twelve_points(const State& state, int player) const {
    Twelve t;
    const int last = state.last();
    if (!last) return t;
    t.ring = state.code(last, player);
    for (int k = 0; k < 8; ++k) t.points[size_t(k)] = last + State::kRing[k];
    for (int k = 0; k < 4; ++k) {
      const int point = t.points[size_t(8 + k)] = far_[size_t(last)][size_t(k)];
      t.far |= std::uint32_t(state.look_at(point, player)) << (3 * k);
    }
    return t;
  }

  std::uint32_t weight_of(const Weighed& weighed, int player, Action action) const {
    return action < board_.size * board_.size ? weighed.points[player][Board::bit(board_.point_of[action])] : 0;
  }

  void refresh(State& state, Weighed& weighed, int player) const {
    state.take_changed(player).each([&](int bit) {
      std::uint32_t weight = 0;
      if (state.empty().has(bit)) {
        const std::uint32_t code = state.code(Board::point(bit), player);
        if (go_pattern::is_playable(code)) weight = patterns_.of(go_pattern::canonical(code));
      }
      weighed.set(player, bit, weight);
    });
  }

  void multiply(Weighed& weighed, int player, int bit, float factor, Changes& changes) const {
    const std::uint32_t weight = weighed.points[player][bit];
    changes.bits[changes.count] = std::uint16_t(bit), changes.weights[changes.count++] = weight;
    weighed.set(player, bit, std::uint32_t(std::clamp(float(weight) * factor + 0.5f, factor > 0 ? 1.f : 0.f, kMost)));
  }

  // The features that the last move has a part in.
  void apply(const State& state, Weighed& weighed, int player, Changes& changes) const {
    const int last = state.last();
    if (!last) return;
    const Twelve t = twelve_points(state, player);
    const Set& empty = state.empty();
    for (int i = 0; i < 12; ++i) {
      const int bit = Board::bit(t.points[size_t(i)]);
      if (bit < 0 || bit >= N * S || !empty.has(bit) || !weighed.points[player][bit]) continue;
      const float factor =
          near_[size_t(go_rollout::place_of(i))] * responses_.of(go_rollout::response_key(t.ring, t.far, i));
      multiply(weighed, player, bit, factor, changes);
    }
    state.saves(player).each([&](int bit) {
      if (weighed.points[player][bit]) multiply(weighed, player, bit, saves_, changes);
    });
    if (const int nakade = state.nakade(); nakade && weighed.points[player][Board::bit(nakade)])
      multiply(weighed, player, Board::bit(nakade), nakade_, changes);
    if (const int ko = state.ko(); ko && weighed.points[player][Board::bit(ko)])
      multiply(weighed, player, Board::bit(ko), 0.f, changes);
  }

  // A point to play on; 0: pass.
  template <class R>
  int choose(State& state, Weighed& weighed, int player, R& random) const {
    refresh(state, weighed, player);
    Changes changes;
    apply(state, weighed, player, changes);
    std::uint64_t total = 0;
    for (std::uint64_t row : weighed.rows[player]) total += row;
    int point = 0;
    if (total) {
      std::uint64_t rank = random.below(total);
      int row = 0;
      while (rank >= weighed.rows[player][row]) rank -= weighed.rows[player][row++];
      int bit = row * S;
      while (rank >= weighed.points[player][bit]) rank -= weighed.points[player][bit++];
      point = Board::point(bit);
    }
    while (changes.count--) weighed.set(player, changes.bits[changes.count], changes.weights[changes.count]);
    return point;
  }

  const Board& board_;
  int max_plies_;
  go_rollout::Table<std::uint32_t, std::uint32_t> patterns_;
  go_rollout::Table<std::uint64_t, float> responses_;
  float near_[4] = {}, saves_ = 1, nakade_ = 1;
  std::array<std::array<std::int16_t, 4>, Board::kPoints> far_{};  // points two steps away; 0: outside
};

}  // namespace shusaku
