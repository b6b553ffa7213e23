// SearchBatch and GameBatch in Python.  The GIL is released wherever trees are walked.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <variant>

#include "bindings/arrays.h"
#include "bindings/erased.h"
#include "bindings/leaves.h"

namespace shusaku {

using namespace nb::literals;

namespace {

template <class Batch>
struct PyBatch {
  std::shared_ptr<const AnyGame> rules;
  std::unique_ptr<Batch> batch;
};
using PySearchBatch = PyBatch<AnySearchBatch>;

template <class Py>
int checked_index(const Py& b, int index) {
  require(index >= 0 && index < b.batch->size(),
          "index " + std::to_string(index) + ": must lie in [0, " + std::to_string(b.batch->size()) + ")");
  return index;
}

// The arrays of a network in this process, which stay where they are.
struct Attached {
  std::variant<Out<float, 4>, Out<std::uint16_t, 4>> inputs;  // [S, H, W, C], 16 bits are bf16
  In<float, 2> policy;                                        // [S, A] logits
  In<float, 1> values;                                        // [S]
  std::vector<float> logits;                                  // of the legal actions
};
struct PyGameBatch : PyBatch<AnyGameBatch> {
  std::optional<Attached> attached[2] = {};  // by network
  int network = 0;                           // that answers now
};

void check_size(int size) {
  require(size >= 1 && size <= 65536, "size " + std::to_string(size) + ": must lie in [1, 65536]");
}

void check(const SelfPlayOptions& o) {
  require(o.resign_errors >= 0 && o.resign_errors <= 0.5f,
          "resign_errors " + std::to_string(o.resign_errors) + ": must lie in [0, 0.5]");
  require(o.decided_plies >= 1, "decided_plies " + std::to_string(o.decided_plies) + ": must be at least 1");
}

// Views of the packed leaves; `self` keeps their memory alive.
template <class Py>
nb::tuple select(nb::handle self, std::uint32_t version) {
  auto& py = nb::cast<Py&>(self);
  const Leaves* leaves = nullptr;
  {
    nb::gil_scoped_release nogil;
    leaves = &py.batch->select(version);
  }
  return views(*leaves, py.rules->shape(), self);
}

template <class Py>
void expand_and_backup(Py& py, In<float, 1> logits, In<float, 1> values, std::uint32_t version) {
  check_answer(py.batch->leaves(), logits, values);
  nb::gil_scoped_release nogil;
  py.batch->expand_and_backup(logits.data(), values.data(), version);
}

std::map<std::string, std::uint64_t> to_dict(const Counters& c) {
  return {{"simulations", c.simulations()},
          {"searches", c.searches},
          {"evaluations", c.evaluations},
          {"cache_hits", c.cache_hits},
          {"terminals", c.terminals},
          {"games", c.games},
          {"plies", c.plies},
          {"rows", c.rows},
          {"non_finite", c.non_finite},
          {"resigned", c.resigned},
          {"played_on", c.played_on},
          {"wrongly_resigned", c.wrongly_resigned},
          {"discarded", c.discarded}};
}

nb::dict to_dict(GameColumns&& g) {
  nb::dict d;
  d["actions"] = to_numpy(std::move(g.actions));
  d["policy_offsets"] = to_numpy(std::move(g.policy_offsets));
  d["policy_actions"] = to_numpy(std::move(g.policy_actions));
  d["policy_shares"] = to_numpy(std::move(g.policy_shares));
  d["root_values"] = to_numpy(std::move(g.root_values));
  d["raw_values"] = to_numpy(std::move(g.raw_values));
  d["versions"] = to_numpy(std::move(g.versions));
  d["kind"] = to_numpy(std::move(g.kind));
  d["row_weight"] = to_numpy(std::move(g.row_weight));
  d["surprise"] = to_numpy(std::move(g.surprise));
  d["index"] = g.index, d["number"] = g.number;
  d["outcome"] = g.outcome, d["score"] = g.score;
  if (!std::isnan(g.komi)) d["komi"] = double(g.komi);
  d["ended_by"] = g.is_resigned ? "resignation" : g.is_cut_off ? "ply_limit" : "rules";
  return d;
}

nb::dict open_game(PyGameBatch& py, int index) {
  OpenGame game = py.batch->open_game(checked_index(py, index));
  nb::dict d = to_dict(std::move(game.columns));
  d["policy_plies"] = game.policy_plies, d["avoided"] = game.avoided, d["may_resign"] = game.may_resign;
  return d;
}

template <class T>
std::vector<T> to_vector(nb::handle record, const char* name) {
  const auto array = nb::cast<In<T, 1>>(record.attr(name), false);
  return {array.data(), array.data() + array.shape(0)};
}

void resume(PyGameBatch& py, int index, nb::handle record, float komi, int policy_plies, int avoided, bool may_resign) {
  checked_index(py, index);
  require(py.batch->leaves().count == 0, "leaves wait for an evaluation: call expand_and_backup() before resume()");
  OpenGame game;
  GameColumns& c = game.columns;
  c.actions = to_vector<Action>(record, "actions");
  c.policy_offsets = to_vector<std::uint32_t>(record, "policy_offsets");
  c.policy_actions = to_vector<Action>(record, "policy_actions");
  c.policy_shares = to_vector<std::uint16_t>(record, "policy_shares");
  c.root_values = to_vector<float>(record, "root_values");
  c.raw_values = to_vector<float>(record, "raw_values");
  c.versions = to_vector<std::uint32_t>(record, "versions");
  c.kind = to_vector<std::uint8_t>(record, "kind");
  c.row_weight = to_vector<float>(record, "row_weight");
  c.surprise = to_vector<float>(record, "surprise");
  c.komi = komi;
  game.policy_plies = policy_plies, game.avoided = avoided, game.may_resign = may_resign;
  py.batch->resume(index, std::move(game));
}

// A list of a result as an array.
template <auto kList>
auto column(const SearchResult& r) {
  return to_numpy(std::vector(r.*kList));
}

nb::list take_finished(PyGameBatch& py) {
  nb::list games;
  for (GameColumns& g : py.batch->take_finished()) games.append(to_dict(std::move(g)));
  return games;
}

void pseudo_random(In<std::uint8_t, 2> packed, In<float, 2> uniform, In<std::int32_t, 1> offsets, In<Action, 1> actions,
                   Out<float, 1> logits, Out<float, 1> values) {
  const size_t rows = packed.shape(0);
  require(uniform.shape(0) == rows && offsets.shape(0) == rows + 1 && values.shape(0) >= rows &&
              logits.shape(0) >= actions.shape(0),
          "the arrays do not fit each other");
  require(offsets.data()[rows] == std::int32_t(actions.shape(0)), "offsets do not end at the number of actions");
  nb::gil_scoped_release nogil;
  pseudo_random_evaluate(packed.data(), int(packed.shape(1)), uniform.data(), int(uniform.shape(1)), offsets.data(),
                         actions.data(), int(rows), logits.data(), values.data());
}

// out[i]: the logit of legal action i in the row of `policy` that it belongs to; NaN if there is none.
void gather(const float* policy, size_t width, const std::int32_t* offsets, const Action* actions, size_t rows,
            float* out) {
  for (size_t row = 0; row < rows; ++row, policy += width)
    for (std::int32_t i = offsets[row]; i < offsets[row + 1]; ++i)
      out[i] = actions[i] < width ? policy[actions[i]] : std::nanf("");
}

template <class T>
void attach(PyGameBatch& py, Out<T, 4> inputs, In<float, 2> policy, In<float, 1> values, int network) {
  const Shape s = py.rules->shape();
  const size_t leaves = size_t(py.batch->max_leaves()), rows = inputs.shape(0);
  require(rows >= leaves, "inputs: " + std::to_string(rows) + " positions, fewer than the " + std::to_string(leaves) +
                              " leaves of a step");
  require(network == 0 || network == 1, "network " + std::to_string(network) + ": must be 0 or 1");
  require(inputs.shape(1) == size_t(s.height) && inputs.shape(2) == size_t(s.width) &&
              inputs.shape(3) == size_t(s.planes()),
          "inputs must be [S, H, W, C]");
  require(policy.shape(0) == rows && policy.shape(1) == size_t(py.rules->num_actions()), "policy must be [S, A]");
  require(values.shape(0) == rows, "values must be [S]");
  py.attached[network] = Attached{std::move(inputs), std::move(policy), std::move(values), {}};
}

Attached& attached(PyGameBatch& py) {
  std::optional<Attached>& network = py.attached[py.network];
  require(network.has_value(), "no network is attached: call attach() first");
  return *network;
}

int choose_network(PyGameBatch& py) {
  require(py.batch->leaves().count == 0, "leaves wait for an evaluation: call expand_and_backup() first");
  return py.network = py.batch->choose_network();
}

int select_attached(PyGameBatch& py, std::uint32_t version) {
  attached(py);
  nb::gil_scoped_release nogil;
  return py.batch->select(version).count;
}

void encode_attached(PyGameBatch& py) {
  Attached& a = attached(py);
  const Leaves& l = py.batch->leaves();
  require(size_t(l.count) <= std::visit([](auto& inputs) { return inputs.shape(0); }, a.inputs),
          "more leaves than the attached inputs have rows");
  nb::gil_scoped_release nogil;
  std::visit(
      [&](auto& inputs) {
        expand_rows(py.rules->shape(), l.packed.data(), l.uniform.data(), size_t(l.count), inputs.data());
      },
      a.inputs);
}

int expand_attached(PyGameBatch& py, std::uint32_t version) {
  Attached& a = attached(py);
  nb::gil_scoped_release nogil;
  const Leaves& l = py.batch->leaves();
  if (l.count) {
    a.logits.resize(l.actions.size());
    gather(a.policy.data(), a.policy.shape(1), l.offsets.data(), l.actions.data(), size_t(l.count), a.logits.data());
    py.batch->expand_and_backup(a.logits.data(), a.values.data(), version);
  }
  return py.batch->num_finished();
}

void gather_logits(In<float, 2> policy, In<std::int32_t, 1> offsets, In<Action, 1> actions, Out<float, 1> out) {
  const size_t rows = offsets.shape(0) - 1, width = policy.shape(1);
  require(policy.shape(0) >= rows && out.shape(0) >= actions.shape(0), "the arrays do not fit each other");
  require(offsets.data()[rows] == std::int32_t(actions.shape(0)), "offsets do not end at the number of actions");
  nb::gil_scoped_release nogil;
  gather(policy.data(), width, offsets.data(), actions.data(), rows, out.data());
}

}  // namespace

void bind_search(nb::module_& m) {
  nb::class_<SearchOptions> search_options(m, "SearchOptions");
  search_options.def(nb::init<>());
#define SHUSAKU_BIND(type, name) search_options.def_rw(#name, &SearchOptions::name);
  SHUSAKU_SEARCH_OPTIONS(SHUSAKU_BIND)
#undef SHUSAKU_BIND

  nb::class_<SelfPlayOptions> self_play_options(m, "SelfPlayOptions");
  self_play_options.def(nb::init<>());
#define SHUSAKU_BIND(type, name) self_play_options.def_rw(#name, &SelfPlayOptions::name);
  SHUSAKU_SELF_PLAY_OPTIONS(SHUSAKU_BIND)
#undef SHUSAKU_BIND

  nb::class_<SearchResult>(m, "SearchResult")
      .def_ro("action", &SearchResult::action)
      .def_ro("value", &SearchResult::value)
      .def_ro("raw_value", &SearchResult::raw_value)
      .def_ro("surprise", &SearchResult::surprise)
      .def_ro("proven_value", &SearchResult::proven_value)
      .def_prop_ro("proven_values", &column<&SearchResult::proven_values>, nb::rv_policy::automatic)
      .def_prop_ro("actions", &column<&SearchResult::actions>, nb::rv_policy::automatic)
      .def_prop_ro("policy", &column<&SearchResult::policy>, nb::rv_policy::automatic)
      .def_prop_ro("visits", &column<&SearchResult::visits>, nb::rv_policy::automatic)
      .def_prop_ro("q_values", &column<&SearchResult::q_values>, nb::rv_policy::automatic)
      .def_prop_ro("prior", &column<&SearchResult::prior>, nb::rv_policy::automatic);

  nb::class_<PySearchBatch>(m, "SearchBatch")
      .def(
          "__init__",
          [](PySearchBatch* self, std::shared_ptr<const AnyGame> game, const SearchOptions& o, int size,
             std::uint64_t seed) {
            check_size(size), check(o);
            auto batch = game->search_batch(o, size, seed);
            new (self) PySearchBatch{std::move(game), std::move(batch)};
          },
          "game"_a, "options"_a, "size"_a, "seed"_a)
      .def(
          "begin",
          [](PySearchBatch& b, int index, const AnyPosition& position, std::uint64_t seed) {
            checked_index(b, index);
            require(!position.is_terminal(), "the position is over: there is nothing to search");
            b.batch->begin(index, position, seed);
          },
          "index"_a, "position"_a, "seed"_a)
      .def("select", &select<PySearchBatch>, "version"_a)
      .def("expand_and_backup", &expand_and_backup<PySearchBatch>, "logits"_a, "values"_a, "version"_a)
      .def("is_done", [](PySearchBatch& b) { return b.batch->is_done(); })
      .def(
          "result", [](PySearchBatch& b, int index) { return b.batch->result(checked_index(b, index)); }, "index"_a)
      .def(
          "result_so_far", [](PySearchBatch& b, int index) { return b.batch->result_so_far(checked_index(b, index)); },
          "index"_a)
      .def(
          "variation",
          [](PySearchBatch& b, int index, int edge) {
            const int edges = int(b.batch->result_so_far(checked_index(b, index)).actions.size());
            require(0 <= edge && edge < edges,
                    "edge " + std::to_string(edge) + ": the root has " + std::to_string(edges) + " with an evaluation");
            const auto actions = b.batch->variation(index, edge);
            return std::vector<int>(actions.begin(), actions.end());
          },
          "index"_a, "edge"_a)
      .def("counters", [](PySearchBatch& b) { return to_dict(b.batch->counters()); });

  nb::class_<PyGameBatch>(m, "GameBatch")
      .def(
          "__init__",
          [](PyGameBatch* self, std::shared_ptr<const AnyGame> game, const SearchOptions& o, int size,
             std::uint64_t seed, const SelfPlayOptions& self_play) {
            check_size(size), check(o), check(self_play);
            auto batch = game->game_batch(o, self_play, size, seed);
            new (self) PyGameBatch{{std::move(game), std::move(batch)}};
          },
          "game"_a, "options"_a, "size"_a, "seed"_a, "self_play"_a)
      .def_static(
          "for_value_network",
          [](std::shared_ptr<const AnyGame> game, const SearchOptions& o, int size, std::uint64_t seed, int max_leaves,
             int last_switch, float temperature, bool learns_all) {
            check_size(size), check_size(max_leaves), check(o);
            require(last_switch >= 1, "last_switch " + std::to_string(last_switch) + ": must be at least 1");
            require(temperature >= 0, "temperature " + std::to_string(temperature) + ": must be at least 0");
            auto batch = game->value_games(o, {last_switch, temperature, learns_all, max_leaves}, size, seed);
            return PyGameBatch{{std::move(game), std::move(batch)}};
          },
          "game"_a, "options"_a, "size"_a, "seed"_a, nb::kw_only(), "max_leaves"_a, "last_switch"_a, "temperature"_a,
          "learns_all"_a)
      .def("choose_network", &choose_network)
      .def("select", &select<PyGameBatch>, "version"_a)
      .def("expand_and_backup", &expand_and_backup<PyGameBatch>, "logits"_a, "values"_a, "version"_a)
      .def("take_finished", &take_finished)
      .def("attach", &attach<float>, "inputs"_a.noconvert(), "policy"_a.noconvert(), "values"_a.noconvert(),
           "network"_a = 0)
      .def("attach", &attach<std::uint16_t>, "inputs"_a.noconvert(), "policy"_a.noconvert(), "values"_a.noconvert(),
           "network"_a = 0)
      .def("select_attached", &select_attached, "version"_a)
      .def("encode_attached", &encode_attached)
      .def("expand_attached", &expand_attached, "version"_a)
      .def("counters", [](PyGameBatch& b) { return to_dict(b.batch->counters()); })
      .def_prop_ro("resign_value", [](PyGameBatch& b) { return b.batch->resign_value(); })
      .def(
          "begin_with_resign_value", [](PyGameBatch& b, float value) { b.batch->begin_with_resign_value(value); },
          "value"_a)
      .def("snapshot",
           [](PyGameBatch& b) {
             require(b.batch->leaves().count == 0,
                     "leaves wait for an evaluation: call expand_and_backup() before snapshot()");
             const std::string bytes = b.batch->snapshot();
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def(
          "restore",
          [](PyGameBatch& b, nb::bytes bytes) {
            require(b.batch->leaves().count == 0,
                    "leaves wait for an evaluation: call expand_and_backup() before restore()");
            b.batch->restore({bytes.c_str(), bytes.size()});
          },
          "snapshot"_a)
      .def("open_game", &open_game, "index"_a)
      .def("resume", &resume, "index"_a, "record"_a, nb::kw_only(), "komi"_a = kNoKomi, "policy_plies"_a = 0,
           "avoided"_a = -1, "may_resign"_a = false)
      .def(
          "play_pseudo_random",
          [](PyGameBatch& b, std::uint64_t simulations) {
            nb::gil_scoped_release nogil;
            b.batch->play_pseudo_random(simulations);
          },
          "simulations"_a);

  m.def("gather_logits", &gather_logits, "policy"_a, "offsets"_a, "actions"_a, "out"_a.noconvert());
  m.def("pseudo_random_evaluate", &pseudo_random, "packed"_a, "uniform"_a, "offsets"_a, "actions"_a,
        "logits"_a.noconvert(), "values"_a.noconvert());
}

}  // namespace shusaku
