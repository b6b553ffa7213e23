// The table of games, made of list.def: no entry registers itself, so no linker can drop one.
#include <stdexcept>

#include "bindings/erased.h"

namespace shusaku {

#define GAME(entry) extern const GameEntry entry;
#include "bindings/games/list.def"
#undef GAME

const std::vector<GameEntry>& game_table() {
  static const std::vector<GameEntry> table{
#define GAME(entry) entry,
#include "bindings/games/list.def"
#undef GAME
  };
  return table;
}

std::shared_ptr<const AnyGame> make_game(const std::string& name, const Params& params) {
  if (is_external(name)) return make_external_game(name, params);
  std::string names;
  for (const GameEntry& entry : game_table()) {
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
    if (name != entry.name) continue;
    Params all;
    std::string known;
    for (const ParamHelp& p : entry.parameters()) {
      all[p.name] = p.default_value;
      known += (known.empty() ? "" : ", ") + p.name;
    }
    for (const auto& [key, value] : params) {
      const auto found = all.find(key);
      if (found == all.end())
        throw std::invalid_argument("game " + name + " has no parameter '" + key +
                                    "': " + (known.empty() ? "it takes none" : "it takes " + known));
      if (found->second.index() == 2 && value.index() == 1)
        found->second = double(std::get<std::int64_t>(value));
      else if (found->second.index() == value.index())
        found->second = value;
      else
        throw std::invalid_argument("parameter '" + key + "' of game " + name +
                                    " has the wrong type; see `shusaku games`");
    }
    if (entry.complete) entry.complete(all, params);
    return entry.make(all);
  }
  for (const char* external : kExternalNames) names += ", " + std::string(external);
  throw std::invalid_argument("unknown game '" + name + "': expected one of " + names);
}

}  // namespace shusaku
