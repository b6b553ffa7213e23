#include "bindings/games/games.h"
#include "bindings/model.h"
#include "games/shogi/shogi.h"

namespace shusaku {
static_assert(GameRules<Shogi<5>> && HasText<Shogi<5>> && HasPerft<Shogi<5>>);
const GameEntry kMinishogi{Shogi<5>::kName, &Shogi<5>::parameters, &Model<Shogi<5>>::make};
}  // namespace shusaku
