#include "bindings/model.h"
#include "games/shogi/shogi.h"

namespace shusaku {
static_assert(HasText<Shogi<5>> && HasPerft<Shogi<5>>);
extern const GameEntry kMinishogi{Shogi<5>::kName, &Shogi<5>::parameters, &Model<Shogi<5>>::make};
}  // namespace shusaku
