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

constexpr size_t kMovesShown = 24;  // in an error

// "legal are 0 1 2", of the names that `name` gives to the legal actions.
template <class Name>
std::string list_legal(const std::vector<Action>& legal, Name name) {
  std::string moves;
  for (size_t i = 0; i < legal.size() && i < kMovesShown; ++i) moves += " " + name(legal[i]);
  if (legal.size() > kMovesShown) moves += " and " + std::to_string(legal.size() - kMovesShown) + " more";
  return "legal are" + (moves.empty() ? " none, the game is over" : moves);
}

bool contains(const std::vector<Action>& legal, std::int64_t action) {
  return action >= 0 && action < 65536 && std::binary_search(legal.begin(), legal.end(), Action(action));
}

Action checked_action(const AnyPosition& p, std::int64_t action) {
  const std::vector<Action> legal = p.legal_actions();
  if (contains(legal, action)) return Action(action);
  const std::string moves = list_legal(legal, [](Action a) { return std::to_string(a); });
  throw nb::value_error(("illegal action " + std::to_string(action) + ": " + moves + ", in\n" + p.render()).c_str());
}

int from_move(const AnyPosition& p, const std::string& text) {
  const int action = p.from_move(text);
  const std::vector<Action> legal = p.legal_actions();
  if (contains(legal, action)) return action;
  const std::string moves = list_legal(legal, [&](Action a) { return p.to_move(a); }), why = p.why_illegal(text);
  const std::string what =
      action < 0 && why.empty() ? quoted(text) + " is no move of this game" : "illegal move " + quoted(text);
  throw nb::value_error((what + (why.empty() ? "" : ", " + why) + ": " + moves).c_str());
}

// `text`, unless it is empty: then the game lacks what it tells.
std::string given(const AnyPosition& p, std::string text, const char* lack) {
  require(!text.empty(), p.game().name() + lack);
  return text;
}

// What `value` tells of a game that is over.
template <auto value>
auto at_end(const AnyPosition& p, const char* what) {
  require(p.is_terminal(), std::string("the game is not over: ") + what + " exists only where is_terminal");
  return (p.*value)();
}

void check_symmetry(const AnyGame& g, int symmetry) {
  require(symmetry >= 0 && symmetry < g.num_symmetries(),
          "symmetry " + std::to_string(symmetry) + ": must lie in [0, " + std::to_string(g.num_symmetries()) + ")");
}

int permute_action(const AnyGame& g, int symmetry, int action) {
  check_symmetry(g, symmetry);
  require(action >= 0 && action < g.num_actions(),
          "action " + std::to_string(action) + ": must lie in [0, " + std::to_string(g.num_actions()) + ")");
  return g.permute(symmetry, Action(action));
}

int permute_cell(const AnyGame& g, int symmetry, int cell) {
  check_symmetry(g, symmetry);
  const int cells = g.shape().cells();
  require(cell >= 0 && cell < cells,
          "cell " + std::to_string(cell) + ": must lie in [0, " + std::to_string(cells) + ")");
  return g.permute_cell(symmetry, cell);
}

Array<float> observation(const AnyPosition& p, int symmetry) {
  check_symmetry(p.game(), symmetry);
  const Shape s = p.game().shape();
  std::vector<std::uint8_t> bits(size_t(s.packed_bytes()));
  std::vector<float> uniform(size_t(s.uniform) + 1);
  p.observe(symmetry, bits.data(), uniform.data());
  auto out = new_numpy<float>({size_t(s.planes()), size_t(s.height), size_t(s.width)});
  expand_planes(s, bits.data(), uniform.data(), nullptr, out.data());
  return out;
}

Array<std::int8_t> ownership(const AnyPosition& p) {
  const std::vector<std::int8_t> map = p.ownership();
  require(!map.empty(), p.game().name() + " has no ownership of cells");
  const Shape s = p.game().shape();
  auto out = new_numpy<std::int8_t>({size_t(s.height), size_t(s.width)});
  std::copy(map.begin(), map.end(), out.data());
  return out;
}

// Of an array `out` with at least as many rows as there are leaves, each of the size c x h x w in this order.
template <class T>
void check_leaves(const Shape& s, const In<std::uint8_t, 2>& packed, const In<float, 2>& uniform, const Out<T, 4>& out,
                  std::array<int, 3> row, const char* axes) {
  require(packed.shape(1) == size_t(s.packed_bytes()), "packed must be [B, " + std::to_string(s.packed_bytes()) + "]");
  require(uniform.shape(0) == packed.shape(0) && uniform.shape(1) == size_t(s.uniform),
          "uniform must be [B, " + std::to_string(s.uniform) + "]");
  bool fits = out.shape(0) >= packed.shape(0);
  for (size_t axis = 0; axis < 3; ++axis) fits = fits && out.shape(axis + 1) == size_t(row[axis]);
  require(fits, std::string("out must be [>= B, ") + axes + "]");
}

template <class T>
void expand_cells(const AnyGame& g, In<std::uint8_t, 2> packed, In<float, 2> uniform, Out<T, 4> out) {
  const Shape s = g.shape();
  check_leaves(s, packed, uniform, out, {s.height, s.width, s.planes()}, "H, W, C");
  nb::gil_scoped_release nogil;
  expand_rows(s, packed.data(), uniform.data(), packed.shape(0), out.data());
}

void expand(const AnyGame& g, In<std::uint8_t, 2> packed, In<float, 2> uniform, Out<float, 4> out) {
  const Shape s = g.shape();
  check_leaves(s, packed, uniform, out, {s.planes(), s.height, s.width}, "C, H, W");
  nb::gil_scoped_release nogil;
  for (size_t b = 0; b < packed.shape(0); ++b)
    expand_planes(s, packed.data() + b * size_t(s.packed_bytes()), uniform.data() + b * size_t(s.uniform), nullptr,
                  out.data() + b * size_t(s.planes() * s.cells()));
}

std::uint64_t perft(const AnyPosition& p, int depth) {
  require(depth >= 0 && depth <= 64, "depth " + std::to_string(depth) + ": must lie in [0, 64]");
  nb::gil_scoped_release nogil;
  return p.perft(depth);
}

}  // namespace

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
                name + ": its parameters are its games'; ask shusaku.common.external.loader.parameters for them");
        if (rows.empty()) make_game(name, {});  // raises for a name that is not in the table
        return rows;
      },
      "name"_a);

  nb::class_<AnyGame>(m, "Game")
      .def(nb::new_(&make_game), "name"_a, "params"_a = Params{})
      .def_prop_ro("name", &AnyGame::name)
      .def_prop_ro("params", &AnyGame::params)
      .def_prop_ro("num_actions", &AnyGame::num_actions)
      .def_prop_ro("max_plies", &AnyGame::max_plies)
      .def_prop_ro("max_legal_actions", &AnyGame::max_legal_actions)
      .def_prop_ro("observation_shape",
                   [](const AnyGame& g) { return std::tuple(g.shape().planes(), g.shape().height, g.shape().width); })
      .def_prop_ro("num_uniform_planes", [](const AnyGame& g) { return g.shape().uniform; })
      .def_prop_ro("packed_bytes", [](const AnyGame& g) { return g.shape().packed_bytes(); })
      .def_prop_ro("num_symmetries", &AnyGame::num_symmetries)
      .def("start", &AnyGame::start)
      .def("position", &AnyGame::parse, "text"_a)
      .def("arrange", &AnyGame::arrange, "text"_a)
      .def("permute_action", &permute_action, "symmetry"_a, "action"_a)
      .def("permute_cell", &permute_cell, "symmetry"_a, "cell"_a)
      .def("expand", &expand, "packed"_a, "uniform"_a, "out"_a.noconvert())
      .def("expand_channels_last", &expand_cells<float>, "packed"_a, "uniform"_a, "out"_a.noconvert())
      .def("expand_channels_last", &expand_cells<std::uint16_t>, "packed"_a, "uniform"_a, "out"_a.noconvert());

  nb::class_<AnyPosition>(m, "Position")
      .def_prop_ro("to_play", &AnyPosition::to_play)
      .def_prop_ro("ply", &AnyPosition::ply)
      .def_prop_ro("is_terminal", &AnyPosition::is_terminal)
      .def_prop_ro("outcome", [](const AnyPosition& p) { return at_end<&AnyPosition::outcome>(p, "outcome"); })
      .def_prop_ro("score", [](const AnyPosition& p) { return at_end<&AnyPosition::score>(p, "score"); })
      .def_prop_ro("is_cut_off", &AnyPosition::is_cut_off)
      .def_prop_ro("ownership", &ownership, nb::rv_policy::move)  // the default would tie the array to the position
      .def_prop_ro("legal_actions", &AnyPosition::legal_actions)
      .def_prop_ro("evaluation_key", &AnyPosition::evaluation_key)
      .def_prop_ro("transposition_key", &AnyPosition::transposition_key)
      .def(
          "play", [](AnyPosition& p, std::int64_t action) { p.play(checked_action(p, action)); }, "action"_a)
      .def("copy", &AnyPosition::copy)
      .def("observation", &observation, "symmetry"_a = 0)
      .def(
          "to_move", [](const AnyPosition& p, std::int64_t action) { return p.to_move(checked_action(p, action)); },
          "action"_a)
      .def(
          "to_san",
          [](const AnyPosition& p, std::int64_t action) {
            return given(p, p.to_san(checked_action(p, action)), " has no SAN; use to_move");
          },
          "action"_a)
      .def("from_move", &from_move, "move"_a)
      .def_prop_ro("text",
                   [](const AnyPosition& p) { return given(p, p.to_text(), " does not write its positions as text"); })
      .def("__str__", &AnyPosition::render);

  m.def("perft", &perft, "position"_a, "depth"_a);
  m.def("random_games", &AnyGame::random_games, "game"_a, "games"_a, "seed"_a,
        nb::call_guard<nb::gil_scoped_release>());
  m.def("timings", &AnyGame::timings, "game"_a, "games"_a, "seed"_a, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace shusaku
