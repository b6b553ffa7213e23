#include "games/connect_four.h"
#include "bindings/model.h"

namespace shusaku {
extern const GameEntry kConnectFour{ConnectFour::kName, &ConnectFour::parameters, &Model<ConnectFour>::make};
}  // namespace shusaku
