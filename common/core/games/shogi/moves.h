// The legal moves of a shogi board, set by set, so that they can be counted without being listed.
//
// No move may leave the own king attacked.  A pawn may not be dropped on a column that has an own unpromoted pawn
// (nifu), nor to mate (uchifuzume); no piece goes or is dropped to where it could never move again.
#pragma once

#include "games/shogi/board.h"

namespace shusaku {

template <int N>
struct ShogiMoves {
  using Squares = ShogiSquares<N>;
  using Set = typename Squares::Set;
  using Board = ShogiBoard<N>;

  static constexpr Set kLastRow = Squares::row(0), kLastRows = kLastRow | Squares::row(1);
  static constexpr int kMostPieces = 40;  // of both players, in all; a sink's calls for pieces are as many at most

  // What bears on the king of the player to move.
  struct Threats {
    Set checkers = 0, pinned = 0;
    int king = 0;
  };

  static Threats threats(const Board& b) {
    const Set occupied = b.occupied(), other = occupied & ~b.own;
    Threats t;
    t.king = Squares::lowest(b.template of<shogi::kKing>() & b.own);
    const auto k = size_t(t.king);
    const Set straight = b.straight_sliders(), slanted = b.slanted_sliders();
    const Set lances = b.template of<shogi::kLance>();
    // A piece attacks the king from where a piece like it would attack on the king's square.
    t.checkers = ((Squares::north(Squares::bit(t.king)) & b.template of<shogi::kPawn>()) |
                  (Squares::kKnight[k] & b.template of<shogi::kKnight>()) |
                  (Squares::kSilver[k] & b.template of<shogi::kSilver>()) | (Squares::kGold[k] & b.golds()) |
                  (Squares::kSlanted[k] & straight & b.bits[3]) | (Squares::kStraight[k] & slanted & b.bits[3])) &
                 other;
    const Set sliders = ((Squares::kLinesOf[0][k] & straight) | (Squares::kLinesOf[1][k] & slanted) |
                         (Squares::ray(Squares::kNorth, t.king) & lances)) &
                        other;
    Squares::each(sliders, [&](int s) {
      const Set among = Squares::between(t.king, s) & occupied;
      if (among == 0)
        t.checkers |= Squares::bit(s);
      else if (!Squares::has_several(among))
        t.pinned |= among & b.own;
    });
    return t;
  }

  // Calls of the sink, each until it returns true; whether it did.
  //   pawns(plain, promoting)           destinations of pawns, each one row above its pawn
  //   piece(from, plain, promoting)     destinations of one piece
  //   drops(code, to)                   of a piece in hand
  template <class Sink>
  static bool generate(const Board& b, const Threats& t, Sink&& sink) {
    const Set occupied = b.occupied(), own = b.own, free = Squares::kAll & ~occupied;
    Set targets = Squares::kAll & ~own, drop_targets = free;
    if (t.checkers) {
      if (Squares::has_several(t.checkers)) return king_moves(b, t, sink);
      drop_targets = Squares::between(t.king, Squares::lowest(t.checkers));
      targets = drop_targets | t.checkers;
    }
    return pawn_moves(b, t, targets, sink) || piece_moves(b, t, targets, sink) || king_moves(b, t, sink) ||
           (drop_targets && drops(b, drop_targets, sink));
  }

  struct Any {
    bool pawns(Set plain, Set promoting) { return (plain | promoting) != 0; }
    bool piece(int, Set plain, Set promoting) { return (plain | promoting) != 0; }
    bool drops(int, Set to) { return to != 0; }
  };
  static bool has_any(const Board& b, const Threats& t) { return generate(b, t, Any{}); }

  struct Counter {
    int count = 0;
    bool pawns(Set plain, Set promoting) { return piece(0, plain, promoting); }
    bool piece(int, Set plain, Set promoting) {
      count += Squares::count(plain) + Squares::count(promoting);
      return false;
    }
    bool drops(int, Set to) {
      count += Squares::count(to);
      return false;
    }
  };

  // Calls f(move) for every one, in no special order.
  template <class F>
  struct Each {
    F f;
    bool pawns(Set plain, Set promoting) {
      Squares::each(plain, [&](int to) { f(shogi::Move{std::uint8_t(to + N), std::uint8_t(to), 0, false}); });
      Squares::each(promoting, [&](int to) { f(shogi::Move{std::uint8_t(to + N), std::uint8_t(to), 0, true}); });
      return false;
    }
    bool piece(int from, Set plain, Set promoting) {
      Squares::each(plain, [&](int to) { f(shogi::Move{std::uint8_t(from), std::uint8_t(to), 0, false}); });
      Squares::each(promoting, [&](int to) { f(shogi::Move{std::uint8_t(from), std::uint8_t(to), 0, true}); });
      return false;
    }
    bool drops(int code, Set set) {
      Squares::each(set, [&](int to) { f(shogi::Move{0, std::uint8_t(to), std::uint8_t(code), false}); });
      return false;
    }
  };

  static std::uint64_t perft(const Board& b, int depth) {
    if (depth == 0) return 1;
    const Threats t = threats(b);
    if (depth == 1) {
      Counter counter;
      generate(b, t, counter);
      return std::uint64_t(counter.count);
    }
    std::uint64_t nodes = 0;
    const auto follow = [&](shogi::Move move) {
      Board next = b;
      next.play(move);
      nodes += perft(next, depth - 1);
    };
    generate(b, t, Each<decltype(follow)>{follow});
    return nodes;
  }

  // Whether a pawn that is dropped here, in front of the king, mates.  Its capture prevents mate, and so does a king's
  // move.
  static bool drop_mates(const Board& b, int to) {
    Board next = b;
    next.play({0, std::uint8_t(to), shogi::kPawn, false});
    return !has_any(next, threats(next));
  }

 private:
  template <class Sink>
  static bool pawn_moves(const Board& b, const Threats& t, Set targets, Sink& sink) {
    const Set column = Squares::ray(Squares::kNorth, t.king) | Squares::ray(Squares::kSouth, t.king);
    const Set movers = b.template of<shogi::kPawn>() & b.own & (~t.pinned | column);
    const Set to = Squares::north(movers) & targets;
    return to && sink.pawns(to & ~kLastRow, to & Squares::kZone);
  }

  template <class Sink>
  static bool piece_moves(const Board& b, const Threats& t, Set targets, Sink& sink) {
    const Set occupied = b.occupied();
    const auto each = [&](Set movers, auto reach, Set plain, bool may_promote) {
      movers &= b.own;
      return Squares::any(movers, [&](int from) {
        Set to = reach(from) & targets;
        if (t.pinned && Squares::has(t.pinned, from))
          to &= Squares::ray(Squares::shape(t.king, from) / Squares::kFar, t.king);
        const Set promoting = !may_promote ? 0 : from < Squares::kZoneRows * N ? to : to & Squares::kZone;
        return to && sink.piece(from, to & plain, promoting);
      });
    };
    constexpr Set all = Squares::kAll;
    const Set slanted = b.slanted_sliders(), straight = b.straight_sliders(), promoted = b.bits[3];
    if constexpr (N == 9) {
      if (each(
              b.template of<shogi::kKnight>() & ~t.pinned, [](int s) { return Squares::kKnight[size_t(s)]; },
              ~kLastRows, true))
        return true;
      if (each(
              b.template of<shogi::kLance>(),
              [&](int s) { return Squares::template slide<Squares::kNorth>(s, occupied); }, ~kLastRow, true))
        return true;
    }
    return each(
               b.template of<shogi::kSilver>(), [](int s) { return Squares::kSilver[size_t(s)]; }, all, true) ||
           each(
               b.golds(), [](int s) { return Squares::kGold[size_t(s)]; }, all, false) ||
           each(
               slanted & ~promoted, [&](int s) { return Squares::slanted(s, occupied); }, all, true) ||
           each(
               straight & ~promoted, [&](int s) { return Squares::straight(s, occupied); }, all, true) ||
           each(
               slanted & promoted, [&](int s) { return Squares::slanted(s, occupied) | Squares::kKing[size_t(s)]; },
               all, false) ||
           each(
               straight & promoted, [&](int s) { return Squares::straight(s, occupied) | Squares::kKing[size_t(s)]; },
               all, false);
  }

  template <class Sink>
  static bool king_moves(const Board& b, const Threats& t, Sink& sink) {
    Set to = Squares::kKing[size_t(t.king)] & ~b.own;
    if (to == 0) return false;
    to &= ~attacked(b, b.occupied() & ~Squares::bit(t.king));
    return to && sink.piece(t.king, to, 0);
  }

  // By the opponent, whose pieces move down.
  static Set attacked(const Board& b, Set occupied) {
    const Set other = b.occupied() & ~b.own;
    const auto beside = [](Set set) { return Squares::east(set) | Squares::west(set); };
    const Set silvers = b.template of<shogi::kSilver>() & other, golds = b.golds() & other;
    const Set sides = beside(silvers), gold_sides = beside(golds);
    Set reached = Squares::south((b.template of<shogi::kPawn>() & other) | silvers | sides | golds | gold_sides) |
                  Squares::north(sides | golds) | gold_sides;
    reached |= Squares::kKing[size_t(Squares::lowest(b.template of<shogi::kKing>() & other))];
    if constexpr (N == 9) {
      reached |= Squares::south(Squares::south(beside(b.template of<shogi::kKnight>() & other)));
      Squares::each(b.template of<shogi::kLance>() & other,
                    [&](int s) { reached |= Squares::template slide<Squares::kSouth>(s, occupied); });
    }
    const Set slanted = b.slanted_sliders() & other, straight = b.straight_sliders() & other;
    Squares::each(slanted, [&](int s) { reached |= Squares::slanted(s, occupied); });
    Squares::each(straight, [&](int s) { reached |= Squares::straight(s, occupied); });
    Squares::each((slanted | straight) & b.bits[3], [&](int s) { reached |= Squares::kKing[size_t(s)]; });
    return reached;
  }

  template <class Sink>
  static bool drops(const Board& b, Set free, Sink& sink) {
    const std::uint64_t hand = b.hands[0];
    if (hand == 0) return false;
    if (b.in_hand(0, shogi::kPawn)) {
      Set to = free & ~kLastRow & ~Squares::columns_of(b.template of<shogi::kPawn>() & b.own);
      const Set check = Squares::south(b.template of<shogi::kKing>() & ~b.own) & to;
      if (check && drop_mates(b, Squares::lowest(check))) to ^= check;
      if (to && sink.drops(shogi::kPawn, to)) return true;
    }
    for (int code = shogi::kLance; code <= shogi::kRook; ++code) {
      if (!(hand >> (8 * code) & 0xFF)) continue;
      const Set to = code == shogi::kLance ? free & ~kLastRow : code == shogi::kKnight ? free & ~kLastRows : free;
      if (to && sink.drops(code, to)) return true;
    }
    return false;
  }
};

}  // namespace shusaku
