// Symmetric positions as one: the views through all symmetries are the same set for each of them, and one view is
// chosen by its planes.  All of them are then evaluated as that view, under one key.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "games/game.h"

namespace shusaku {

template <GameRules G>
class SymmetricPositions {
 public:
  // `samples`: the view is sampled, by the planes and a stream, so that a network's preference for an orientation
  // averages out over a tree; else it is the view with the smallest planes.
  SymmetricPositions(const G& rules, bool samples)
      : rules_(&rules),
        samples_(samples),
        bytes_(size_t(rules.shape().packed_bytes())),
        uniform_(size_t(rules.shape().uniform)),
        planes_(bytes_ * size_t(rules.num_symmetries())),
        order_(size_t(rules.num_symmetries())) {}

  // Chooses the view of a position and of its legal actions.
  void choose_view(const typename G::Position& p, const Action* legal, int count, std::uint64_t stream) {
    for (int s = 0; s < int(order_.size()); ++s) rules_->observe(p, s, &planes_[size_t(s) * bytes_], uniform_.data());
    std::iota(order_.begin(), order_.end(), 0);
    const auto is_before = [&](int a, int b) {  // the lower symmetry comes first if two views are equal
      const int order = std::memcmp(&planes_[size_t(a) * bytes_], &planes_[size_t(b) * bytes_], bytes_);
      return order < 0 || (order == 0 && a < b);
    };
    if (samples_) {
      std::sort(order_.begin(), order_.end(), is_before);
      const std::uint64_t random = combine(hash_of_planes(order_[0]), stream);
      symmetry_ = order_[size_t((unsigned __int128)random * order_.size() >> 64)];
    } else {
      symmetry_ = *std::min_element(order_.begin(), order_.end(), is_before);
    }
    actions_.clear();
    std::uint64_t actions = 0;
    for (int i = 0; i < count; ++i) {
      actions_.push_back(rules_->permute(symmetry_, legal[i]));
      actions += mix64(1 + std::uint64_t(actions_.back()));
    }
    key_ = combine(hash_of_planes(symmetry_), actions);
  }

  int symmetry() const { return symmetry_; }
  // Equal: the same planes and the same legal actions in the chosen view.
  std::uint64_t key() const { return key_; }
  // The legal ones in the chosen view, in the position's order.
  const Action* actions() const { return actions_.data(); }

  // Entry k is the index of the k-th lowest of `actions`, in which order an evaluation is remembered.
  const std::vector<std::uint16_t>& ascending(const Action* actions, int count) {
    sorted_.clear(), ascending_.clear();
    for (int i = 0; i < count; ++i) sorted_.push_back(std::uint32_t(actions[i]) << 16 | std::uint32_t(i));
    std::sort(sorted_.begin(), sorted_.end());
    for (std::uint32_t both : sorted_) ascending_.push_back(std::uint16_t(both));
    return ascending_;
  }

 private:
  std::uint64_t hash_of_planes(int symmetry) const {
    const std::uint8_t* at = &planes_[size_t(symmetry) * bytes_];
    std::uint64_t hash = bytes_;
    for (size_t i = 0; i < bytes_; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, at + i, std::min(size_t(8), bytes_ - i));
      hash = combine(hash, word);
    }
    for (float x : uniform_) {  // the same in every view
      std::uint32_t word = 0;
      std::memcpy(&word, &x, sizeof x);
      hash = combine(hash, word);
    }
    return hash;
  }

  const G* rules_;
  bool samples_;
  size_t bytes_;                      // of the planes of one view
  std::vector<float> uniform_;        // [U]
  std::vector<std::uint8_t> planes_;  // [S, bytes]
  std::vector<int> order_;            // [S] symmetries
  int symmetry_ = 0;
  std::uint64_t key_ = 0;
  std::vector<Action> actions_;
  std::vector<std::uint32_t> sorted_;     // scratch
  std::vector<std::uint16_t> ascending_;  // scratch
};

}  // namespace shusaku
