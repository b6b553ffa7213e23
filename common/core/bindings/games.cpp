// Game and Position in Python.  C++ trusts its caller; Python is checked here.
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings/arrays.h"
#include "bindings/erased.h"
#include "games/grid_text.h"

namespace shusaku {

using namespace nb::literals;

namespace {

// What Python holds: the rules, shared with everything that was made from them.
struct PyGame {
  std::shared_ptr<const AnyGame> rules;
};

struct PyPosition {
  std::shared_ptr<const AnyGame> rules;
  std::unique_ptr<AnyPosition> state;
};

constexpr size_t kMovesShown = 24;  // in an error

void check_legal(const PyPosition& p, std::int64_t action) {
  const std::vector<Action> legal = p.state->legal_actions();
  if (action >= 0 && action < 65536 && std::binary_search(legal.begin(), legal.end(), Action(action))) return;
  std::string moves;
  for (size_t i = 0; i < legal.size() && i < kMovesShown; ++i) moves += " " + std::to_string(legal[i]);
  if (legal.size() > kMovesShown) moves += " and " + std::to_string(legal.size() - kMovesShown) + " more";
  throw nb::value_error(("illegal action " + std::to_string(action) + ": legal are" +
                         (moves.empty() ? " none, the game is over" : moves) + ", in\n" + p.state->render())
                            .c_str());
}

void check_symmetry(const AnyGame& g, int symmetry) {
  require(symmetry >= 0 && symmetry < g.num_symmetries(),
          "symmetry " + std::to_string(symmetry) + ": must lie in [0, " + std::to_string(g.num_symmetries()) + ")");
}

Array<float> observation(const PyPosition& p, int symmetry) {
  check_symmetry(*p.rules, symmetry);
  const Shape s = p.rules->shape();
  std::vector<std::uint8_t> bits(size_t(s.packed_bytes()));
  std::vector<float> uniform(size_t(s.uniform) + 1);
  p.state->observe(symmetry, bits.data(), uniform.data());
  auto out = new_numpy<float>({size_t(s.planes()), size_t(s.height), size_t(s.width)});
  expand_planes(s, bits.data(), uniform.data(), nullptr, out.data());
  return out;
}

void check_leaves(const Shape& s, const In<std::uint8_t, 2>& packed, const In<float, 2>& uniform) {
  require(packed.shape(1) == size_t(s.packed_bytes()), "packed must be [B, " + std::to_string(s.packed_bytes()) + "]");
  require(uniform.shape(0) == packed.shape(0) && uniform.shape(1) == size_t(s.uniform),
          "uniform must be [B, " + std::to_string(s.uniform) + "]");
}

template <class T>
void expand_cells(const PyGame& g, In<std::uint8_t, 2> packed, In<float, 2> uniform, Out<T, 4> out) {
  const Shape s = g.rules->shape();
  const size_t rows = packed.shape(0);
  check_leaves(s, packed, uniform);
  require(out.shape(0) >= rows && out.shape(1) == size_t(s.height) && out.shape(2) == size_t(s.width) &&
              out.shape(3) == size_t(s.planes()),
          "out must be [>= B, H, W, C]");
  nb::gil_scoped_release nogil;
  expand_rows(s, packed.data(), uniform.data(), rows, out.data());
}

void expand(const PyGame& g, In<std::uint8_t, 2> packed, In<float, 2> uniform, Out<float, 4> out) {
  const Shape s = g.rules->shape();
  const size_t rows = packed.shape(0);
  check_leaves(s, packed, uniform);
  require(out.shape(0) >= rows && out.shape(1) == size_t(s.planes()) && out.shape(2) == size_t(s.height) &&
              out.shape(3) == size_t(s.width),
          "out must be [>= B, C, H, W]");
  nb::gil_scoped_release nogil;
  for (size_t b = 0; b < rows; ++b)
    expand_planes(s, packed.data() + b * size_t(s.packed_bytes()), uniform.data() + b * size_t(s.uniform), nullptr,
                  out.data() + b * size_t(s.planes() * s.cells()));
}

}  // namespace

std::shared_ptr<const AnyGame> rules_of(nb::handle game) { return nb::cast<PyGame&>(game).rules; }
const AnyPosition& state_of(nb::handle position) { return *nb::cast<PyPosition&>(position).state; }

void bind_games(nb::module_& m) {
  m.def("game_names", [] {
    std::vector<std::string> names;
    for (const GameEntry& entry : game_table()) names.emplace_back(entry.name);
    return names;
  });
  m.def("external_names",
        [] { return std::vector<std::string>(std::begin(kExternalNames), std::end(kExternalNames)); });
  m.def(
      "game_parameters",
      [](const std::string& name) {
        std::vector<std::tuple<std::string, Param, std::string>> rows;
        for (const GameEntry& entry : game_table())
          if (name == entry.name)
            for (const ParamHelp& p : entry.parameters()) rows.emplace_back(p.name, p.default_value, p.help);
        require(!is_external(name),
                name + ": its parameters are its games'; ask common.external.loader.parameters for them");
        if (rows.empty()) make_game(name, {});  // raises for a name that is not in the table
        return rows;
      },
      "name"_a);

  nb::class_<PyGame>(m, "Game")
      .def(
          "__init__",
          [](PyGame* self, const std::string& name, const Params& params) {
            new (self) PyGame{make_game(name, params)};
          },
          "name"_a, "params"_a = Params{})
      .def_prop_ro("name", [](const PyGame& g) { return g.rules->name(); })
      .def_prop_ro("params", [](const PyGame& g) { return g.rules->params(); })
      .def_prop_ro("num_actions", [](const PyGame& g) { return g.rules->num_actions(); })
      .def_prop_ro("max_plies", [](const PyGame& g) { return g.rules->max_plies(); })
      .def_prop_ro("max_legal_actions", [](const PyGame& g) { return g.rules->max_legal_actions(); })
      .def_prop_ro("observation_shape",
                   [](const PyGame& g) {
                     const Shape s = g.rules->shape();
                     return std::tuple(s.planes(), s.height, s.width);
                   })
      .def_prop_ro("num_uniform_planes", [](const PyGame& g) { return g.rules->shape().uniform; })
      .def_prop_ro("packed_bytes", [](const PyGame& g) { return g.rules->shape().packed_bytes(); })
      .def_prop_ro("num_symmetries", [](const PyGame& g) { return g.rules->num_symmetries(); })
      .def("start", [](const PyGame& g) { return PyPosition{g.rules, g.rules->start()}; })
      .def(
          "position",
          [](const PyGame& g, const std::string& text) { return PyPosition{g.rules, g.rules->parse(text)}; }, "text"_a)
      .def(
          "permute_action",
          [](const PyGame& g, int symmetry, int action) {
            check_symmetry(*g.rules, symmetry);
            require(action >= 0 && action < g.rules->num_actions(), "action " + std::to_string(action) +
                                                                        ": must lie in [0, " +
                                                                        std::to_string(g.rules->num_actions()) + ")");
            return int(g.rules->permute(symmetry, Action(action)));
          },
          "symmetry"_a, "action"_a)
      .def("expand", &expand, "packed"_a, "uniform"_a, "out"_a.noconvert())
      .def("expand_channels_last", &expand_cells<float>, "packed"_a, "uniform"_a, "out"_a.noconvert())
      .def("expand_channels_last", &expand_cells<std::uint16_t>, "packed"_a, "uniform"_a, "out"_a.noconvert());

  nb::class_<PyPosition>(m, "Position")
      .def_prop_ro("to_play", [](const PyPosition& p) { return p.state->to_play(); })
      .def_prop_ro("ply", [](const PyPosition& p) { return p.state->ply(); })
      .def_prop_ro("is_terminal", [](const PyPosition& p) { return p.state->is_terminal(); })
      .def_prop_ro("outcome",
                   [](const PyPosition& p) {
                     require(p.state->is_terminal(), "the game is not over: outcome exists only where is_terminal");
                     return p.state->outcome();
                   })
      .def_prop_ro("score",
                   [](const PyPosition& p) {
                     require(p.state->is_terminal(), "the game is not over: score exists only where is_terminal");
                     return p.state->score();
                   })
      .def_prop_ro("is_cut_off", [](const PyPosition& p) { return p.state->is_cut_off(); })
      .def_prop_ro(
          "ownership",
          [](const PyPosition& p) {
            const std::vector<std::int8_t> map = p.state->ownership();
            require(!map.empty(), p.rules->name() + " has no ownership of cells");
            const Shape s = p.rules->shape();
            auto out = new_numpy<std::int8_t>({size_t(s.height), size_t(s.width)});
            std::copy(map.begin(), map.end(), out.data());
            return out;
          },
          nb::rv_policy::move)  // a property's default would tie the array to the position
      .def_prop_ro("legal_actions", [](const PyPosition& p) { return p.state->legal_actions(); })
      .def_prop_ro("evaluation_key", [](const PyPosition& p) { return p.state->evaluation_key(); })
      .def_prop_ro("transposition_key", [](const PyPosition& p) { return p.state->transposition_key(); })
      .def(
          "play",
          [](PyPosition& p, std::int64_t action) {
            check_legal(p, action);
            p.state->play(Action(action));
          },
          "action"_a)
      .def("copy", [](const PyPosition& p) { return PyPosition{p.rules, p.state->copy()}; })
      .def("observation", &observation, "symmetry"_a = 0)
      .def(
          "to_move",
          [](const PyPosition& p, std::int64_t action) {
            check_legal(p, action);
            return p.state->to_move(Action(action));
          },
          "action"_a)
      .def(
          "to_san",
          [](const PyPosition& p, std::int64_t action) {
            check_legal(p, action);
            const std::string text = p.state->to_san(Action(action));
            require(!text.empty(), p.rules->name() + " has no SAN; use to_move");
            return text;
          },
          "action"_a)
      .def(
          "from_move",
          [](const PyPosition& p, const std::string& text) {
            const int action = p.state->from_move(text);
            const std::vector<Action> legal = p.state->legal_actions();
            if (action >= 0 && std::binary_search(legal.begin(), legal.end(), Action(action))) return action;
            std::string moves;
            for (size_t i = 0; i < legal.size() && i < kMovesShown; ++i) moves += " " + p.state->to_move(legal[i]);
            if (legal.size() > kMovesShown) moves += " and " + std::to_string(legal.size() - kMovesShown) + " more";
            const std::string why = p.state->why_illegal(text);
            const std::string what =
                action < 0 && why.empty() ? quoted(text) + " is no move of this game" : "illegal move " + quoted(text);
            throw nb::value_error((what + (why.empty() ? "" : ", " + why) + ": legal are" +
                                   (moves.empty() ? " none, the game is over" : moves))
                                      .c_str());
          },
          "move"_a)
      .def_prop_ro("text",
                   [](const PyPosition& p) {
                     const std::string text = p.state->to_text();
                     require(!text.empty(), p.rules->name() + " does not write its positions as text");
                     return text;
                   })
      .def("__str__", [](const PyPosition& p) { return p.state->render(); });

  m.def(
      "perft",
      [](const PyPosition& p, int depth) {
        require(depth >= 0 && depth <= 64, "depth " + std::to_string(depth) + ": must lie in [0, 64]");
        nb::gil_scoped_release nogil;
        return p.state->perft(depth);
      },
      "position"_a, "depth"_a);
  m.def(
      "random_games",
      [](const PyGame& g, int games, std::uint64_t seed) {
        nb::gil_scoped_release nogil;
        return g.rules->random_games(games, seed);
      },
      "game"_a, "games"_a, "seed"_a);
  m.def(
      "timings",
      [](const PyGame& g, int games, std::uint64_t seed) {
        nb::gil_scoped_release nogil;
        return g.rules->timings(games, seed);
      },
      "game"_a, "games"_a, "seed"_a);
}

}  // namespace shusaku
