// Chess, by the FIDE Laws of 2023: mate, stalemate, and drawn without a claim at the third time of a position, after
// fifty moves of each without a capture or a pawn's move, and if neither side has the pieces to mate.
//
//   actions   73 * square + plane, the square that a piece leaves, as the player to move sees it: a1 = 0, own first
//   rank
//             below.  Planes 0 to 63: where it goes, by the displacements of a queen and a knight, the lower rank
//             first, then the file more to the left (a pawn that reaches the last rank becomes a queen).  64 to 72: a
//             pawn becomes a knight, a bishop, a rook, each by capturing to the left, straight on, to the right.  8 x 8
//             x 73 = 4,672 (Silver et al. 2018, supplementary table S2)
//   moves     UCI's; SAN is read, too
//   planes    zero [119]: eight positions of 14 planes, the newest first: own pieces (pawn, knight, bishop, rook,
//   queen,
//             king), the opponent's, whether it occurred once before, whether twice; uniform: black to move, plies /
//             100, own rights to castle (short, long), the opponent's, plies without progress / 100 (table S1) small
//             [18]: the newest position alone, with one plane of repetition, one of en passant, the four rights
//
// After each ply the board is turned (board.h), so "own" is always below.
#pragma once

#include <cstring>

#include "games/chess/san.h"

namespace shusaku {

struct ChessPosition {
  enum Status : std::uint8_t { kOpen, kMate, kDrawn, kCutOff };
  static constexpr int kKeys = 128;  // more than the plies that a repetition can go back: 100 without progress
  static constexpr int kHistory = 8;

  chess::Board board;
  chess::Dangers dangers;
  std::uint16_t ply = 0;
  std::uint16_t first_ply = 0;  // plies before the position that was set up, by its FEN
  std::uint8_t to_play = 0;
  Status status = kOpen;
  std::uint8_t repeated[kHistory] = {};  // how often it occurred before, of the ply % 8
  chess::Pieces past[kHistory];          // the pieces of that ply as its player saw them
  std::uint64_t keys[kKeys];             // of the ply % 128
};

class Chess {
 public:
  static constexpr const char* kName = "chess";
  static constexpr bool kAlternates = true;
  using Position = ChessPosition;
  static constexpr int kPlanes = 73, kUnder = 64, kMaxPlies = 4096;

  explicit Chess(const Params& params) {
    max_plies_ = whole_parameter(params, kName, "max_plies", 1, kMaxPlies);
    is_small_ = chosen_parameter(params, kName, "planes", {"zero", "small"}) == "small";
  }
  static std::vector<ParamHelp> parameters() {
    return {
        {"planes", std::string("zero"), "zero: 119, eight positions and the counters | small: 18, the position alone"},
        {"max_plies", std::int64_t(512), "the game is drawn after so many plies"}};
  }

  int num_actions() const { return 64 * kPlanes; }
  int max_plies() const { return max_plies_; }
  // Of what FEN lets in; 218 is the most of any position that can arise (https://lichess.org/@/Tobs40).
  int max_legal_actions() const { return 336; }
  Shape shape() const {
    return is_small_ ? Shape{.binary = 14, .uniform = 4, .height = 8, .width = 8}
                     : Shape{.binary = 112, .uniform = 7, .height = 8, .width = 8};
  }
  int num_symmetries() const { return 1; }

  Position start() const { return parse("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"); }
  int to_play(const Position& p) const { return p.to_play; }
  int ply(const Position& p) const { return p.ply; }
  bool is_terminal(const Position& p) const { return p.status != Position::kOpen; }
  int outcome(const Position& p) const { return p.status == Position::kMate ? -1 : 0; }
  float score(const Position&) const { return kNoScore; }
  bool is_cut_off(const Position& p) const { return p.status == Position::kCutOff; }

  int legal_actions(const Position& p, Action* out) const {
    if (is_terminal(p)) return 0;
    chess::Reach r;
    chess::reach(p.board, p.dangers, r);
    const chess::Squares promoters = p.board.own & p.board.pawns() & chess::kRank7;
    Action* next = out;
    for (chess::Squares movers = r.movers; movers; movers &= movers - 1) {
      const int from = chess::lowest(movers);
      const Action* actions = kActions[size_t(from)].data();
      for (chess::Squares left = r.targets[from]; left; left &= left - 1) *next++ = actions[chess::lowest(left)];
      if (promoters & chess::bit(from))
        for (int kind = 0; kind < 3; ++kind)
          for (chess::Squares left = r.targets[from]; left; left &= left - 1)
            *next++ = under_promotion(from, chess::lowest(left), kind);
    }
    return int(next - out);
  }

  void play(Position& p, Action action) const {
    chess::make(p.board, to_chess(p.board, action));
    ++p.ply;
    p.to_play ^= 1;
    settle(p);
  }

  std::uint64_t evaluation_key(const Position& p) const {
    const auto at = [&](int t) { return p.keys[t & (Position::kKeys - 1)] + p.repeated[t & 7]; };
    if (is_small_) return mix64(at(p.ply));
    std::uint64_t sum = std::uint64_t(p.to_play) << 32 | std::uint64_t(p.board.quiet_plies) << 16 |
                        std::uint16_t(p.first_ply + p.ply),
                  factor = 1;
    for (int t = p.ply; t >= 0 && t > p.ply - Position::kHistory; --t) sum += at(t) * (factor *= 0x9E3779B97F4A7C15ull);
    return mix64(sum);
  }
  // What may still be repeated counts, whose turn it was then, and how far the limits are away.
  std::uint64_t transposition_key(const Position& p) const {
    std::uint64_t before = 0;  // a set: their order is of no importance
    for (int t = p.ply, last = p.ply - reversible(p); t >= last; --t)
      before += mix64(p.keys[t & (Position::kKeys - 1)] + std::uint64_t((p.ply - t) & 1));
    const std::uint64_t limits = std::uint64_t(p.to_play) << 32 | std::uint64_t(p.board.quiet_plies) << 16 | p.ply;
    return combine(combine(p.keys[p.ply & (Position::kKeys - 1)], before), limits);
  }

  void observe(const Position& p, int, std::uint8_t* bits, float* uniform) const {
    const auto& b = p.board;
    if (is_small_) {
      std::uint64_t planes[14];
      write_pieces(b, planes);
      planes[12] = p.repeated[p.ply & 7] ? ~0ull : 0;
      planes[13] = b.en_passant < 0 ? 0 : chess::bit(b.en_passant);
      std::memcpy(bits, planes, sizeof planes);
      for (int k = 0; k < 4; ++k) uniform[k] = float(b.rights >> k & 1);
      return;
    }
    std::uint64_t planes[8][14] = {};
    for (int age = 0; age < Position::kHistory && age <= p.ply; ++age) {
      const auto& past = p.past[(p.ply - age) & 7];
      write_pieces(age & 1 ? past.turned_around() : past, planes[age]);  // at odd ages the other player was to move
      const int repeated = p.repeated[(p.ply - age) & 7];
      planes[age][12] = repeated >= 1 ? ~0ull : 0;
      planes[age][13] = repeated >= 2 ? ~0ull : 0;
    }
    std::memcpy(bits, planes, sizeof planes);
    uniform[0] = float(p.to_play);
    uniform[1] = float(p.first_ply + p.ply) / 100.f;
    for (int k = 0; k < 4; ++k) uniform[2 + k] = float(b.rights >> k & 1);
    uniform[6] = float(b.quiet_plies) / 100.f;
  }

  Action permute(int, Action action) const { return action; }
  int permute_cell(int, int cell) const { return cell; }

  Position parse(const std::string& text) const {
    const chess::SetUp set_up = chess::FenReader(text).read();
    Position p{};
    p.board = set_up.board;
    p.to_play = std::uint8_t(set_up.to_play);
    p.first_ply = std::uint16_t(2 * (set_up.full_moves - 1) + set_up.to_play);
    settle(p);
    return p;
  }
  std::string to_text(const Position& p) const { return chess::write_fen(set_up(p)); }
  std::string to_move(const Position& p, Action action) const {
    return chess::write_uci(to_chess(p.board, action), p.to_play);
  }
  std::string to_san(const Position& p, Action action) const {
    return chess::write_san(p.board, p.dangers, to_chess(p.board, action), p.to_play);
  }
  int from_move(const Position& p, const std::string& text) const {
    chess::Move m = chess::read_uci(text, p.to_play);
    if (m.from == m.to) m = chess::read_san(p.board, p.dangers, text, p.to_play);
    return m.from == m.to ? -1 : from_chess(p.board, m);
  }
  std::string why_illegal(const Position& p, const std::string& text) const {
    return chess::why_illegal(p.board, p.dangers, text, p.to_play);
  }
  std::string render(const Position& p) const {
    static constexpr const char* kEnds[] = {"", "mate", "drawn", "drawn: the limit on the plies"};
    return chess::render(set_up(p)) +
           (is_terminal(p) ? kEnds[p.status]
            : p.to_play    ? "black to move"
                           : "white to move") +
           "\n";
  }
  std::uint64_t perft(const Position& p, int depth) const { return depth == 0 ? 1 : chess::perft(p.board, depth); }

 private:
  using Squares = chess::Squares;

  // What a position is once its board is known.
  void settle(Position& p) const {
    chess::Board& b = p.board;
    const std::uint64_t key = b.key();
    p.dangers = chess::dangers(b);
    p.keys[p.ply & (Position::kKeys - 1)] = key;
    p.past[p.ply & 7] = {b.own, {b.bits[0], b.bits[1], b.bits[2]}};
    int repeated = 0;
    for (int t = p.ply - 4, last = p.ply - reversible(p); t >= last; t -= 2)
      repeated += p.keys[t & (Position::kKeys - 1)] == key;
    p.repeated[p.ply & 7] = std::uint8_t(repeated);
    if (!chess::has_move(b, p.dangers))
      p.status = p.dangers.checkers ? Position::kMate : Position::kDrawn;
    else if (repeated >= 2 || b.quiet_plies >= 100 || has_too_little(b))
      p.status = Position::kDrawn;
    else
      p.status = p.ply >= max_plies_ ? Position::kCutOff : Position::kOpen;
  }

  // Plies back to the oldest position that could be this one again and is known.
  static int reversible(const Position& p) { return std::min<int>(p.board.quiet_plies, p.ply); }

  // Whether neither side can mate by any sequence of moves that looks at the kinds of pieces alone: kings with one
  // knight, or with bishops that all stand on squares of one colour.
  static bool has_too_little(const chess::Board& b) {
    if (b.pawns() | b.straights()) return false;
    const Squares knights = b.knights(), bishops = b.bishops();
    if (knights) return bishops == 0 && (knights & (knights - 1)) == 0;
    return (bishops & chess::kDark) == 0 || (bishops & ~chess::kDark) == 0;
  }

  static void write_pieces(const chess::Pieces& p, std::uint64_t* planes) {
    int k = 0;
    for (Squares kind : {p.pawns(), p.knights(), p.bishops(), p.rooks(), p.queens(), p.kings()}) {
      planes[k] = kind & p.own;
      planes[6 + k++] = kind & ~p.own;
    }
  }

  static chess::SetUp set_up(const Position& p) { return {p.board, p.to_play, (p.first_ply + p.ply) / 2 + 1}; }

  static Action under_promotion(int from, int to, int kind) {
    return Action(kPlanes * from + kUnder + 3 * kind + to - from - 7);
  }
  static chess::Move to_chess(const chess::Board& b, Action action) {
    const int from = action / kPlanes, plane = action % kPlanes;
    if (plane >= kUnder)
      return {std::uint8_t(from), std::uint8_t(from + 7 + (plane - kUnder) % 3),
              std::uint8_t(chess::kKnightPiece + (plane - kUnder) / 3)};
    const int to = from + 8 * kDisplacements[size_t(plane)][1] + kDisplacements[size_t(plane)][0];
    const bool promotes = to >= 56 && (b.pawns() & chess::bit(from));
    return {std::uint8_t(from), std::uint8_t(to), std::uint8_t(promotes ? chess::kQueen : chess::kNone)};
  }
  // -1 if no piece moves like that.
  static int from_chess(const chess::Board& b, chess::Move m) {
    const bool promotes = m.to >= 56 && (b.pawns() & chess::bit(m.from));
    if (promotes != (m.promotion != chess::kNone)) return -1;
    if (m.promotion == chess::kNone || m.promotion == chess::kQueen) {
      const Action action = kActions[m.from][m.to];
      return action == kNoAction ? -1 : action;
    }
    const int step = m.to - m.from;
    if (step < 7 || step > 9 || m.to / 8 != m.from / 8 + 1) return -1;
    return under_promotion(m.from, m.to, m.promotion - chess::kKnightPiece);
  }

  static constexpr Action kNoAction = 0xFFFF;
  // {file, rank} of the planes 0 to 63, ascending by rank, then file, so that actions ascend with the squares reached.
  static constexpr auto kDisplacements = [] {
    std::array<std::array<int, 2>, 64> table{};
    size_t plane = 0;
    for (int dr = -7; dr <= 7; ++dr)
      for (int df = -7; df <= 7; ++df) {
        const bool is_line = (df != 0 || dr != 0) && (df == 0 || dr == 0 || df == dr || df == -dr);
        if (is_line || df * df + dr * dr == 5) table[plane++] = {df, dr};
      }
    return table;
  }();
  static constexpr auto kActions = [] {
    std::array<std::array<Action, 64>, 64> table{};
    for (auto& row : table) row.fill(kNoAction);
    for (int from = 0; from < 64; ++from)
      for (int plane = 0; plane < 64; ++plane) {
        const int file = from % 8 + kDisplacements[size_t(plane)][0],
                  rank = from / 8 + kDisplacements[size_t(plane)][1];
        if (file >= 0 && file < 8 && rank >= 0 && rank < 8)
          table[size_t(from)][size_t(8 * rank + file)] = Action(kPlanes * from + plane);
      }
    return table;
  }();

  int max_plies_ = 512;
  bool is_small_ = false;
};

}  // namespace shusaku
