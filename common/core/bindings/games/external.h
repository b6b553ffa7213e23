// `ExternalRules` in three sizes, each in a source file of its own: what a position may hold is what its copies cost.
#pragma once

#include <memory>

#include "bindings/erased.h"
#include "games/external/rules.h"

namespace shusaku {

constexpr int kShortExternal = 512, kLongExternal = 4096,
              kLongestExternal = 32'768;  // plies; at most those of a record

using MakeExternal = std::shared_ptr<const AnyGame>(const Params& params, std::shared_ptr<const ExternalGame> game);
MakeExternal make_short_external, make_long_external, make_longest_external;

}  // namespace shusaku
