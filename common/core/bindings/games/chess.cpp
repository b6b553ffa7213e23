#include "games/chess/chess.h"

#include "bindings/model.h"

namespace shusaku {
extern const GameEntry kChess{Chess::kName, &Chess::parameters, &Model<Chess>::make};
}  // namespace shusaku
