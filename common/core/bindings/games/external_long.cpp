#include "bindings/games/external.h"
#include "bindings/model.h"
#include "games/external/external.h"

namespace shusaku {
using LongForeign = Foreign<kLongForeign + kForeignTextWords>;
static_assert(GameRules<LongForeign>);
std::shared_ptr<const AnyGame> make_long_foreign(const Params& params, std::shared_ptr<const ForeignGame> game) {
  return std::make_shared<Model<LongForeign>>(params, LongForeign(std::move(game)));
}
}  // namespace shusaku
