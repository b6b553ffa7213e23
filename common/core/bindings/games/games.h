// The games of the table; each lives in a source file of its own, so that adding one compiles one.
#pragma once

#include "bindings/erased.h"

namespace shusaku {
extern const GameEntry kChess, kConnectFour, kGo, kHex, kMinishogi, kOthello, kShogi, kTicTacToe;
}
