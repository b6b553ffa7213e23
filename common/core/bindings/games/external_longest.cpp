#include "bindings/games/external.h"
#include "bindings/model.h"
#include "games/external/external.h"

namespace shusaku {
using LongestExternal = ExternalRules<kLongestExternal + kExternalTextWords>;
static_assert(GameRules<LongestExternal>);
std::shared_ptr<const AnyGame> make_longest_external(const Params& params, std::shared_ptr<const ExternalGame> game) {
  return std::make_shared<Model<LongestExternal>>(params, LongestExternal(std::move(game)));
}
}  // namespace shusaku
