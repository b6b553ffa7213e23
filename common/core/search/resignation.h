// When a player may resign: a threshold that is measured on games played to the end (Silver et al. 2017,
// Methods, "Self-play": the share of wrongly resigned games stays below 5 %).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shusaku {

class ResignThreshold {
 public:
  // `errors`: the allowed share of games in which a player resigns without having lost; 0: no player resigns.
  explicit ResignThreshold(float errors) : errors_(errors) {}

  bool is_on() const { return errors_ > 0.f; }

  // A player to move who sees less than this resigns; -1 (no player does) until enough games were played to the end.
  float value() const { return value_; }

  // Continues with the threshold of a run that was stopped, until enough games of its own were played to the end.
  void begin_with(float value) {
    if (is_on() && lowest_.size() < kEnough) value_ = std::clamp(value, -1.f, kHighest);
  }

  // Adds a game that was played to the end: the lowest value that a player saw, to move, who did not lose.
  void add(float lowest) {
    if (lowest_.size() < kNewest)
      lowest_.push_back(lowest);
    else
      lowest_[size_t(added_ % kNewest)] = lowest;
    ++added_;
    if (lowest_.size() < kEnough) return;
    std::vector<float> sorted = lowest_;
    const auto at = sorted.begin() + std::ptrdiff_t(errors_ * float(sorted.size()));
    std::nth_element(sorted.begin(), at, sorted.end());
    value_ = std::min(*at, kHighest);
  }

  template <class Archive>
  void archive(Archive& a) {
    a.vector(lowest_), a.number(added_), a.number(value_);
  }

 private:
  static constexpr size_t kNewest = 1000, kEnough = 100;
  static constexpr float kHighest = -0.7f;  // a bound, in case all recent games were easy

  float errors_, value_ = -1.f;
  std::vector<float> lowest_;
  std::uint64_t added_ = 0;
};

}  // namespace shusaku
