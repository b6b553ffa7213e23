#include "games/shogi/shogi.h"
#include "bindings/games/games.h"
#include "bindings/model.h"

namespace shusaku {
static_assert(GameRules<Shogi<9>> && HasText<Shogi<9>> && HasPerft<Shogi<9>>);
const GameEntry kShogi{Shogi<9>::kName, &Shogi<9>::parameters, &Model<Shogi<9>>::make};
}  // namespace shusaku
