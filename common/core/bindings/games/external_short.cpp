#include "bindings/games/external.h"
#include "bindings/model.h"
#include "games/external/external.h"

namespace shusaku {
using ShortForeign = Foreign<kShortForeign + kForeignTextWords>;
static_assert(GameRules<ShortForeign>);
std::shared_ptr<const AnyGame> make_short_foreign(const Params& params, std::shared_ptr<const ForeignGame> game) {
  return std::make_shared<Model<ShortForeign>>(params, ShortForeign(std::move(game)));
}
}  // namespace shusaku
