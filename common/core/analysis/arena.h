// Memory that grows in chunks and is given back in lists: what lies in it never moves, so a tree that grows is never
// copied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace shusaku {

constexpr std::uint32_t kNothing = 0xFFFFFFFFu;  // the number of no element

// Runs of up to `kLongest` elements that follow each other, named by the number of the first one.
template <class T, std::uint32_t kChunk, std::uint32_t kLongest>
class Arena {
  static_assert((kChunk & (kChunk - 1)) == 0 && kLongest <= kChunk && sizeof(T) >= sizeof(std::uint32_t));

 public:
  T* at(std::uint32_t number) { return &chunks_[number / kChunk][number % kChunk]; }
  const T* at(std::uint32_t number) const { return &chunks_[number / kChunk][number % kChunk]; }

  // The contents are whatever was there before.
  std::uint32_t take(std::uint32_t length) {
    live_ += length;
    if (length < free_.size() && free_[length] != kNothing) {
      const std::uint32_t number = free_[length];
      std::memcpy(&free_[length], at(number), sizeof number);
      return number;
    }
    if (chunks_.empty() || used_ + length > kChunk) {
      chunks_.push_back(std::make_unique_for_overwrite<T[]>(kChunk));
      used_ = 0;
    }
    used_ += length;
    return std::uint32_t(chunks_.size() - 1) * kChunk + used_ - length;
  }

  void give_back(std::uint32_t number, std::uint32_t length) {
    if (free_.size() <= length) free_.resize(length + 1, kNothing);
    std::memcpy(static_cast<void*>(at(number)), &free_[length], sizeof number);
    free_[length] = number;
    live_ -= length;
  }

  void clear() {
    chunks_.clear(), free_.clear();
    used_ = kChunk, live_ = 0;
  }

  // Of the elements in use.
  std::size_t bytes() const { return live_ * sizeof(T); }

 private:
  std::vector<std::unique_ptr<T[]>> chunks_;
  std::vector<std::uint32_t> free_;  // by length, the first of a list whose links lie in the elements
  std::uint32_t used_ = kChunk;      // of the last chunk
  std::size_t live_ = 0;
};

}  // namespace shusaku
