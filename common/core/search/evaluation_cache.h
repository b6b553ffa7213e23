// Evaluations of positions already seen, keyed by (evaluation_key, version): bounded, direct-mapped, the newest wins.
//
//   slot: key 8 | version 4 | value 2 | count 2 | logits 2 x max_actions      half floats, as they travel
//
// Evaluations are rounded to half floats whether they are cached or not, so a hit is the very number of a miss.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "search/huge_pages.h"

namespace shusaku {

class EvaluationCache {
 public:
  struct Slot {
    std::uint64_t key;
    std::uint32_t version;
    std::uint16_t value, count;  // count 0: the slot is empty
  };

  EvaluationCache(std::uint64_t entries, int max_actions)
      : mask_(entries ? std::bit_ceil(entries) - 1 : 0),
        stride_((sizeof(Slot) + 2 * size_t(max_actions) + 7) / 8),
        memory_(entries ? (mask_ + 1) * stride_ : 0) {}

  void clear() { std::fill(memory_.begin(), memory_.end(), std::uint64_t(0)); }

  bool is_on() const { return !memory_.empty(); }

  // Prefetches what find() reads first.
  void prefetch(std::uint64_t key) const {
    if (is_on()) __builtin_prefetch(&memory_[(key & mask_) * stride_]);
  }

  // The logits of the position in half floats, nullptr if it is not known.
  const std::uint16_t* find(std::uint64_t key, std::uint32_t version, std::uint16_t& value) const {
    const std::uint64_t* at = &memory_[(key & mask_) * stride_];
    Slot slot;
    std::memcpy(&slot, at, sizeof slot);
    if (slot.count == 0 || slot.key != key || slot.version != version) return nullptr;
    value = slot.value;
    return reinterpret_cast<const std::uint16_t*>(at + kSlotWords);
  }

  void store(std::uint64_t key, std::uint32_t version, std::uint16_t value, const std::uint16_t* logits, int count) {
    std::uint64_t* at = &memory_[(key & mask_) * stride_];
    const Slot slot{key, version, value, std::uint16_t(count)};
    std::memcpy(at, &slot, sizeof slot);
    std::memcpy(at + kSlotWords, logits, 2 * size_t(count));
  }

 private:
  static constexpr size_t kSlotWords = sizeof(Slot) / 8;

  std::uint64_t mask_;
  size_t stride_;  // in words of 8 bytes
  std::vector<std::uint64_t, HugePages<std::uint64_t>> memory_;
};

}  // namespace shusaku
