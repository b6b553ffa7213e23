#include "bindings/model.h"
#include "bindings/models/foreign_games.h"
#include "games/foreign.h"

namespace shusaku {
using LongForeign = Foreign<kLongForeign + kForeignTextWords>;
static_assert(GameRules<LongForeign>);
std::shared_ptr<const AnyGame> make_long_foreign(const Params& params, std::shared_ptr<const ForeignGame> game) {
  return std::make_shared<Model<LongForeign>>(params, LongForeign(std::move(game)));
}
}  // namespace shusaku
