#include "games/shogi/shogi.h"
#include "bindings/model.h"

namespace shusaku {
static_assert(HasText<Shogi<9>> && HasPerft<Shogi<9>>);
extern const GameEntry kShogi{Shogi<9>::kName, &Shogi<9>::parameters, &Model<Shogi<9>>::make};
}  // namespace shusaku
