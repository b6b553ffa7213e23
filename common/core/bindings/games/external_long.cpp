#include "bindings/games/external.h"
#include "bindings/model.h"
#include "games/external/external.h"

namespace shusaku {
using LongExternal = ExternalRules<kLongExternal + kExternalTextWords>;
static_assert(GameRules<LongExternal>);
std::shared_ptr<const AnyGame> make_long_external(const Params& params, std::shared_ptr<const ExternalGame> game) {
  return std::make_shared<Model<LongExternal>>(params, LongExternal(std::move(game)));
}
}  // namespace shusaku
