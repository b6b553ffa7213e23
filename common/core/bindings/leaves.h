// What SearchBatch, GameBatch and Analysis share towards Python: options are checked, leaves shown, answers checked.
#pragma once

#include <string>

#include "bindings/arrays.h"
#include "search/leaf_batch.h"

namespace shusaku {

// What the core's arithmetic relies on; the commands check more (common/config/search.py).
inline void check(const SearchOptions& o) {
  require(o.simulations >= 1 && o.simulations <= 1 << 20,
          "simulations " + std::to_string(o.simulations) + ": must lie in [1, 1048576]");
  require(o.leaves >= 1 && o.leaves <= 64, "leaves " + std::to_string(o.leaves) + ": must lie in [1, 64]");
  require(o.rollout_share >= 0 && o.rollout_share <= 1,
          "rollout_share " + std::to_string(o.rollout_share) + ": must lie in [0, 1]");
  require(o.virtual_loss >= 0 && o.virtual_loss <= 1000,
          "virtual_loss " + std::to_string(o.virtual_loss) + ": must lie in [0, 1000]");
}

// Views of the packed leaves; `owner` keeps their memory alive.
inline nb::tuple views(const Leaves& leaves, const Shape& shape, nb::handle owner) {
  auto& l = const_cast<Leaves&>(leaves);
  const size_t rows = size_t(l.count);
  const size_t actions = rows ? size_t(l.offsets[rows]) : 0;
  if (rows == 0) l.offsets[0] = 0;
  return nb::make_tuple(Array<std::uint8_t>(l.packed.data(), {rows, size_t(shape.packed_bytes())}, owner),
                        Array<float>(l.uniform.data(), {rows, size_t(shape.uniform)}, owner),
                        Array<std::int32_t>(l.offsets.data(), {rows + 1}, owner),
                        Array<Action>(l.actions.data(), {actions}, owner));
}

inline void check_answer(const Leaves& l, const In<float, 1>& logits, const In<float, 1>& values) {
  const size_t rows = size_t(l.count), actions = rows ? size_t(l.offsets[rows]) : 0;
  require(logits.shape(0) >= actions, "logits: " + std::to_string(logits.shape(0)) + " given, the leaves have " +
                                          std::to_string(actions) + " legal actions");
  require(values.shape(0) >= rows,
          "values: " + std::to_string(values.shape(0)) + " given for " + std::to_string(rows) + " leaves");
}

}  // namespace shusaku
