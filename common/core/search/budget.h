// How much is spent on one search.
#pragma once

#include <cstdint>

namespace shusaku {

struct Budget {
  std::int32_t simulations = 0;
  bool is_full = true;  // false: a cheap search, which is not learned from; puct adds no noise to it
};

}  // namespace shusaku
