// How much is spent on one search.
#pragma once

#include <cstdint>

namespace shusaku {

struct Effort {
  std::int32_t simulations = 0;
  bool is_full = true;  // false: a cheap one, which moves on and is not learned from, so puct adds no noise to it
};

}  // namespace shusaku
