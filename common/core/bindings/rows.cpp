// RowRing in Python.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "bindings/arrays.h"
#include "bindings/erased.h"

namespace shusaku {

using namespace nb::literals;

namespace {

struct PyRing {
  std::shared_ptr<const AnyGame> rules;
  LabelOptions labels;
  std::unique_ptr<AnyRowRing> ring;
};

void check(const LabelOptions& o) {
  for (float horizon : o.horizons)
    require(std::isfinite(horizon) && horizon >= 1,
            "a horizon of " + std::to_string(horizon) + " plies: must be at least 1");
  require(std::isfinite(o.blunder_gap) && o.blunder_gap >= 0,
          "blunder_gap " + std::to_string(o.blunder_gap) + ": must be at least 0");
  require(std::isfinite(o.blunder_width) && o.blunder_width >= 0,
          "blunder_width " + std::to_string(o.blunder_width) + ": must be at least 0");
  require(o.value_lambda >= 0 && o.value_lambda < 1,
          "value_lambda " + std::to_string(o.value_lambda) + ": must be at least 0 and below 1");
  require(o.policy_surprise >= 0 && o.value_surprise >= 0 && o.policy_surprise + o.value_surprise <= 1,
          "surprise weights " + std::to_string(o.policy_surprise) + " and " + std::to_string(o.value_surprise) +
              ": must be at least 0 and at most 1 together");
}

// A view of an array of the record, which keeps it in memory.
template <class T>
std::span<const T> column(nb::handle record, const char* name) {
  const auto array = nb::cast<In<T, 1>>(record.attr(name), false);
  return {array.data(), array.shape(0)};
}

std::int64_t append(PyRing& py, nb::handle r, float komi) {
  const RecordView record{column<Action>(r, "actions"),
                          column<std::uint32_t>(r, "policy_offsets"),
                          column<Action>(r, "policy_actions"),
                          column<std::uint16_t>(r, "policy_shares"),
                          column<float>(r, "root_values"),
                          column<float>(r, "raw_values"),
                          column<std::uint32_t>(r, "versions"),
                          column<std::uint8_t>(r, "kind"),
                          column<float>(r, "row_weight"),
                          column<float>(r, "surprise"),
                          nb::cast<int>(r.attr("outcome")),
                          nb::cast<float>(r.attr("score")),
                          nb::cast<std::string>(r.attr("ended_by")),
                          komi};
  nb::gil_scoped_release nogil;
  return py.ring->append(record);
}

nb::dict sample_rows(const PyRing& py, int count, std::int64_t begin, std::int64_t end, std::uint64_t seed,
                     bool symmetries, int threads, bool is_packed) {
  require(count >= 1 && count <= 1 << 20, "count " + std::to_string(count) + ": must lie in [1, 1048576]");
  const Shape s = py.rules->shape();
  const size_t b = size_t(count), actions = size_t(py.rules->num_actions());
  const size_t expanded = is_packed ? 0 : b, kept = is_packed ? b : 0;
  auto observations = new_numpy<float>({expanded, size_t(s.planes()), size_t(s.height), size_t(s.width)});
  auto packed = new_numpy<std::uint8_t>({kept, size_t(s.packed_bytes())});
  auto uniform = new_numpy<float>({kept, size_t(s.uniform)});
  auto symmetry = new_numpy<std::uint8_t>({kept});
  auto policy = new_numpy<float>({b, actions});
  auto outcome = new_numpy<float>({b}), root_values = new_numpy<float>({b}), weight = new_numpy<float>({b}),
       plies_left = new_numpy<float>({b});
  auto versions = new_numpy<std::uint32_t>({b});
  auto rows = new_numpy<std::int64_t>({b});
  const LabelOptions& o = py.labels;
  const size_t h = size_t(s.height), w = size_t(s.width), none = 0;
  auto short_term = new_numpy<float>({o.horizons.empty() ? none : b, o.horizons.size()});
  auto ownership = new_numpy<float>({o.ownership ? b : none, h, w}), score = new_numpy<float>({o.score ? b : none});
  auto reply = new_numpy<float>({o.reply ? b : none, actions});
  {
    nb::gil_scoped_release nogil;
    py.ring->sample(count, begin, end, seed, symmetries, threads,
                    {is_packed ? nullptr : observations.data(), packed.data(), uniform.data(), symmetry.data(),
                     policy.data(), outcome.data(), root_values.data(), weight.data(), plies_left.data(),
                     versions.data(), rows.data(), short_term.data(), ownership.data(), score.data(), reply.data()});
  }
  nb::dict d;
  if (is_packed)
    d["packed"] = packed, d["uniform"] = uniform, d["symmetry"] = symmetry;
  else
    d["observations"] = observations;
  d["policy"] = policy, d["outcome"] = outcome, d["root_values"] = root_values;
  d["weight"] = weight, d["plies_left"] = plies_left, d["versions"] = versions, d["rows"] = rows;
  if (!o.horizons.empty()) d["short_term"] = short_term;
  if (o.ownership) d["ownership"] = ownership;
  if (o.score) d["score"] = score;
  if (o.reply) d["reply"] = reply;
  return d;
}

}  // namespace

void bind_rows(nb::module_& m) {
  nb::class_<PyRing>(m, "RowRing")
      .def(
          "__init__",
          [](PyRing* self, std::shared_ptr<const AnyGame> game, std::int64_t capacity, std::vector<float> horizons,
             float blunder_gap, float blunder_width, bool ownership, bool score, bool reply, float policy_surprise,
             float value_surprise, float value_lambda, bool is_cut_searched, int solved_empties, bool solved_policies,
             bool keeps_moves) {
            require(capacity >= 1, "capacity " + std::to_string(capacity) + ": must be at least 1");
            LabelOptions labels{
                std::move(horizons), blunder_gap,    blunder_width, ownership,       score,          reply,
                policy_surprise,     value_surprise, value_lambda,  is_cut_searched, solved_empties, solved_policies};
            check(labels);
            auto ring = game->row_ring(capacity, labels, keeps_moves);
            new (self) PyRing{std::move(game), std::move(labels), std::move(ring)};
          },
          "game"_a, "capacity"_a, nb::kw_only(), "horizons"_a = std::vector<float>(), "blunder_gap"_a = 0.f,
          "blunder_width"_a = 0.f, "ownership"_a = false, "score"_a = false, "reply"_a = false,
          "policy_surprise"_a = 0.f, "value_surprise"_a = 0.f, "value_lambda"_a = 0.f, "is_cut_searched"_a = false,
          "solved_empties"_a = 0, "solved_policies"_a = false, "keeps_moves"_a = false)
      .def_prop_ro("end", [](const PyRing& r) { return r.ring->end(); })
      .def_prop_ro("nbytes", [](const PyRing& r) { return r.ring->nbytes(); })
      .def("append", &append, "record"_a, "komi"_a = kNoKomi)
      .def("sample", &sample_rows, "count"_a, "begin"_a, "end"_a, "seed"_a, "symmetries"_a, "threads"_a,
           "packed"_a = false);
}

}  // namespace shusaku
