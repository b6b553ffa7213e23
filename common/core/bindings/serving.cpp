// The inference server's requests in Python: their bytes, the queue, the port of shared memory.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "bindings/arrays.h"
#include "bindings/erased.h"
#include "serving/memory_peer.h"
#include "serving/request_port.h"
#include "serving/request_queue.h"
#include "serving/tcp_peer.h"

namespace shusaku {

using namespace nb::literals;

namespace {

// Arrays of numpy that batches are laid into; the references keep them alive.
struct BatchInputs {
  nb::object packed, uniform, offsets, actions, places;
  LeafColumns columns;
  int rows = 0;
};

struct PyBatch {
  RequestBatch batch;
};

std::span<const std::byte> bytes_of(const nb::bytes& data) {
  return {static_cast<const std::byte*>(data.data()), data.size()};
}

RequestRules rules_of(const AnyGame& game, std::uint32_t crc, size_t max_bytes) {
  const Shape s = game.shape();
  RequestRules rules{crc, int(s.packed_bytes()), int(s.uniform), game.max_legal_actions(), game.num_actions(), 0};
  rules.max_bytes = std::max(max_bytes, request_bytes(rules, 1, size_t(rules.max_legal)));
  return rules;
}

nb::bytes encode(const RequestRules& rules, In<std::uint8_t, 2> packed, In<float, 2> uniform,
                 In<std::int32_t, 1> offsets, In<std::uint16_t, 1> actions) {
  const size_t rows = packed.shape(0), n = actions.shape(0);
  require(packed.shape(1) == size_t(rules.packed_bytes) && uniform.shape(1) == size_t(rules.uniforms) &&
              uniform.shape(0) == rows && offsets.shape(0) == rows + 1,
          "planes of shape (" + std::to_string(rows) + ", " + std::to_string(packed.shape(1)) + ") and (" +
              std::to_string(uniform.shape(0)) + ", " + std::to_string(uniform.shape(1)) + "); this game has " +
              std::to_string(rules.packed_bytes) + " packed bytes and " + std::to_string(rules.uniforms) +
              " uniform planes a position");
  const size_t size = request_bytes(rules, rows, n);
  require(size <= rules.max_bytes,
          std::to_string(size) + " bytes; a request has at most " + std::to_string(rules.max_bytes));
  PyObject* result = PyBytes_FromStringAndSize(nullptr, Py_ssize_t(size));
  if (!result) throw nb::python_error();
  char* at = PyBytes_AS_STRING(result);
  const auto put = [&](const void* data, size_t bytes) {
    std::memcpy(at, data, bytes);
    at += bytes;
  };
  RequestHeader header{{}, rules.crc, std::uint32_t(rows), std::uint32_t(n)};
  std::memcpy(header.mark, kRequestMark, sizeof header.mark);
  put(&header, sizeof header);
  put(uniform.data(), 4 * rows * size_t(rules.uniforms));
  put(actions.data(), 2 * n);
  for (size_t i = 0; i < rows; ++i) {
    const std::uint16_t count = std::uint16_t(offsets.data()[i + 1] - offsets.data()[i]);
    put(&count, 2);
  }
  put(packed.data(), rows * size_t(rules.packed_bytes));
  return nb::steal<nb::bytes>(result);
}

nb::tuple decode(const RequestRules& rules, nb::bytes data) {
  RequestView view;
  std::string why = read_request(rules, bytes_of(data), view);
  require(why.empty(), why);
  const size_t rows = size_t(view.rows), n = size_t(view.actions);
  auto packed = new_numpy<std::uint8_t>({rows, size_t(rules.packed_bytes)});
  auto uniform = new_numpy<float>({rows, size_t(rules.uniforms)});
  auto offsets = new_numpy<std::int32_t>({rows + 1});
  auto actions = new_numpy<std::uint16_t>({n});
  std::vector<std::uint16_t> counts;
  offsets.data()[0] = 0;
  why = copy_request(rules, view, {packed.data(), uniform.data(), offsets.data(), actions.data(), nullptr}, 0, counts);
  require(why.empty(), why);
  return nb::make_tuple(packed, uniform, offsets, actions);
}

nb::tuple decode_answer(nb::bytes data, size_t rows, size_t actions) {
  const auto bytes = bytes_of(data);
  AnswerHeader h{};
  if (bytes.size() >= sizeof h) std::memcpy(&h, bytes.data(), sizeof h);
  require(std::memcmp(h.mark, kAnswerMark, sizeof h.mark) == 0,
          std::string("begins with other bytes than '") + kAnswerMark + "'");
  require(h.rows == rows && h.actions == actions && bytes.size() == answer_bytes(rows, actions),
          "an answer of " + std::to_string(bytes.size()) + " bytes to " + std::to_string(h.rows) + " positions with " +
              std::to_string(h.actions) + " legal actions; asked were " + std::to_string(rows) + " and " +
              std::to_string(actions) + ", which take " + std::to_string(answer_bytes(rows, actions)));
  auto numbers = new_numpy<float>({rows + actions});
  const std::byte* at = bytes.data() + sizeof h;
  std::uint16_t halves[kLanes];
  size_t i = 0;
  for (; i + kLanes <= rows + actions; i += kLanes) {
    std::memcpy(halves, at + 2 * i, sizeof halves);
    F8::load_half(halves).store(numbers.data() + i);
  }
  for (; i < rows + actions; ++i) {
    std::memcpy(halves, at + 2 * i, 2);
    numbers.data()[i] = from_half(halves[0]);
  }
  return nb::make_tuple(numbers, h.version);
}

template <class T>
nb::object view(T* data, std::initializer_list<size_t> shape, nb::handle owner) {
  return nb::cast(Array<T>(data, shape, owner));
}

std::optional<nb::object> gather(RequestQueue& queue, const BatchInputs& inputs, bool takes, bool has_room,
                                 double busy_until, double until) {
  require(inputs.rows >= queue.largest(),
          "inputs of " + std::to_string(inputs.rows) + " rows; a batch has up to " + std::to_string(queue.largest()));
  auto py = std::make_unique<PyBatch>();
  {
    nb::gil_scoped_release nogil;
    if (!queue.gather(py->batch, inputs.columns, takes, has_room, busy_until, until)) return std::nullopt;
  }
  PyBatch* raw = py.get();
  nb::object batch = nb::cast(py.release(), nb::rv_policy::take_ownership);
  const LeafColumns& c = raw->batch.columns;
  const size_t rows = size_t(raw->batch.rows), actions = size_t(raw->batch.actions);
  const RequestRules& rules = queue.rules();
  // The arrays' owner is the batch if the rows lie in its own memory, which is the case for a large one.
  const bool is_own = c.packed == raw->batch.packed.data();
  const auto owner = [&](const nb::object& array) { return is_own ? nb::handle(batch) : nb::handle(array); };
  nb::object columns = nb::make_tuple(view(c.packed, {rows, size_t(rules.packed_bytes)}, owner(inputs.packed)),
                                      view(c.uniform, {rows, size_t(rules.uniforms)}, owner(inputs.uniform)),
                                      view(c.offsets, {rows + 1}, owner(inputs.offsets)),
                                      view(c.actions, {actions}, owner(inputs.actions)));
  return nb::make_tuple(batch, columns);
}

nb::tuple infer(RequestQueue& queue, std::int64_t client, nb::bytes payload, double timeout) {
  auto call = std::make_shared<WaitingCall>(std::string(static_cast<const char*>(payload.data()), payload.size()));
  bool is_settled = false;
  {
    nb::gil_scoped_release nogil;
    queue.submit(call, client, call->payload());
    is_settled = call->wait(timeout);
    if (!is_settled) {
      queue.withdraw(call.get());
      is_settled = call->wait(0);  // the answer came after all
      if (!is_settled) queue.count_refused();
    }
  }
  if (!is_settled) return nb::make_tuple(0, nb::bytes("", 0));
  return nb::make_tuple(int(call->outcome()), nb::bytes(call->answer().data(), call->answer().size()));
}

}  // namespace

void bind_serving(nb::module_& m) {
  nb::class_<RequestRules>(m, "RequestRules")
      .def(
          "__init__",
          [](RequestRules* self, std::shared_ptr<const AnyGame> game, std::uint32_t crc, size_t max_bytes) {
            new (self) RequestRules(rules_of(*game, crc, max_bytes));
          },
          "game"_a, "crc"_a, "max_bytes"_a)
      .def_ro("max_bytes", &RequestRules::max_bytes)
      .def("size", &request_bytes, "rows"_a, "actions"_a)
      .def("encode", &encode, "packed"_a, "uniform"_a, "offsets"_a, "actions"_a)
      .def("decode", &decode, "data"_a);
  m.def("decode_answer", &decode_answer, "data"_a, "rows"_a, "actions"_a);

  nb::class_<FireRule>(m, "FireRule")
      .def(
          "__init__",
          [](FireRule* self, int largest, double deadline_s) {
            require(largest >= 1, "largest " + std::to_string(largest) + ": must be at least 1");
            new (self) FireRule{largest, deadline_s};
          },
          "largest"_a, "deadline_s"_a)
      .def("seconds_left", &FireRule::seconds_left, "positions"_a, "able"_a, "prompt"_a, "waited"_a, "busy_s"_a = 0.0)
      .def("is_missed", &FireRule::is_missed, "positions"_a, "prompt"_a, "waited"_a);
  nb::class_<LiveClients>(m, "LiveClients")
      .def(nb::init<double>(), "seconds"_a)
      .def("record_request", &LiveClients::record_request, "client"_a, "now"_a)
      .def("record_answer", &LiveClients::record_answer, "client"_a, "now"_a)
      .def("count", &LiveClients::count, "now"_a)
      .def("record_deadline", &LiveClients::record_deadline)
      .def("able", &LiveClients::able, "now"_a)
      .def("prompt", &LiveClients::prompt, "now"_a);

  nb::class_<BatchInputs>(m, "BatchInputs")
      .def(
          "__init__",
          [](BatchInputs* self, nb::object packed, nb::object uniform, nb::object offsets, nb::object actions,
             nb::object places) {
            const auto p = nb::cast<Out<std::uint8_t, 2>>(packed, false);
            const auto u = nb::cast<Out<float, 2>>(uniform, false);
            const auto o = nb::cast<Out<std::int32_t, 1>>(offsets, false);
            const auto a = nb::cast<Out<std::uint16_t, 1>>(actions, false);
            LeafColumns columns{p.data(), u.data(), o.data(), a.data(), nullptr};
            const size_t rows = p.shape(0);
            require(u.shape(0) == rows && o.shape(0) == rows + 1, "inputs of different numbers of rows");
            if (!places.is_none()) {
              const auto i = nb::cast<Out<std::int32_t, 1>>(places, false);
              require(i.shape(0) >= a.shape(0), "places: shorter than actions");
              columns.places = i.data();
            }
            new (self) BatchInputs{packed, uniform, offsets, actions, places, columns, int(rows)};
          },
          "packed"_a, "uniform"_a, "offsets"_a, "actions"_a, "places"_a = nb::none())
      .def_ro("rows", &BatchInputs::rows);

  nb::class_<PyBatch>(m, "RequestBatch")
      .def_prop_ro("rows", [](const PyBatch& b) { return b.batch.rows; })
      .def_prop_ro("actions", [](const PyBatch& b) { return b.batch.actions; })
      .def_prop_ro("began_at", [](const PyBatch& b) { return b.batch.began_at; });

  nb::class_<RequestQueue>(m, "RequestQueue")
      .def(
          "__init__",
          [](RequestQueue* self, const RequestRules& rules, const FireRule& rule, size_t max_waiting,
             double live_seconds) { new (self) RequestQueue(rules, rule, max_waiting, live_seconds); },
          "rules"_a, "rule"_a, "max_waiting"_a, "live_seconds"_a)
      .def("infer", &infer, "client"_a, "payload"_a, "timeout"_a)
      .def("gather", &gather, "inputs"_a, "takes"_a, "has_room"_a, "busy_until"_a, "until"_a)
      .def(
          "answer",
          [](RequestQueue& queue, PyBatch& py, In<float, 1> logits, In<float, 1> values, std::uint32_t version) {
            require(logits.shape(0) == size_t(py.batch.actions) && values.shape(0) == size_t(py.batch.rows),
                    std::to_string(logits.shape(0)) + " logits and " + std::to_string(values.shape(0)) +
                        " values for " + std::to_string(py.batch.actions) + " actions and " +
                        std::to_string(py.batch.rows) + " positions");
            nb::gil_scoped_release nogil;
            queue.answer(py.batch, logits.data(), values.data(), version);
          },
          "batch"_a, "logits"_a, "values"_a, "version"_a)
      .def(
          "fail", [](RequestQueue& queue, PyBatch& py, const std::string& why) { queue.fail(py.batch, why); },
          "batch"_a, "why"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("set_largest", &RequestQueue::set_largest, "rows"_a)
      .def("wake", &RequestQueue::wake)
      .def("close", &RequestQueue::close, "why"_a, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("waiting", &RequestQueue::waiting)
      .def_prop_ro("clients", &RequestQueue::clients)
      .def("counters", [](const RequestQueue& queue) {
        auto [counters, waits] = queue.counters();
        nb::dict d;
        d["rows"] = counters.rows, d["batches"] = counters.batches, d["refused"] = counters.refused;
        d["failed"] = counters.failed, d["non_finite"] = counters.non_finite;
        return nb::make_tuple(d, to_numpy(std::move(waits)));
      });
#if defined(__linux__)
  nb::class_<RequestPort>(m, "RequestPort")
      .def(
          "__init__",
          [](RequestPort* self, std::shared_ptr<RequestQueue> queue) { new (self) RequestPort(std::move(queue)); },
          "queue"_a)
      .def(
          "attach_memory",
          [](RequestPort& port, int socket, int memory, int slots, size_t slot_bytes, std::int64_t client) {
            auto connection = std::make_shared<SlotConnection>(socket, memory, slots, slot_bytes, client);
            port.attach(std::make_shared<MemoryPeer>(std::move(connection)));
          },
          "socket"_a, "memory"_a, "slots"_a, "slot_bytes"_a, "client"_a)
      .def(
          "attach_tcp",
          [](RequestPort& port, int socket, std::int64_t client) {
            port.attach(std::make_shared<TcpPeer>(socket, client, port.max_bytes()));
          },
          "socket"_a, "client"_a)
      .def("run", &RequestPort::run, nb::call_guard<nb::gil_scoped_release>())
      .def("end", &RequestPort::end)
      .def_prop_ro("connections", &RequestPort::connections);
#endif
}

}  // namespace shusaku
