#include "bindings/games/external.h"
#include "bindings/model.h"
#include "games/external/external.h"

namespace shusaku {
using ShortExternal = ExternalRules<kShortExternal + kExternalTextWords>;
static_assert(GameRules<ShortExternal>);
std::shared_ptr<const AnyGame> make_short_external(const Params& params, std::shared_ptr<const ExternalGame> game) {
  return std::make_shared<Model<ShortExternal>>(params, ShortExternal(std::move(game)));
}
}  // namespace shusaku
