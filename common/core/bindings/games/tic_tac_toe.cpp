#include "games/tic_tac_toe.h"
#include "bindings/games/games.h"
#include "bindings/model.h"

namespace shusaku {
static_assert(GameRules<TicTacToe>);
const GameEntry kTicTacToe{TicTacToe::kName, &TicTacToe::parameters, &Model<TicTacToe>::make};
}  // namespace shusaku
