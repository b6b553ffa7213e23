// Go on boards of 2 x 2 to 19 x 19, area scoring.  Go<N> plays on boards of up to N x N; bindings/games/go.cpp chooses
// N.
//
//   actions   row * size + column, row 0 at the top of the text, then the pass; moves are GTP's vertices
//   rules     chinese: no suicide; tromp_taylor: suicide allowed (https://tromp.github.io/go.html)
//   superko   a play (never a pass) is illegal if the whole board after it equals
//               positional    any board of the game so far, the one before the play included
//               situational   any such board with the same player to move next
//               simple        the board before the opponent's last ply
//   end       two passes in a row, or the ply limit; the board is scored as it stands
//   planes    zero [17]: own stones at the last eight plies, the opponent's, black to move (AlphaGo Zero, Methods);
//             komi [18]: as zero, and the komi for the player to move, in units of 20 points (KataGo,
//             cpp/neuralnet/nninputs.cpp, selfKomi); tutorial [7]: own, opponent's, empty, last move, the move before,
//             legal plays, black to move; alphago [48]: see alphago_planes.h; alphago_value [49]: the same, black to
//             move; liberties [10]: see liberty_planes.h, then the pass before and the komi as above
//   komi      of the rules, unless a position has its own
//
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "games/bit_planes.h"
#include "games/go/alphago_planes.h"
#include "games/go/liberty_planes.h"
#include "games/go/rollout.h"
#include "games/go/stones.h"
#include "games/go/text.h"

namespace shusaku {

template <int N>
class Go {
  using Stones = GoStones<N>;
  using Board = GoBoard<N>;
  using Set = typename Board::Set;
  enum class Superko { kPositional, kSituational, kSimple };
  enum class Planes { kZero, kKomi, kLiberties, kTutorial, kAlphaGo, kAlphaGoValue };

 public:
  static constexpr const char* kName = "go";
  static constexpr bool kAlternates = true;
  using Position = GoPosition<N>;
  using RolloutPolicy = GoRolloutPolicy<N>;
  static constexpr int kMaxPlies = Position::kMaxPlies;

  explicit Go(const Params& params)
      : board_(int(std::get<std::int64_t>(params.at("size")))),
        stones_(board_),
        alphago_(board_),
        liberty_planes_(board_) {
    size_ = board_.size;
    num_cells_ = size_ * size_;
    komi_ = float(std::get<double>(params.at("komi")));
    if (!is_komi(komi_))
      throw std::invalid_argument("parameter komi=" + shown(komi_) +
                                  " of game go: must be a multiple of 0.5 in [-361, 361]");
    const auto& rules = chosen_parameter(params, kName, "rules", {"chinese", "tromp_taylor"});
    allows_suicide_ = rules == "tromp_taylor";
    const auto& superko = chosen_parameter(params, kName, "superko", {"positional", "situational", "simple"});
    superko_ = superko == "positional"    ? Superko::kPositional
               : superko == "situational" ? Superko::kSituational
                                          : Superko::kSimple;
    const std::vector<std::string> known = {"zero",     "komi",    "liberties",
                                            "tutorial", "alphago", "alphago_value"};  // as in Planes
    const auto& planes = chosen_parameter(params, kName, "planes", known);
    planes_ = Planes(std::find(known.begin(), known.end(), planes) - known.begin());
    const std::int64_t limit = std::get<std::int64_t>(params.at("max_plies"));
    if (limit < 0 || limit > kMaxPlies)
      throw std::invalid_argument("parameter max_plies=" + std::to_string(limit) + " of game go: must lie in [1, " +
                                  std::to_string(kMaxPlies) + "] on " + std::to_string(size_) + " x " +
                                  std::to_string(size_) + ", or be 0 for " + std::to_string(2 * num_cells_));
    max_plies_ = limit ? int(limit) : 2 * num_cells_;
    handicap_ = go_text::handicap_cells(
        size_, int(std::clamp<std::int64_t>(std::get<std::int64_t>(params.at("handicap")), -1, 99)));
    go_text::SetUp set_up{{}, handicap_.empty() ? 0 : 1};
    for (int cell : handicap_) set_up.stones.emplace_back(cell, 0);
    start_ = make(set_up);
  }

  static std::vector<ParamHelp> parameters() {
    return {{"size", std::int64_t(19), "lines of the board, 2 to 19"},
            {"komi", 7.5, "points for white; 7 on 9 x 9 unless given"},
            {"rules", std::string("chinese"), "chinese | tromp_taylor (suicide allowed); area scoring in both"},
            {"superko", std::string("positional"), "positional | situational | simple"},
            {"max_plies", std::int64_t(0), "the board is scored after so many plies; 0: 2 * size * size"},
            {"handicap", std::int64_t(0), "black stones on GTP's fixed points; white moves first then"},
            {"planes", std::string("zero"),
             "zero: 17, eight boards of both colours and the colour | komi: and the komi | liberties: 10 | tutorial: 7 "
             "| alphago: 48 | alphago_value: and the colour"}};
  }

  int num_actions() const { return num_cells_ + 1; }
  int max_plies() const { return max_plies_; }
  int max_legal_actions() const { return num_cells_ + 1; }
  Shape shape() const {
    Shape shape = {.binary = 16, .uniform = 1, .height = size_, .width = size_};
    if (planes_ == Planes::kTutorial) shape.binary = 6;
    if (planes_ == Planes::kLiberties) shape.binary = GoLibertyPlanes<N>::kPlanes;
    if (planes_ >= Planes::kAlphaGo) shape.binary = GoAlphaGoPlanes<N>::kPlanes;
    if (planes_ == Planes::kAlphaGo) shape.uniform = 0;
    if (planes_ == Planes::kKomi || planes_ == Planes::kLiberties) shape.uniform = 2;
    return shape;
  }
  int num_symmetries() const { return 8; }

  const Board& board() const { return board_; }
  Position start() const { return start_; }
  static bool is_komi(float komi) { return komi >= -361 && komi <= 361 && komi * 2 == float(int(komi * 2)); }
  float komi(const Position& p) const { return 0.5f * float(p.half_komi); }
  void set_komi(Position& p, float komi) const { p.half_komi = std::int16_t(2 * komi); }
  int to_play(const Position& p) const { return p.to_play; }
  int ply(const Position& p) const { return p.ply; }
  bool is_terminal(const Position& p) const { return p.num_passes >= 2 || p.ply >= max_plies_; }
  bool is_cut_off(const Position& p) const { return p.num_passes < 2 && p.ply >= max_plies_; }
  int outcome(const Position& p) const {
    const float points = score(p);
    return points > 0 ? 1 : points < 0 ? -1 : 0;
  }
  // Of the area: stones, and empty regions that reach stones of one colour only.
  float score(const Position& p) const {
    const auto [black, white] = stones_.areas(p);
    const float points = float(black.count() - white.count()) - komi(p);
    return p.to_play == 0 ? points : -points;
  }
  void ownership(const Position& p, std::int8_t* map) const {
    const auto [black, white] = stones_.areas(p);
    for (int cell = 0; cell < num_cells_; ++cell) {
      const int bit = Board::bit(board_.point_of[size_t(cell)]), owner = int(black.has(bit)) - int(white.has(bit));
      map[cell] = std::int8_t(p.to_play == 0 ? owner : -owner);
    }
  }

  int legal_actions(const Position& p, Action* out) const {
    if (is_terminal(p)) return 0;
    int count = 0;
    const Set free = stones_.empty(p);
    if (has_no_superko(p)) {  // then a point beside an empty one needs no closer look
      const Set open = free & Board::beside(free), closed = free.without(open);
      Set legal = open;
      closed.each([&](int bit) {
        if (is_legal(p, Board::point(bit))) legal.add(bit);
      });
      legal.each([&](int bit) { out[count++] = board_.cell_of[size_t(Board::point(bit))]; });
    } else {  // one that captures nothing only adds a stone: which such boards there were is known at once
      const Set open = free & Board::beside(free), doubtful = free.without(open) | (free & Board::beside(weak(p)));
      Set legal = open.without(doubtful).without(repeated_by_one_stone(p));
      doubtful.each([&](int bit) {
        if (is_legal(p, Board::point(bit))) legal.add(bit);
      });
      legal.each([&](int bit) { out[count++] = board_.cell_of[size_t(Board::point(bit))]; });
    }
    out[count++] = Action(num_cells_);
    return count;
  }

  // Samples the empty points and the pass until a legal action comes: uniform over the legal actions.
  template <class R>
  Action random_action(const Position& p, R& random) const {
    const Set free = stones_.empty(p);
    const int choices = free.count() + 1;
    for (;;) {
      const int rank = int(random.below(std::uint64_t(choices)));
      if (rank == choices - 1) return Action(num_cells_);
      const int point = Board::point(free.nth(rank));
      if (is_legal(p, point)) return board_.cell_of[size_t(point)];
    }
  }

  void play(Position& p, Action action) const {
    p.boards[size_t(p.ply + 1) & 7] = p.boards[size_t(p.ply) & 7];
    ++p.ply;
    p.before_last = p.last;
    p.last = std::int16_t(action);
    if (action == num_cells_) {
      ++p.num_passes;
    } else {
      p.num_passes = 0;
      stones_.place(p, board_.point_of[action], p.to_play);
      stones_.settle(p, board_.point_of[action], p.to_play);
    }
    p.to_play ^= 1;
    remember(p);
  }

  // Only what is in use of the history: most of a position's bytes.
  void copy(const Position& from, Position& to) const {
    std::memcpy(static_cast<void*>(&to), static_cast<const void*>(&from),
                offsetof(Position, history) + sizeof(std::uint64_t) * (size_t(from.ply) + 1));
    std::memcpy(to.num_stones.data(), from.num_stones.data(), sizeof(std::uint16_t) * (size_t(from.ply) + 1));
  }

  std::uint64_t evaluation_key(const Position& p) const {
    Action list[N * N + 1];
    return evaluation_key(p, list, legal_actions(p, list));
  }
  // The same if the legal actions are known: what superko forbids follows from them.
  std::uint64_t evaluation_key(const Position& p, const Action* legal, int count) const {
    std::uint64_t sum = std::uint64_t(2 * (count == 0) + p.to_play), factor = 1;
    if (planes_ == Planes::kTutorial || planes_ == Planes::kLiberties) {
      const bool is_unseen = planes_ == Planes::kLiberties && p.before_last == num_cells_;  // no plane for that pass
      const int before_last = is_unseen ? -1 : p.before_last;
      sum += combine(p.hash, std::uint64_t(p.last + 1) << 16 | std::uint64_t(before_last + 1));
    } else {
      for (int t = p.ply; t >= 0 && t > p.ply - 8; --t) sum += board_key(p, t) * (factor *= 0x9E3779B97F4A7C15ull);
    }
    if (planes_ >= Planes::kAlphaGo) sum += mix64(std::uint64_t(std::min<int>(p.ply, 7)));  // tells set-up stones
    if (planes_ == Planes::kKomi || planes_ == Planes::kLiberties) sum += mix64(std::uint64_t(p.half_komi));
    if (!has_no_superko(p)) {
      std::uint64_t actions = 0;
      for (int i = 0; i < count; ++i) actions += board_.zobrist[0][legal[i]];
      sum += mix64(actions);
    }
    return mix64(sum);
  }
  // The whole history counts, the komi, and how far the limit and the second pass are away.
  std::uint64_t transposition_key(const Position& p) const {
    std::uint64_t boards = 0;  // a set: their order is of no importance
    for (int t = 0; t <= p.ply; ++t) boards += mix64(p.history[size_t(t)]);
    if (superko_ == Superko::kSimple) boards = p.ply > 0 ? p.history[size_t(p.ply - 1)] : 0;
    const std::uint64_t limits = std::uint64_t(std::uint16_t(p.half_komi)) << 16 | std::uint16_t(p.ply);
    return combine(combine(combine(p.hash, boards), limits), std::uint64_t(2 * p.num_passes + p.to_play));
  }

  void observe(const Position& p, int symmetry, std::uint8_t* bits, float* uniform) const {
    const View& view = board_.view[size_t(symmetry)];
    if (planes_ >= Planes::kAlphaGo)
      alphago_.write(p, legal_plays(p), view, bits);
    else if (planes_ == Planes::kTutorial)
      observe_tutorial(p, view, bits);
    else if (planes_ == Planes::kLiberties)
      liberty_planes_.write(p, legal_plays(p), view, bits);
    else
      observe_history(p, view, bits);
    if (planes_ == Planes::kLiberties)
      uniform[0] = p.num_passes > 0 ? 1.f : 0.f;
    else if (planes_ != Planes::kAlphaGo)
      uniform[0] = p.to_play == 0 ? 1.f : 0.f;
    if (planes_ == Planes::kKomi || planes_ == Planes::kLiberties)
      uniform[1] = (p.to_play == 0 ? -komi(p) : komi(p)) / 20.f;
  }

  Action permute(int symmetry, Action action) const {
    return action == num_cells_ ? action : Action(board_.cell_view[size_t(symmetry)][action]);
  }
  int permute_cell(int symmetry, int cell) const { return board_.cell_view[size_t(symmetry)][size_t(cell)]; }

  Position parse(const std::string& text) const { return make(go_text::read(text, size_)); }
  std::string to_move(const Position&, Action action) const { return go_text::vertex(size_, action); }
  int from_move(const Position&, const std::string& text) const { return go_text::cell_of(size_, text); }
  // The stones and whose turn it is; neither the history nor passes.
  std::string to_text(const Position& p) const {
    return write_grid(size_, size_, p.to_play, [&](int cell) {
      const auto colour = p.colour[board_.point_of[size_t(cell)]];
      return colour == Board::kEmpty ? -1 : int(colour);
    });
  }
  std::string render(const Position& p) const {
    return go_text::render(size_, [&](int cell) {
      const auto colour = p.colour[board_.point_of[size_t(cell)]];
      return colour == Board::kEmpty ? -1 : int(colour);
    });
  }

 private:
  static constexpr int kCellWords = (N * N + 63) / 64;
  using Cells = PointSet<kCellWords>;  // bit = cell
  using View = std::array<std::uint16_t, Board::kPoints>;

  // Boards of neighbouring plies differ in little: what lies on a cell is put together as the bits of a byte.
  void observe_history(const Position& p, const View& view, std::uint8_t* bits) const {
    alignas(32)
        std::uint8_t ages[2][kCellWords * 64] = {};  // bit k: a stone of the player to move, of the other, k plies ago
    for (int other = 0; other < 2; ++other) {
      std::uint8_t* at = ages[other];
      const auto board = [&](int age) -> const Set& {
        return p.boards[size_t(p.ply - age) & 7][size_t(p.to_play ^ other)];
      };
      board(0).each([&](int bit) { at[view[size_t(Board::point(bit))]] = 0xFF; });
      for (int age = 1; age < 8; ++age)  // before the first ply they are empty
        (board(age) ^ board(age - 1)).each([&](int bit) {
          at[view[size_t(Board::point(bit))]] ^= std::uint8_t(0xFF << age);
        });
    }
    const auto own = to_planes<kCellWords>(ages[0]), others = to_planes<kCellWords>(ages[1]);
    PlaneWriter out(bits);
    if (num_cells_ == N * N)
      out.add_all(own, N * N), out.add_all(others, N * N);  // then the shifts are constants
    else
      out.add_all(own, num_cells_), out.add_all(others, num_cells_);
    out.finish();
  }

  void observe_tutorial(const Position& p, const View& view, std::uint8_t* bits) const {
    PlaneWriter out(bits);
    const auto add = [&](const Set& points) {
      Cells cells;
      points.each([&](int bit) { cells.add(view[size_t(Board::point(bit))]); });
      out.add(cells.words, num_cells_);
    };
    const auto& now = p.boards[size_t(p.ply) & 7];
    add(now[p.to_play]), add(now[p.to_play ^ 1]), add(stones_.empty(p));
    for (int cell : {p.last, p.before_last}) {
      Set one;
      if (cell >= 0 && cell < num_cells_) one.add(Board::bit(board_.point_of[size_t(cell)]));
      add(one);
    }
    add(legal_plays(p));
    out.finish();
  }

  // Where the player to move may play.
  Set legal_plays(const Position& p) const {
    Action list[N * N + 1];
    Set legal;
    for (int i = 0, count = legal_actions(p, list); i < count; ++i)
      if (list[i] != num_cells_) legal.add(Board::bit(board_.point_of[list[i]]));
    return legal;
  }

  static std::string shown(float x) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", double(x));
    return text;
  }

  // Whether no play can bring a board back: stones were only added so far.
  bool has_no_superko(const Position& p) const { return !p.has_removed && !allows_suicide_; }

  bool is_legal(const Position& p, int point) const {
    const int me = p.to_play;
    std::uint64_t key = p.hash ^ board_.zobrist[size_t(me)][size_t(point)];
    bool is_safe = false, may_capture = false;
    int heads[4];
    for (int i = 0; i < 4; ++i) {
      heads[i] = p.head[size_t(point + Board::kSteps[i])];
      const auto colour = p.colour[size_t(point + Board::kSteps[i])];
      is_safe |= colour == Board::kEmpty;
      may_capture |= (colour == (me ^ 1)) & (p.liberties[size_t(heads[i])] <= 4);
    }
    if (is_safe && !may_capture) return has_no_superko(p) || !repeats(p, key);  // the usual case
    std::uint64_t own = 0;                                                      // of the groups that would be one
    for (int i = 0; i < 4; ++i) {
      const auto colour = p.colour[size_t(point + Board::kSteps[i])];
      if (colour >= Board::kEmpty) continue;
      const int head = heads[i];
      int sides = 0;
      bool is_first = true;
      for (int k = 0; k < 4; ++k) {
        sides += heads[k] == head;
        if (k < i && heads[k] == head) is_first = false;
      }
      if (!is_first) continue;
      const bool has_others = p.liberties[size_t(head)] > sides;
      if (colour == me) {
        is_safe |= has_others;
        own ^= p.group_hash[size_t(head)];
      } else if (!has_others) {
        is_safe = true;  // it captures
        key ^= p.group_hash[size_t(head)];
      }
    }
    if (!is_safe) {
      if (!allows_suicide_) return false;
      key = p.hash ^ own;
    }
    return has_no_superko(p) || !repeats(p, key);
  }

  // Whether a play of the player to move may not leave the board of this hash.
  bool repeats(const Position& p, std::uint64_t hash) const {
    if (superko_ == Superko::kSimple) return p.ply > 0 && p.history[size_t(p.ply - 1)] == hash;
    const std::uint64_t key = superko_ == Superko::kSituational ? with_player(hash, p.to_play ^ 1) : hash;
    if (!(p.seen[seen_word(key)] >> (key & 63) & 1)) return false;
    for (int t = p.ply; t >= 0; --t)
      if (p.history[size_t(t)] == key) return true;
    return false;
  }

  // Stones of the opponent whose groups one play may capture: their liberties, counted once for each stone beside them,
  // may all be sides of one point, which needs three stones if there are two.
  Set weak(const Position& p) const {
    Set stones;
    p.boards[size_t(p.ply) & 7][size_t(p.to_play ^ 1)].each([&](int bit) {
      const int stone = Board::point(bit), liberties = p.liberties[p.head[size_t(stone)]];
      if (liberties <= 1 || (liberties <= 4 && p.next[p.next[size_t(stone)]] != stone)) stones.add(bit);
    });
    return stones;
  }

  // Points where one stone more of the player to move makes a board that may not come again.
  Set repeated_by_one_stone(const Position& p) const {
    Set points;
    const std::uint64_t key = superko_ == Superko::kSituational ? with_player(p.hash, p.to_play ^ 1) : p.hash;
    const auto look_at = [&](int t) {
      const int point = board_.point_of_zobrist(p.to_play, p.history[size_t(t)] ^ key);
      if (point >= 0) points.add(Board::bit(point));
    };
    if (superko_ == Superko::kSimple) {
      if (p.ply > 0) look_at(p.ply - 1);
      return points;
    }
    const std::uint16_t stones = std::uint16_t(p.num_stones[size_t(p.ply)] + 1);
    for (int begin = 0; begin <= p.ply; begin += 32) {
      bool is_here = false;
      for (int i = 0; i < 32; ++i) is_here |= p.num_stones[size_t(begin + i)] == stones;
      if (!is_here) continue;
      for (int t = begin; t < begin + 32 && t <= p.ply; ++t)
        if (p.num_stones[size_t(t)] == stones) look_at(t);
    }
    return points;
  }

  static std::uint64_t with_player(std::uint64_t hash, int to_play) {
    return to_play ? hash ^ 0xC0FFEE5EED5B0A4Dull : hash;
  }
  static size_t seen_word(std::uint64_t key) { return key >> 6 & (Position::kSeenWords - 1); }

  void remember(Position& p) const {
    const std::uint64_t key = superko_ == Superko::kSituational ? with_player(p.hash, p.to_play) : p.hash;
    p.history[size_t(p.ply)] = key;
    const auto& now = p.boards[size_t(p.ply) & 7];
    p.num_stones[size_t(p.ply)] = std::uint16_t(now[0].count() + now[1].count());
    p.seen[seen_word(key)] |= 1ull << (key & 63);
  }

  // The board's own hash after t plies, whichever player was to move.
  std::uint64_t board_key(const Position& p, int t) const {
    if (superko_ != Superko::kSituational) return p.history[size_t(t)];
    return with_player(p.history[size_t(t)], p.to_play ^ ((p.ply - t) & 1));
  }

  Position make(const go_text::SetUp& set_up) const {
    Position p{};
    p.colour.fill(Board::kBorder);
    for (int cell = 0; cell < num_cells_; ++cell) p.colour[board_.point_of[size_t(cell)]] = Board::kEmpty;
    p.last = p.before_last = -1;
    set_komi(p, komi_);
    for (const auto& [cell, colour] : set_up.stones) stones_.place(p, board_.point_of[size_t(cell)], colour);
    for (const auto& [cell, colour] : set_up.stones)
      if (p.liberties[p.head[board_.point_of[size_t(cell)]]] == 0)
        throw std::invalid_argument("the stones at " + go_text::vertex(size_, cell) +
                                    " have no liberty; leave them out, or an empty point beside them");
    p.to_play = set_up.to_play == 1;
    remember(p);
    return p;
  }

  Board board_;
  Stones stones_;
  GoAlphaGoPlanes<N> alphago_;
  GoLibertyPlanes<N> liberty_planes_;
  int size_ = 0, num_cells_ = 0, max_plies_ = 0;
  float komi_ = 0;
  bool allows_suicide_ = false;
  Planes planes_ = Planes::kZero;
  Superko superko_ = Superko::kPositional;
  std::vector<int> handicap_;
  Position start_;
};

}  // namespace shusaku
