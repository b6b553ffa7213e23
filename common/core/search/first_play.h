// What an action without visits is worth (first play urgency), for the player to move; the option `fpu`:
//   parent  the parent's value less a reduction that grows with the prior already visited (KataGo,
//           cpp/search/searchexplorehelpers.cpp; lc0, FpuStrategy)
//   zero    0, a draw (Silver et al. 2017, Methods, "Search algorithm, expand": Q = 0)
//   loss    -1 (Silver et al. 2018, pseudocode of the supplement: a node without visits is worth 0 on a scale of 0 to
//   1)
#pragma once

#include <cmath>

#include "search/options.h"

namespace shusaku {

class FirstPlay {
 public:
  explicit FirstPlay(const SearchOptions& o)
      : is_by_parent_(o.fpu != "zero" && o.fpu != "loss"), value_(o.fpu == "loss" ? -1.f : 0.f) {}

  // `mean`: of the parent; `visited_prior`: of its actions that have visits; `reduction`: there.
  float value(float mean, float visited_prior, float reduction) const {
    return is_by_parent_ ? mean - reduction * std::sqrt(visited_prior) : value_;
  }

 private:
  bool is_by_parent_;
  float value_;
};

}  // namespace shusaku
