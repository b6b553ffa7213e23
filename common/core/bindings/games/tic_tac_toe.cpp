#include "games/tic_tac_toe.h"
#include "bindings/model.h"

namespace shusaku {
extern const GameEntry kTicTacToe{TicTacToe::kName, &TicTacToe::parameters, &Model<TicTacToe>::make};
}  // namespace shusaku
