#include "games/connect_four.h"
#include "bindings/games/games.h"
#include "bindings/model.h"

namespace shusaku {
static_assert(GameRules<ConnectFour>);
const GameEntry kConnectFour{ConnectFour::kName, &ConnectFour::parameters, &Model<ConnectFour>::make};
}  // namespace shusaku
