#include "bindings/games/external.h"
#include "bindings/model.h"
#include "games/external/external.h"

namespace shusaku {
using LongestForeign = Foreign<kLongestForeign + kForeignTextWords>;
static_assert(GameRules<LongestForeign>);
std::shared_ptr<const AnyGame> make_longest_foreign(const Params& params, std::shared_ptr<const ForeignGame> game) {
  return std::make_shared<Model<LongestForeign>>(params, LongestForeign(std::move(game)));
}
}  // namespace shusaku
