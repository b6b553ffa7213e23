#include "games/go/go.h"
#include "bindings/model.h"

namespace shusaku {

static_assert(HasKomi<Go<9>>);

namespace {

// Boards of a size share the code of the next larger class; small ones have small positions.
std::shared_ptr<const AnyGame> make(const Params& params) {
  const int size = whole_parameter(params, "go", "size", 2, 19);
  return size <= 9    ? Model<Go<9>>::make(params)
         : size <= 13 ? Model<Go<13>>::make(params)
                      : Model<Go<19>>::make(params);
}

void complete(Params& params, const Params& given) {
  if (!given.contains("komi") && std::get<std::int64_t>(params.at("size")) == 9) params["komi"] = 7.0;
}

}  // namespace

extern const GameEntry kGo{"go", &Go<19>::parameters, &make, &complete};

}  // namespace shusaku
