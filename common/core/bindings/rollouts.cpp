// Rollouts and the training of their policy in Python.  The GIL is released wherever games are played.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include "bindings/arrays.h"
#include "bindings/erased.h"

namespace shusaku {

using namespace nb::literals;

namespace {

struct PyRollouts {
  std::shared_ptr<const AnyGame> game;
  std::unique_ptr<AnyRollouts> rollouts;
};

struct PyRolloutTraining {
  std::shared_ptr<const AnyGame> game;
  std::unique_ptr<AnyRolloutTraining> training;
};

nb::dict to_dict(const RolloutFit& fit) {
  nb::dict d;
  d["positions"] = fit.positions, d["others"] = fit.others, d["loss"] = fit.loss;
  const double positions = double(std::max<std::int64_t>(1, fit.positions));
  d["top1"] = double(fit.top1) / positions, d["top5"] = double(fit.top5) / positions;
  return d;
}

void require_open(const AnyPosition& position) {
  require(!position.is_terminal(), "the position is over: there is nothing to play");
}

}  // namespace

void bind_rollouts(nb::module_& m) {
  nb::class_<PyRollouts>(m, "Rollouts")
      .def(
          "__init__",
          [](PyRollouts* self, std::shared_ptr<const AnyGame> game, const std::string& file) {
            auto rollouts = game->rollouts(file);
            new (self) PyRollouts{std::move(game), std::move(rollouts)};
          },
          "game"_a, "file"_a = "")
      .def(
          "play",
          [](const PyRollouts& r, const AnyPosition& position, std::uint64_t seed) {
            std::vector<Action> moves;
            const float outcome = r.rollouts->play(position, seed, moves);
            return nb::make_tuple(outcome, to_numpy(std::move(moves)));
          },
          "position"_a, "seed"_a)
      .def(
          "count_plies",
          [](const PyRollouts& r, const AnyPosition& position, int rollouts, std::uint64_t seed) {
            nb::gil_scoped_release nogil;
            return r.rollouts->count_plies(position, rollouts, seed);
          },
          "position"_a, "rollouts"_a, "seed"_a)
      .def(
          "priors",
          [](const PyRollouts& r, const AnyPosition& position) {
            require_open(position);
            return to_numpy(r.rollouts->priors(position));
          },
          "position"_a, nb::rv_policy::move)
      .def(
          "candidates",
          [](const PyRollouts& r, const AnyPosition& position) {
            require_open(position);
            RolloutCandidates found = r.rollouts->candidates(position);
            return nb::make_tuple(to_numpy(std::move(found.actions)), to_numpy(std::move(found.offsets)),
                                  to_numpy(std::move(found.keys)));
          },
          "position"_a);

  nb::class_<PyRolloutTraining>(m, "RolloutTraining")
      .def(
          "__init__",
          [](PyRolloutTraining* self, std::shared_ptr<const AnyGame> game) {
            auto training = game->rollout_training();
            new (self) PyRolloutTraining{std::move(game), std::move(training)};
          },
          "game"_a)
      .def(
          "add",
          [](PyRolloutTraining& t, In<Action, 1> moves, In<float, 1> weights, bool unseen) {
            if (weights.shape(0) != moves.shape(0)) throw std::invalid_argument("each move needs a weight");
            std::vector<Action> list(moves.data(), moves.data() + moves.shape(0));
            std::vector<float> worth(weights.data(), weights.data() + weights.shape(0));
            nb::gil_scoped_release nogil;
            t.training->add(std::move(list), worth, unseen);
          },
          "moves"_a, "weights"_a, "unseen"_a = false)
      .def(
          "begin",
          [](PyRolloutTraining& t, std::int64_t least_seen) {
            nb::gil_scoped_release nogil;
            return t.training->begin(least_seen);
          },
          "least_seen"_a)
      .def(
          "learn",
          [](PyRolloutTraining& t, float rate, std::uint64_t seed) {
            RolloutFit fit;
            {
              nb::gil_scoped_release nogil;
              fit = t.training->learn(rate, seed);
            }
            return to_dict(fit);
          },
          "rate"_a, "seed"_a)
      .def("measure",
           [](PyRolloutTraining& t) {
             RolloutFit fit;
             {
               nb::gil_scoped_release nogil;
               fit = t.training->measure();
             }
             return to_dict(fit);
           })
      .def(
          "file",
          [](const PyRolloutTraining& t, const std::string& note) {
            const std::string bytes = rollout_bytes(t.training->weights(note));
            return nb::bytes(bytes.data(), bytes.size());
          },
          "note"_a);

  m.def(
      "describe_rollout",
      [](nb::bytes data) {
        RolloutWeights w = parse_rollout(std::string(data.c_str(), data.size()));
        nb::dict d;
        d["game"] = w.game, d["board"] = w.board, d["note"] = w.note;
        d["keys"] = to_numpy(std::move(w.keys)), d["weights"] = to_numpy(std::move(w.weights));
        return d;
      },
      "data"_a);
}

}  // namespace shusaku
