// Declares the entries of all games (list.def).  Each game has its own source file, so adding one compiles one.
#pragma once

#include "bindings/erased.h"

namespace shusaku {

#define GAME(entry) extern const GameEntry entry;
#include "bindings/games/list.def"
#undef GAME

}  // namespace shusaku
