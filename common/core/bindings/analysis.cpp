// The search of one position by several threads, in Python.  The GIL is released before the lock of the tree is taken:
// a thread that holds the tree may need the GIL (external games).
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.h"
#include "bindings/erased.h"
#include "bindings/leaves.h"

namespace shusaku {

using namespace nb::literals;

namespace {

struct PyAnalysis {
  std::shared_ptr<const AnyGame> rules;
  std::unique_ptr<AnyAnalysis> analysis;
};

int checked_thread(const PyAnalysis& a, int thread) {
  require(thread >= 0 && thread < a.analysis->threads(),
          "thread " + std::to_string(thread) + ": must lie in [0, " + std::to_string(a.analysis->threads()) + ")");
  return thread;
}

nb::tuple select(nb::handle self, int thread, int most, std::uint32_t version) {
  auto& py = nb::cast<PyAnalysis&>(self);
  checked_thread(py, thread);
  require(most >= 1, "most " + std::to_string(most) + ": must be at least 1");
  const Leaves* leaves = nullptr;
  {
    nb::gil_scoped_release nogil;
    leaves = &py.analysis->select(thread, most, version);
  }
  return views(*leaves, py.rules->shape(), self);
}

void expand_and_backup(PyAnalysis& py, int thread, In<float, 1> logits, In<float, 1> values, std::uint32_t version) {
  check_answer(py.analysis->leaves(checked_thread(py, thread)), logits, values);
  nb::gil_scoped_release nogil;
  py.analysis->expand_and_backup(thread, logits.data(), values.data(), version);
}

void add_heads(PyAnalysis& py, int thread, std::optional<In<float, 3>> ownership, std::optional<In<float, 1>> score) {
  const size_t rows = size_t(py.analysis->leaves(checked_thread(py, thread)).count);
  const Shape s = py.rules->shape();
  require(!ownership || (ownership->shape(0) >= rows && ownership->shape(1) == size_t(s.height) &&
                         ownership->shape(2) == size_t(s.width)),
          "ownership must be [B, H, W]");
  require(!score || score->shape(0) >= rows, "score must be [B]");
  nb::gil_scoped_release nogil;
  py.analysis->add_heads(thread, ownership ? ownership->data() : nullptr, score ? score->data() : nullptr);
}

}  // namespace

void bind_analysis(nb::module_& m) {
  nb::class_<AnalysisLimits>(m, "AnalysisLimits")
      .def(nb::init<>())
      .def_rw("simulations", &AnalysisLimits::simulations)
      .def_rw("seconds", &AnalysisLimits::seconds)
      .def_rw("processor_seconds", &AnalysisLimits::processor_seconds)
      .def_rw("actions", &AnalysisLimits::actions)
      .def_rw("to_the_end", &AnalysisLimits::to_the_end);

  nb::class_<AnalysisReport>(m, "AnalysisReport")
      .def_ro("simulations", &AnalysisReport::simulations)
      .def_ro("seconds", &AnalysisReport::seconds)
      .def_ro("value", &AnalysisReport::value)
      .def_ro("score", &AnalysisReport::score)
      .def_ro("ownership", &AnalysisReport::ownership)
      .def_ro("moves", &AnalysisReport::moves)
      .def_ro("ended", &AnalysisReport::ended)
      .def_ro("order", &AnalysisReport::order)
      .def_ro("actions", &AnalysisReport::actions)
      .def_ro("visits", &AnalysisReport::visits)
      .def_ro("priors", &AnalysisReport::priors)
      .def_ro("values", &AnalysisReport::values)
      .def_ro("lower_bounds", &AnalysisReport::lower_bounds)
      .def_ro("variations", &AnalysisReport::variations)
      .def_ro("resigns", &AnalysisReport::resigns)
      .def_ro("variation_visits", &AnalysisReport::variation_visits);

  using Unlocked = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<PyAnalysis>(m, "AnalysisSearch")
      .def(
          "__init__",
          [](PyAnalysis* self, std::shared_ptr<const AnyGame> game, const SearchOptions& o, int threads, int leaves,
             int megabytes, std::uint64_t seed) {
            check(o);
            require(threads >= 1 && threads <= 256, "threads " + std::to_string(threads) + ": must lie in [1, 256]");
            require(leaves >= 1 && leaves <= 64, "leaves " + std::to_string(leaves) + ": must lie in [1, 64]");
            require(megabytes >= 1, "megabytes " + std::to_string(megabytes) + ": must be at least 1");
            auto analysis = game->analysis(o, threads, leaves, megabytes, seed);
            new (self) PyAnalysis{std::move(game), std::move(analysis)};
          },
          "game"_a, "options"_a, "threads"_a, "leaves"_a, "megabytes"_a, "seed"_a)
      .def(
          "set_position",
          [](PyAnalysis& a, const AnyPosition& position) {
            nb::gil_scoped_release nogil;
            a.analysis->set_position(position);
          },
          "position"_a)
      .def(
          "advance", [](PyAnalysis& a, Action action) { a.analysis->advance(action); }, "action"_a, Unlocked())
      .def(
          "clear", [](PyAnalysis& a) { a.analysis->clear(); }, Unlocked())
      .def(
          "start", [](PyAnalysis& a, const AnalysisLimits& limits) { a.analysis->start(limits); }, "limits"_a,
          Unlocked())
      .def(
          "stop", [](PyAnalysis& a) { a.analysis->stop(); }, Unlocked())
      .def("select", &select, "thread"_a, "most"_a, "version"_a)
      .def("add_heads", &add_heads, "thread"_a, "ownership"_a.none(), "score"_a.none())
      .def("expand_and_backup", &expand_and_backup, "thread"_a, "logits"_a, "values"_a, "version"_a)
      .def(
          "abandon",
          [](PyAnalysis& a, int thread) {
            checked_thread(a, thread);
            nb::gil_scoped_release nogil;
            a.analysis->abandon(thread);
          },
          "thread"_a)
      .def(
          "report", [](PyAnalysis& a) { return a.analysis->report(); }, Unlocked())
      .def(
          "is_running", [](PyAnalysis& a) { return a.analysis->is_running(); }, Unlocked())
      .def(
          "most_in_flight", [](PyAnalysis& a) { return a.analysis->most_in_flight(); }, Unlocked())
      .def(
          "has_virtual_loss", [](PyAnalysis& a) { return a.analysis->has_virtual_loss(); }, Unlocked())
      .def("bytes", [](PyAnalysis& a) { return a.analysis->bytes(); }, Unlocked());
}

}  // namespace shusaku
