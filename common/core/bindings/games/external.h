// `Foreign` in three sizes, each in a source file of its own: what a position may hold is what its copies cost.
#pragma once

#include <memory>

#include "bindings/erased.h"
#include "games/external/rules.h"

namespace shusaku {

constexpr int kShortForeign = 512, kLongForeign = 4096, kLongestForeign = 32'768;  // plies; at most those of a record

using MakeForeign = std::shared_ptr<const AnyGame>(const Params& params, std::shared_ptr<const ForeignGame> game);
MakeForeign make_short_foreign, make_long_foreign, make_longest_foreign;

}  // namespace shusaku
