// Shogi on 9 x 9, and minishogi on 5 x 5, where the last row alone promotes and there are no lances and knights.
//
//   actions   shapes per square * square + shape, both seen by the player to move.  Shapes are, in this order: the
//             queen-like moves (eight directions clockwise from straight ahead, each by its distance), the two jumps of
//             a knight (left, right), the same with promotion, and drops on the square (pawn, lance, knight, silver,
//             gold, bishop, rook): 81 * 139, as AlphaZero (Silver et al. 2018, Science 362, table S2); 25 * 69
//   moves     USI: "7g7f", "8h2b+", "P*5e"; positions: SFEN
//   planes    zero: AlphaZero's (table S1), seen by the player to move.  Binary: the newest of eight boards first, for
//               each the own pieces (pawn, lance, knight, silver, gold, bishop, rook, king, promoted pawn, lance,
//               knight, silver, horse, dragon), the opponent's, and three of the repetitions (all ones in the first k
//               where the board was there k times before).  Uniform: for each board the own pieces in hand and the
//               opponent's, as shares of all such pieces; to play (0: the first player); ply / max_plies.
//             small: the newest board alone, and to play
//   end       no legal move loses, stalemate too.  A board that is there for the fourth time ends the game: who gave
//             check with every ply since the first time loses; else it is a draw, in minishogi the first player's loss
//             (as in Fairy-Stockfish's variant of that name).
//             declaration (shogi): a player to move has won who is not in check, whose king and at least ten other
//             pieces are in the zone of promotion, and who has there and in hand 28 points, the second player 27:
//             bishops and rooks count five, others one, the king none (CSA's rules).  No action declares.
//             The ply limit ends it as a draw.
#pragma once

#include <algorithm>

#include "games/game.h"
#include "games/shogi/planes.h"
#include "games/shogi/record.h"
#include "games/shogi/refusals.h"
#include "games/shogi/text.h"

namespace shusaku {

template <int N>
class Shogi {
  using Squares = ShogiSquares<N>;
  using Set = typename Squares::Set;
  using Moves = ShogiMoves<N>;
  using Record = ShogiRecord<N>;
  using Planes = ShogiPlanes<N>;
  using Text = ShogiText<N>;
  using Pieces = ShogiSet<N>;

 public:
  static constexpr const char* kName = Pieces::kGame;
  static constexpr bool kAlternates = true;
  using Position = ShogiPosition<N>;
  using Board = ShogiBoard<N>;
  static constexpr int kShapes = Squares::kShapes, kActions = 2 * kShapes + Planes::kHeld;  // of a square

  explicit Shogi(const Params& params) {
    is_small_ = chosen_parameter(params, kName, "planes", {"zero", "small"}) == "small";
    max_plies_ = whole_parameter(params, kName, "max_plies", 1, Position::kMaxPlies);
    if constexpr (Pieces::kIsFull) has_declaration_ = std::get<bool>(params.at("declaration"));
    start_ = make(Text::read(Pieces::kStart));
  }

  static std::vector<ParamHelp> parameters() {
    std::vector<ParamHelp> list{
        {"max_plies", std::int64_t(512), "a draw after so many plies, 1 to 1024"},
        {"planes", std::string("zero"),
         Pieces::kIsFull ? "zero: 362, eight boards and their hands, as AlphaZero | small: 46, the newest one"
                         : "zero: 266, eight boards and their hands | small: 34, the newest one"}};
    if (Pieces::kIsFull)
      list.insert(list.begin(),
                  {"declaration", true, "whether a king that entered the opponent's zone with 28 (27) points wins"});
    return list;
  }

  int num_actions() const { return Squares::kSquares * kActions; }
  int max_plies() const { return max_plies_; }
  // 593 is known for shogi (http://www.nara-wu.ac.jp/math/personal/shinoda/bunki.html has the position).  On 5 x 5:
  // five kinds of drops need five pieces in hand, and the others have at most 8 moves, with and without promotion.
  int max_legal_actions() const { return Pieces::kIsFull ? 593 : 5 * 23 + 5 * 16 + 8; }
  Shape shape() const {
    return {.binary = steps() * Planes::kBinary,
            .uniform = steps() * 2 * Planes::kHeld + 1 + !is_small_,
            .height = N,
            .width = N};
  }
  int num_symmetries() const { return 1; }  // the mirror image of the start is another one

  Position start() const { return start_; }
  int to_play(const Position& p) const { return p.board.to_play; }
  int ply(const Position& p) const { return p.ply; }
  bool is_terminal(const Position& p) const { return p.end != Position::End::kNone; }
  int outcome(const Position& p) const { return p.outcome; }
  float score(const Position&) const { return kNoScore; }
  bool is_cut_off(const Position& p) const { return p.end == Position::End::kPlies; }

  int legal_actions(const Position& p, Action* out) const {
    if (is_terminal(p)) return 0;
    Ordered ordered;
    Moves::generate(p.board, p.threats, ordered);
    return ordered.write(out);
  }

  template <class Random>
  Action random_action(const Position& p, Random& random) const {
    Unordered unordered;
    Moves::generate(p.board, p.threats, unordered);
    return unordered.action(int(random.below(std::uint64_t(unordered.total))));
  }

  void play(Position& p, Action action) const {
    const shogi::Move move = to_step(action);
    typename Position::Step step{move.from, move.to, 0, move.dropped, 0, 0};
    if (!move.dropped) {
      step.before = std::uint8_t(p.board.at(move.from));
      step.after = std::uint8_t(step.before + (move.promotes ? int(shogi::kPromoted) : 0));
      step.captured = std::uint8_t(p.board.at(move.to));
    }
    std::uint64_t key = Record::key_after(p.board, p.key(), step);
    p.board.play(move);
    p.threats = Moves::threats(p.board);
    key |= std::uint64_t(p.threats.checkers != 0);
    ++p.ply;
    p.keys[p.length()] = key;
    p.past += mix64(key);
    const int repeats = Record::repeats(p);
    step.repeats = std::uint8_t(std::min(repeats, 3));
    p.steps[p.ply % Position::kSteps] = step;
    settle(p, repeats);
  }

  void copy(const Position& from, Position& to) const { from.copy_to(to); }

  std::uint64_t evaluation_key(const Position& p) const {
    std::uint64_t sum = std::uint64_t(is_terminal(p)), factor = 1;
    const int known = std::min(p.length() + 1, steps());
    for (int k = 0; k < known; ++k) {
      sum +=
          (p.keys[p.length() - k] + p.steps[(p.ply - k) % Position::kSteps].repeats * 0xD1B54A32D192ED03ull) * factor;
      factor *= 0x9E3779B97F4A7C15ull;
    }
    return combine(sum, is_small_ ? 0 : std::uint64_t(p.ply));
  }
  std::uint64_t transposition_key(const Position& p) const {
    return combine(combine(p.key(), Record::history_key(p)), p.ply);
  }

  void observe(const Position& p, int, std::uint8_t* bits, float* uniform) const {
    if (is_small_) {
      Planes::template observe<1>(p, bits, uniform);
      uniform[2 * Planes::kHeld] = float(p.board.to_play);
    } else {
      Planes::template observe<Position::kSteps>(p, bits, uniform);
      uniform[Position::kSteps * 2 * Planes::kHeld] = float(p.board.to_play);
      uniform[Position::kSteps * 2 * Planes::kHeld + 1] = float(p.ply) / float(max_plies_);
    }
  }

  Action permute(int, Action action) const { return action; }
  int permute_cell(int, int cell) const { return cell; }

  Position parse(const std::string& text) const { return make(Text::read(text)); }
  std::string to_text(const Position& p) const { return Text::write(p.board, p.ply + 1); }
  std::string to_move(const Position& p, Action action) const { return Text::to_usi(p.board, to_step(action)); }
  int from_move(const Position& p, const std::string& text) const {
    shogi::Move move;
    if (!Text::from_usi(p.board, text, move)) return -1;
    if (move.dropped) return drop_action(move.to, move.dropped);
    const int shape = Squares::shape(move.from, move.to);
    return shape == Squares::kNoShape ? -1 : kActions * move.from + shape + move.promotes * kShapes;
  }
  std::string why_illegal(const Position& p, const std::string& text) const {
    return ShogiRefusals<N>::why_illegal(p.board, text);
  }
  std::string render(const Position& p) const { return Text::render(p.board); }

  // Of the board alone: repetitions and declarations end nothing, as is usual in published counts.
  std::uint64_t perft(const Position& p, int depth) const { return Moves::perft(p.board, depth); }

 private:
  int steps() const { return is_small_ ? 1 : Position::kSteps; }

  static int drop_action(int square, int code) { return kActions * square + 2 * kShapes + Planes::held_index(code); }

  static shogi::Move to_step(Action action) {
    const int from = action / kActions, shape = action % kActions;
    if (shape >= 2 * kShapes) return {0, std::uint8_t(from), kHeldCodes[size_t(shape - 2 * kShapes)], false};
    const bool promotes = shape >= kShapes;
    return {std::uint8_t(from), std::uint8_t(Squares::destination(from, promotes ? shape - kShapes : shape)), 0,
            promotes};
  }
  static constexpr auto kHeldCodes = [] {
    std::array<std::uint8_t, Planes::kHeld> codes{};
    for (int code = shogi::kPawn; code <= shogi::kRook; ++code)
      if (Pieces::kMost[code]) codes[size_t(Planes::held_index(code))] = std::uint8_t(code);
    return codes;
  }();

  // A sink of moves that puts them in order: shapes as bits, those of knights as the two lowest ones.
  struct Ordered {
    struct Shapes {
      std::uint64_t plain, promoting;
      int offset;
    };
    Shapes shapes[Squares::kSquares];
    Set movers = 0, light[3] = {}, heavy = 0;  // drops: of a pawn, a lance, a knight; of what goes to any empty square
    std::uint8_t held[Planes::kHeld];          // the latter's shapes
    int num_held = 0;

    bool pawns(Set plain, Set promoting) {
      movers |= (plain | promoting) << N;
      Squares::each(plain | promoting, [&](int to) { shapes[to + N] = {0, 0, 0}; });
      Squares::each(plain, [&](int to) { shapes[to + N].plain = 1; });
      Squares::each(promoting, [&](int to) { shapes[to + N].promoting = 1; });
      return false;
    }
    bool piece(int from, Set plain, Set promoting) {
      Shapes s{0, 0, Squares::kKnights && Squares::shape(from, Squares::lowest(plain | promoting)) >= 64 ? 64 : 0};
      Squares::each(plain, [&](int to) { s.plain |= 1ull << (Squares::shape(from, to) & 63); });
      Squares::each(promoting, [&](int to) { s.promoting |= 1ull << (Squares::shape(from, to) & 63); });
      shapes[from] = s;
      movers |= Squares::bit(from);
      return false;
    }
    bool drops(int code, Set to) {
      if (code <= shogi::kKnight) {
        light[code - shogi::kPawn] = to;
      } else {
        heavy = to;
        held[num_held++] = std::uint8_t(2 * kShapes + Planes::held_index(code));
      }
      return false;
    }

    int write(Action* out) const {
      Action* at = out;
      Squares::each(movers | light[0] | light[1] | light[2] | heavy, [&](int square) {
        const int begin = kActions * square;
        if (Squares::has(movers, square)) {
          const Shapes& s = shapes[square];
          for (auto left = s.plain; left; left &= left - 1) *at++ = Action(begin + s.offset + std::countr_zero(left));
          for (auto left = s.promoting; left; left &= left - 1)
            *at++ = Action(begin + kShapes + s.offset + std::countr_zero(left));
        } else {
          for (int i = 0; i < (Pieces::kIsFull ? 3 : 1); ++i) {
            *at = Action(begin + 2 * kShapes + i);
            at += Squares::has(light[i], square);
          }
          for (int i = 0; i < num_held; ++i) *at++ = Action(begin + held[i]);
        }
      });
      return int(at - out);
    }
  };

  // A sink that keeps the sets, for one of their moves.
  struct Unordered {
    struct Part {
      Set set;
      int count, from, offset;  // from: -1 a pawn each, -2 - code: drops
    };
    Part parts[2 * Moves::kMostPieces + 10];
    int num_parts = 0, total = 0;

    void add(Set set, int from, int offset) {
      const int count = Squares::count(set);
      parts[num_parts] = {set, count, from, offset};
      num_parts += count > 0;
      total += count;
    }
    bool pawns(Set plain, Set promoting) { return piece(-1, plain, promoting); }
    bool piece(int from, Set plain, Set promoting) {
      add(plain, from, 0), add(promoting, from, kShapes);
      return false;
    }
    bool drops(int code, Set to) {
      add(to, -2 - code, 0);
      return false;
    }
    Action action(int rank) const {
      const Part* part = parts;
      for (const Part* last = parts + num_parts - 1; part < last && rank >= part->count; ++part) rank -= part->count;
      const int to = Squares::nth(part->set, rank);
      if (part->from < -1) return Action(drop_action(to, -2 - part->from));
      const int from = part->from < 0 ? to + N : part->from;
      return Action(kActions * from + Squares::shape(from, to) + part->offset);
    }
  };

  // Whether and how the game is over.
  void settle(Position& p, int repeats) const {
    using End = typename Position::End;
    const auto end = [&](End how, int outcome) { p.end = how, p.outcome = std::int8_t(outcome); };
    if (!Moves::has_any(p.board, p.threats))
      end(End::kMate, -1);
    else if (has_declaration_ && !p.threats.checkers && declares(p.board, p.threats.king))
      end(End::kDeclared, 1);
    else if (repeats >= 3)
      end(End::kRepeated, outcome_of_repetition(p));
    else if (p.ply >= max_plies_)
      end(End::kPlies, 0);
  }

  static int outcome_of_repetition(const Position& p) {
    const auto [own, others] = Record::perpetual(p);
    if (own != others) return own ? -1 : 1;
    return Pieces::kIsFull ? 0 : p.board.to_play == 0 ? -1 : 1;
  }

  static bool declares(const Board& b, int king) {
    if (!Squares::has(Squares::kZone, king)) return false;
    const Set entered = b.own & Squares::kZone;  // the king, too
    const int count = Squares::count(entered) - 1;
    if (count < 10) return false;
    int points = count + 4 * Squares::count(entered & (b.slanted_sliders() | b.straight_sliders()));
    for (int code = shogi::kPawn; code <= shogi::kRook; ++code)
      points += b.in_hand(0, code) * (code >= shogi::kBishop ? 5 : 1);
    return points >= (b.to_play == 0 ? 28 : 27);
  }

  Position make(const typename Text::SetUp& set_up) const {
    if (set_up.number > max_plies_ + 1)
      throw std::invalid_argument("the number of the move, " + std::to_string(set_up.number) +
                                  ": max_plies=" + std::to_string(max_plies_) + " of game " + kName +
                                  " ends the game before; write a smaller one, or allow more plies");
    Position p;
    p.board = set_up.board;
    p.ply = p.first_ply = std::uint16_t(set_up.number - 1);
    p.threats = Moves::threats(p.board);
    Record::begin(p);
    settle(p, 0);
    return p;
  }

  int max_plies_ = 0;
  bool is_small_ = false, has_declaration_ = false;
  Position start_;
};

}  // namespace shusaku
