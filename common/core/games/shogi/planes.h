// The planes of shogi: eight boards, one behind the other, from the newest one and the moves that led to it.
#pragma once

#include <algorithm>

#include "games/bit_planes.h"
#include "games/shogi/record.h"
#include "games/shogi/text.h"

namespace shusaku {

template <int N>
struct ShogiPlanes {
  using Squares = ShogiSquares<N>;
  using Board = ShogiBoard<N>;
  using Position = ShogiPosition<N>;
  using Step = typename Position::Step;

  static constexpr int kPieces = N == 9 ? 14 : 10, kHeld = N == 9 ? 7 : 5, kRepeats = 3;
  static constexpr int kBinary = 2 * kPieces + kRepeats;  // of one board
  static constexpr int kBits = kBinary * Squares::kSquares, kWords = (kBits + 63) / 64;

  // Plane of a code, place of a code among the pieces in hand.
  static constexpr std::array<std::uint8_t, shogi::kCodes> kPlane = [] {
    std::array<std::uint8_t, shogi::kCodes> planes{};
    std::uint8_t next = 0;
    for (int code = 1; code < shogi::kCodes; ++code)
      if (code != shogi::kGold + shogi::kPromoted && ShogiSet<N>::kMost[shogi::unpromoted(code)])
        planes[size_t(code)] = next++;
    return planes;
  }();
  static constexpr int held_index(int code) { return kPlane[size_t(code)]; }

  // The bits of one board, and behind them two words that stay 0.
  struct Bits {
    std::uint64_t words[kWords + 2] = {};

    void flip(int plane, int square) {
      const int at = plane * Squares::kSquares + square;
      words[at >> 6] ^= 1ull << (at & 63);
    }
    template <int kPlaneOf>
    void add(typename Squares::Set set) {
      constexpr int kWord = kPlaneOf * Squares::kSquares / 64, kShift = kPlaneOf * Squares::kSquares % 64;
      const auto low = std::uint64_t(set);
      std::uint64_t high = 0;
      if constexpr (Squares::kSquares > 64) high = std::uint64_t(set >> 64);
      words[kWord] |= low << kShift;
      words[kWord + 1] |= high << kShift | (low >> 1) >> (63 - kShift);
      if constexpr (Squares::kSquares > 64) words[kWord + 2] |= (high >> 1) >> (63 - kShift);
    }
  };

  template <int kSteps>
  static void observe(const Position& p, std::uint8_t* out, float* uniform) {
    Bits now;
    write_board(p.board, now);
    int held[2 * kHeld];
    for (int side = 0; side < 2; ++side)
      for (int code = shogi::kPawn; code <= shogi::kRook; ++code)
        if (ShogiSet<N>::kMost[code]) held[side * kHeld + held_index(code)] = p.board.in_hand(side, code);

    constexpr int bytes = (kSteps * kBits + 7) / 8;
    std::uint64_t words[(kSteps * kBits + 63) / 64 + 2];
    words[0] = 0;
    const int known = std::min(p.length(), kSteps - 1);
    unrolled<0, kSteps>(p, known, now, held, words, uniform);
    std::memcpy(out, words, size_t(bytes));
  }

 private:
  template <int kStep, int kSteps>
  [[gnu::always_inline]] static void unrolled(const Position& p, int known, Bits& bits, int* held, std::uint64_t* words,
                                              float* uniform) {
    if constexpr (kStep < kSteps) {
      constexpr int kBegin = kStep * kBits / 64, kShift = kStep * kBits % 64;
      constexpr int kEnd = ((kStep + 1) * kBits + 63) / 64;
      if (kStep > known) {
        for (int i = kBegin + 1; i < kEnd; ++i) words[i] = 0;
        std::fill_n(uniform + kStep * 2 * kHeld, 2 * kHeld, 0.f);
      } else {
        const int repeats = p.steps[(p.ply - kStep) % Position::kSteps].repeats;
        if (repeats) [[unlikely]]
          flip_repeats(bits, repeats);
        words[kBegin] |= bits.words[0] << kShift;
        for (int i = 1; i < kEnd - kBegin; ++i)
          words[kBegin + i] =
              kShift == 0 ? bits.words[i] : bits.words[i] << kShift | bits.words[i - 1] >> ((64 - kShift) & 63);
        if (repeats) [[unlikely]]
          flip_repeats(bits, repeats);
        for (int i = 0; i < 2 * kHeld; ++i) uniform[kStep * 2 * kHeld + i] = float(held[i]) * kShare[size_t(i)];
        if (kStep + 1 < kSteps && kStep < known)
          take_back(p.steps[(p.ply - kStep) % Position::kSteps], kStep % 2 == 0, bits, held);
      }
      unrolled<kStep + 1, kSteps>(p, known, bits, held, words, uniform);
    }
  }

  // Of all pieces of a kind, so that a plane lies in [0, 1].
  static constexpr std::array<float, 2 * kHeld> kShare = [] {
    std::array<float, 2 * kHeld> shares{};
    for (int code = shogi::kPawn; code <= shogi::kRook; ++code)
      if (const int most = ShogiSet<N>::kMost[code])
        shares[size_t(held_index(code))] = shares[size_t(kHeld + held_index(code))] = 1.f / float(most);
    return shares;
  }();

  static void write_board(const Board& b, Bits& bits) {
    write_pieces(b, bits, std::make_integer_sequence<int, shogi::kCodes>{});
  }
  template <int... kCode>
  static void write_pieces(const Board& b, Bits& bits, std::integer_sequence<int, kCode...>) {
    const auto other = b.occupied() & ~b.own;
    const auto add = [&]<int kOf>(std::integral_constant<int, kOf>) {
      if constexpr (kOf == shogi::kPawn || kPlane[size_t(kOf)] > 0) {
        const auto pieces = b.template of<kOf>();
        bits.template add<kPlane[size_t(kOf)]>(pieces & b.own);
        bits.template add<kPieces + kPlane[size_t(kOf)]>(pieces & other);
      }
    };
    (add(std::integral_constant<int, kCode>{}), ...);
  }

  static void flip_repeats(Bits& bits, int repeats) {
    for (int plane = 0; plane < repeats; ++plane)
      for (int square = 0; square < Squares::kSquares; ++square) bits.flip(2 * kPieces + plane, square);
  }

  // `by_other`: it was the opponent's ply.
  static void take_back(const Step& step, bool by_other, Bits& bits, int* held) {
    const int mine = by_other ? kPieces : 0, theirs = kPieces - mine;
    const int to = by_other ? Squares::kSquares - 1 - step.to : step.to,
              from = by_other ? Squares::kSquares - 1 - step.from : step.from;
    int* hand = held + (by_other ? kHeld : 0);
    bits.flip(mine + kPlane[step.after], to);
    if (step.before)
      bits.flip(mine + kPlane[step.before], from);
    else
      ++hand[held_index(step.after)];
    if (step.captured) {
      bits.flip(theirs + kPlane[step.captured], to);
      --hand[held_index(shogi::unpromoted(step.captured))];
    }
  }
};

}  // namespace shusaku
