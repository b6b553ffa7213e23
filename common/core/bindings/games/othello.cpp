#include "games/othello.h"
#include "bindings/model.h"

namespace shusaku {
static std::shared_ptr<const AnyGame> make(const Params& params) {
  switch (const std::int64_t size = std::get<std::int64_t>(params.at("size"))) {
    case 8:
      return Model<Othello<8>>::make(params);
    case 6:
      return Model<Othello<6>>::make(params);
    default:
      throw std::invalid_argument("size " + std::to_string(size) +
                                  ": othello is played on 8 x 8 or 6 x 6 here; say size=8 or size=6");
  }
}

extern const GameEntry kOthello{Othello<8>::kName, &Othello<8>::parameters, &make};
}  // namespace shusaku
