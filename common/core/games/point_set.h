// A set of the points of a board as bits: W words of 64.
#pragma once

#include <bit>
#include <cstdint>

#include "games/square_bits.h"

namespace shusaku {

template <int W>
struct PointSet {
  std::uint64_t words[W] = {};

  bool has(int bit) const { return words[bit >> 6] >> (bit & 63) & 1; }
  void add(int bit) { words[bit >> 6] |= 1ull << (bit & 63); }
  void remove(int bit) { words[bit >> 6] &= ~(1ull << (bit & 63)); }
  bool is_empty() const {
    std::uint64_t any = 0;
    for (std::uint64_t w : words) any |= w;
    return any == 0;
  }
  // Removes the lowest bit and returns it; the set is not empty.
  int take() {
    int i = 0;
    while (words[i] == 0) ++i;
    const int bit = 64 * i + std::countr_zero(words[i]);
    words[i] &= words[i] - 1;
    return bit;
  }
  int count() const {
    int n = 0;
    for (std::uint64_t w : words) n += std::popcount(w);
    return n;
  }
  bool operator==(const PointSet&) const = default;

  friend PointSet operator|(PointSet a, const PointSet& b) {
    for (int i = 0; i < W; ++i) a.words[i] |= b.words[i];
    return a;
  }
  friend PointSet operator&(PointSet a, const PointSet& b) {
    for (int i = 0; i < W; ++i) a.words[i] &= b.words[i];
    return a;
  }
  friend PointSet operator^(PointSet a, const PointSet& b) {
    for (int i = 0; i < W; ++i) a.words[i] ^= b.words[i];
    return a;
  }
  PointSet without(const PointSet& b) const {
    PointSet a = *this;
    for (int i = 0; i < W; ++i) a.words[i] &= ~b.words[i];
    return a;
  }
  // Towards higher bits, and towards lower ones; by 1 to 63.
  PointSet up(int by) const {
    PointSet a;
    a.words[0] = words[0] << by;
    for (int i = 1; i < W; ++i) a.words[i] = words[i] << by | words[i - 1] >> (64 - by);
    return a;
  }
  PointSet down(int by) const {
    PointSet a;
    for (int i = 0; i + 1 < W; ++i) a.words[i] = words[i] >> by | words[i + 1] << (64 - by);
    a.words[W - 1] = words[W - 1] >> by;
    return a;
  }

  // Calls f(bit) in ascending order.
  template <class F>
  void each(F f) const {
    for (int i = 0; i < W; ++i)
      for (std::uint64_t w = words[i]; w; w &= w - 1) f(64 * i + std::countr_zero(w));
  }

  // The bit that `rank` others are below; rank < count().
  int nth(int rank) const {
    for (int i = 0;; ++i) {
      const int n = std::popcount(words[i]);
      if (rank < n) return 64 * i + std::countr_zero(nth_bit(words[i], unsigned(rank)));
      rank -= n;
    }
  }
};

}  // namespace shusaku
