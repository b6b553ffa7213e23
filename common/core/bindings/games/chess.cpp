#include "games/chess/chess.h"

#include "bindings/games/games.h"
#include "bindings/model.h"

namespace shusaku {
static_assert(GameRules<Chess>);
const GameEntry kChess{Chess::kName, &Chess::parameters, &Model<Chess>::make};
}  // namespace shusaku
