#include "games/hex.h"
#include "bindings/model.h"

namespace shusaku {
static std::shared_ptr<const AnyGame> make(const Params& params) {
  const int size = Hex<1>::checked_size(params);
  if (size <= 8) return Model<Hex<1>>::make(params);
  if (size <= 11) return Model<Hex<2>>::make(params);
  return Model<Hex<3>>::make(params);
}

extern const GameEntry kHex{Hex<1>::kName, &Hex<1>::parameters, &make};
}  // namespace shusaku
