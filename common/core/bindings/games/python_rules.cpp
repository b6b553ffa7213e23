#include "bindings/games/python_rules.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "bindings/erased.h"
#include "bindings/games/external.h"
#include "games/external/external.h"

namespace shusaku {

namespace {

class PythonState final : public ExternalState {
 public:
  ~PythonState() override {
    if (!Py_IsInitialized()) {
      (void)value.release();  // the interpreter is gone, and its objects with it
      return;
    }
    nb::gil_scoped_acquire gil;
    value.reset();
  }
  nb::object value;
};

const nb::object& value_of(const ExternalState& state) { return static_cast<const PythonState&>(state).value; }

// repr() or str() of an object on one line; the name of its class if that fails.
std::string spelled(nb::handle value, PyObject* (*spell)(PyObject*)) {
  const nb::object text = nb::steal(spell(value.ptr()));
  Py_ssize_t size = 0;
  const char* bytes = text.is_valid() ? PyUnicode_AsUTF8AndSize(text.ptr(), &size) : nullptr;
  if (!bytes) {
    PyErr_Clear();
    return std::string("a ") + Py_TYPE(value.ptr())->tp_name;
  }
  std::string line(bytes, size_t(size));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

std::string shown(nb::handle value) {
  const std::string shown = spelled(value, &PyObject_Repr);
  return shown.size() > 80 ? shown.substr(0, 77) + "..." : shown;
}

bool is_of(nb::handle frame, nb::handle own_module) {
  const nb::object globals = frame.attr("tb_frame").attr("f_globals"), name = globals.attr("get")("__name__");
  return name.equal(own_module);
}

// "ZeroDivisionError: division by zero (nim.py, line 31)", of the innermost frame in the module of the method's class,
// since a line of a library that it called says little; if that has none, of the innermost frame of all.
std::string described(nb::python_error& error, nb::handle method) {
  std::string text = spelled(nb::object(error.type().attr("__name__")), &PyObject_Str);
  const std::string message = spelled(error.value(), &PyObject_Str);
  if (!message.empty()) text += ": " + message;
  nb::object next = error.traceback(), frame, own;
  if (!next.is_valid() || next.is_none()) return text;
  const nb::object owner = nb::getattr(method, "__self__", method);
  const nb::object own_module = nb::getattr(owner, "__module__", nb::none());
  for (; !next.is_none(); next = next.attr("tb_next")) {
    frame = next;
    if (is_of(frame, own_module)) own = frame;
  }
  if (own.is_valid()) frame = std::move(own);
  const nb::object path = frame.attr("tb_frame").attr("f_code").attr("co_filename"), number = frame.attr("tb_lineno");
  const std::string file = spelled(path, &PyObject_Str), line = spelled(number, &PyObject_Str);
  return text + " (" + file.substr(file.rfind('/') + 1) + ", line " + line + ")";
}

nb::object method_or_none(nb::handle game, const char* name) {
  return PyObject_HasAttrString(game.ptr(), name) ? nb::object(game.attr(name)) : nb::none();
}

}  // namespace

PythonCall::PythonCall(std::recursive_mutex& mutex) : mutex_(mutex) {
  if (!mutex_.try_lock()) {
    if (PyGILState_Check()) {
      nb::gil_scoped_release others_first;
      mutex_.lock();
    } else {
      mutex_.lock();
    }
  }
  gil_ = PyGILState_Ensure();
}

PythonCall::~PythonCall() {
  PyGILState_Release(gil_);
  mutex_.unlock();
}

PythonGame::PythonGame(nb::handle loaded) {
  metadata_.name = nb::cast<std::string>(loaded.attr("name"));
  metadata_.label = nb::cast<std::string>(loaded.attr("label"));
  metadata_.num_actions = nb::cast<int>(loaded.attr("num_actions"));
  metadata_.max_plies = nb::cast<int>(loaded.attr("max_plies"));
  metadata_.max_legal_actions = nb::cast<int>(loaded.attr("max_legal_actions"));
  const auto [planes, height, width] = nb::cast<std::tuple<int, int, int>>(loaded.attr("observation_shape"));
  const int uniform = nb::cast<int>(loaded.attr("uniform_planes"));
  metadata_.shape = {.binary = planes - uniform, .uniform = uniform, .height = height, .width = width};
  metadata_.cached_states = nb::cast<size_t>(loaded.attr("cached_states"));
  metadata_.num_symmetries = 0;
  for (nb::handle pair : nb::list(loaded.attr("symmetries"))) {
    const auto [cells, actions] = nb::cast<std::pair<std::vector<int>, std::vector<Action>>>(pair);
    metadata_.cells.insert(metadata_.cells.end(), cells.begin(), cells.end());
    metadata_.actions.insert(metadata_.actions.end(), actions.begin(), actions.end());
    ++metadata_.num_symmetries;
  }
  nb::object game = loaded.attr("rules");
  ask_ = {.start = game.attr("start"),
          .play = game.attr("play"),
          .to_play = game.attr("to_play"),
          .is_terminal = game.attr("is_terminal"),
          .legal_actions = game.attr("legal_actions"),
          .outcome = game.attr("outcome"),
          .observation = game.attr("observation"),
          .score = method_or_none(game, "score"),
          .is_cut_off = method_or_none(game, "is_cut_off"),
          .parse = method_or_none(game, "parse"),
          .to_move = method_or_none(game, "to_move"),
          .from_move = method_or_none(game, "from_move"),
          .render = method_or_none(game, "render"),
          .transposition_key = method_or_none(game, "transposition_key")};
  if (PyObject_HasAttrString(game.ptr(), "hints"))
    hints_ = nb::cast<std::map<std::string, std::string>>(game.attr("hints"));
  numpy_bool_ = nb::module_::import_("numpy").attr("bool_");
}

PythonGame::~PythonGame() {
  if (!Py_IsInitialized()) return;
  nb::gil_scoped_acquire gil;
  ask_ = {};
  numpy_bool_.reset();
}

void PythonGame::fail(const std::string& call, const std::string& what) const {
  const auto hint = hints_.find(call.substr(0, call.find('(')));
  throw ExternalError(metadata_.label + ": " + call + " " + what + (hint == hints_.end() ? "" : "; " + hint->second));
}

template <class... Args>
nb::object PythonGame::ask(const nb::object& method, const char* name, const std::string& arguments,
                           const Args&... args) const {
  try {
    return method(args...);
  } catch (nb::python_error& error) {
    // An exception that stops the program (Ctrl-C, no memory) is not the game's fault.
    if (!error.matches(PyExc_Exception) || error.matches(PyExc_MemoryError)) throw;
    fail(std::string(name) + arguments, "raised " + described(error, method));
  } catch (const nb::builtin_exception& error) {
    fail(std::string(name) + arguments, std::string("failed: ") + error.what());
  }
}

// Whole numbers of any type, numpy's too, and floats that are whole.
long long PythonGame::whole(nb::handle answer, const std::string& call, long long low, long long high) const {
  const auto refuse = [&] {
    fail(call, "returned " + shown(answer) + ": must be a whole number in [" + std::to_string(low) + ", " +
                   std::to_string(high) + "]");
  };
  long long value = 0;
  if (PyFloat_Check(answer.ptr())) {
    const double number = PyFloat_AS_DOUBLE(answer.ptr());
    if (!(number >= double(low) && number <= double(high) && number == std::floor(number))) refuse();
    return static_cast<long long>(number);
  }
  nb::object index = nb::steal(PyNumber_Index(answer.ptr()));
  int overflow = 0;
  if (index.is_valid()) value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (!index.is_valid() || overflow || value < low || value > high) {
    PyErr_Clear();
    refuse();
  }
  return value;
}

bool PythonGame::truth(nb::handle answer, const std::string& call) const {
  if (answer.ptr() == Py_True) return true;
  if (answer.ptr() == Py_False) return false;
  if (PyObject_IsInstance(answer.ptr(), numpy_bool_.ptr()) != 1)
    fail(call, "returned " + shown(answer) + ": must be True or False");
  return PyObject_IsTrue(answer.ptr()) == 1;
}

std::string PythonGame::text(nb::handle answer, const std::string& call) const {
  if (!PyUnicode_Check(answer.ptr())) fail(call, "returned " + shown(answer) + ": must be text");
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(answer.ptr(), &size);
  if (!bytes) {
    PyErr_Clear();
    fail(call, "returned text that is not Unicode");
  }
  return {bytes, size_t(size)};
}

void PythonGame::read_legal(ExternalState& state, nb::handle answer) const {
  const char* call = "legal_actions(state)";
  nb::object list = nb::steal(PySequence_Fast(answer.ptr(), ""));
  if (!list.is_valid()) {
    PyErr_Clear();
    fail(call, "returned " + shown(answer) + ": must be a list of actions");
  }
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(list.ptr());
  if (count > metadata_.max_legal_actions)
    fail(call, "returned " + std::to_string(count) + " actions, and max_legal_actions is " +
                   std::to_string(metadata_.max_legal_actions) + ": no position may have more");
  state.legal.reserve(size_t(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    const long long action = whole(PySequence_Fast_GET_ITEM(list.ptr(), i), call, 0, metadata_.num_actions - 1);
    if (i > 0 && action <= state.legal.back())
      fail(call, "returned " + shown(answer) + ": must be ascending, and " + std::to_string(action) + " comes behind " +
                     std::to_string(state.legal.back()));
    state.legal.push_back(Action(action));
  }
}

ExternalStatePtr PythonGame::adopt(nb::object value, const std::string& how) const {
  if (value.is_none()) fail(how, "returned None: must be a state");
  auto state = std::make_shared<PythonState>();
  state->value = std::move(value);
  const nb::object& v = state->value;
  state->is_terminal = truth(ask(ask_.is_terminal, "is_terminal", "(state)", v), "is_terminal(state)");
  state->to_play = std::int8_t(whole(ask(ask_.to_play, "to_play", "(state)", v), "to_play(state)", 0, 1));
  read_legal(*state, ask(ask_.legal_actions, "legal_actions", "(state)", v));
  if (state->is_terminal != state->legal.empty())
    fail("legal_actions(state)",
         state->is_terminal
             ? "has " + std::to_string(state->legal.size()) + " actions where is_terminal is True: must be none there"
             : "has no action where is_terminal is False: a game without a legal action is over");
  if (!state->is_terminal) return state;
  state->outcome = std::int8_t(whole(ask(ask_.outcome, "outcome", "(state)", v), "outcome(state)", -1, 1));
  if (!ask_.is_cut_off.is_none())
    state->is_cut_off = truth(ask(ask_.is_cut_off, "is_cut_off", "(state)", v), "is_cut_off(state)");
  if (ask_.score.is_none()) return state;
  const nb::object score = ask(ask_.score, "score", "(state)", v);
  if (score.is_none()) return state;  // this end has no points
  const double points = PyFloat_AsDouble(score.ptr());
  const bool is_number = !PyErr_Occurred();
  PyErr_Clear();
  if (!is_number || !std::isfinite(float(points)))
    fail("score(state)", "returned " + shown(score) + ": must be a finite number, or None where there are no points");
  state->score = float(points);
  return state;
}

ExternalStatePtr PythonGame::start() const {
  PythonCall call(mutex_);
  ExternalStatePtr state = adopt(ask(ask_.start, "start", "()"), "start()");
  if (state->is_terminal) fail("is_terminal(state)", "is True at the start: there would be no game to play");
  if (state->to_play != 0) fail("to_play(state)", "is 1 at the start: player 0 moves first");
  return state;
}

ExternalStatePtr PythonGame::play(const ExternalState& state, Action action) const {
  PythonCall call(mutex_);
  const std::string arguments = "(state, " + std::to_string(action) + ")";
  nb::object next = ask(ask_.play, "play", arguments, value_of(state), int(action));
  if (next.is(value_of(state)))
    fail("play" + arguments, "returned the state that it was given: must make a new one and leave the old one alone");
  return adopt(std::move(next), "play" + arguments);
}

ExternalStatePtr PythonGame::parse(const std::string& text) const {
  if (ask_.parse.is_none())
    throw std::invalid_argument(metadata_.label + " sets up no positions from text: it has no method parse(text)");
  PythonCall call(mutex_);
  nb::object state;
  try {
    state = ask_.parse(text);
  } catch (nb::python_error& error) {
    if (error.matches(PyExc_ValueError)) throw std::invalid_argument(spelled(error.value(), &PyObject_Str));
    if (!error.matches(PyExc_Exception)) throw;
    fail("parse(text)",
         "raised " + described(error, ask_.parse) + ": must raise ValueError where the text is no position");
  }
  return adopt(std::move(state), "parse(text)");
}

ExternalPlanes PythonGame::observe(const ExternalState& state) const {
  const char* name = "observation(state)";
  PythonCall call(mutex_);
  const nb::object answer = ask(ask_.observation, "observation", "(state)", value_of(state));
  const Shape& s = metadata_.shape;
  const auto expected = [&] {
    return ": must be a numpy array [" + std::to_string(s.planes()) + ", " + std::to_string(s.height) + ", " +
           std::to_string(s.width) + "] of numbers";
  };
  if (!nb::ndarray_check(answer)) fail(name, "returned " + shown(answer) + expected());
  In<float, 3> array;
  if (!nb::try_cast(answer, array)) {
    PyErr_Clear();
    fail(name, "returned an array " + shown(answer.attr("dtype")) + shown(answer.attr("shape")) + expected());
  }
  if (array.shape(0) != size_t(s.planes()) || array.shape(1) != size_t(s.height) || array.shape(2) != size_t(s.width))
    fail(name, "returned an array " + shown(answer.attr("shape")) + expected());

  ExternalPlanes planes;
  planes.bits.resize(size_t(s.packed_bytes()));
  const float* values = array.data();
  const int area = s.cells(), binary = s.binary * area;
  const auto last_planes = [&] {
    return ": the last uniform_planes = " + std::to_string(s.uniform) + " hold one number each, ";
  };
  for (int i = 0; i < binary; ++i) {
    if (values[i] == 1.f)
      planes.bits[size_t(i / 8)] |= std::uint8_t(1u << i % 8);
    else if (values[i] != 0.f)
      fail(name, "has " + std::to_string(values[i]) + " in plane " + std::to_string(i / area) + ", row " +
                     std::to_string(i % area / s.width) + ", column " + std::to_string(i % s.width) + last_planes() +
                     "all planes before them must hold 0 and 1 only");
  }
  for (int u = 0; u < s.uniform; ++u) {
    const float* plane = values + binary + u * area;
    const auto where = [&] { return " in plane " + std::to_string(s.binary + u); };
    if (!std::isfinite(plane[0])) fail(name, "has " + std::to_string(plane[0]) + where() + ": must be finite");
    for (int i = 1; i < area; ++i)
      if (plane[i] != plane[0])
        fail(name, "has " + std::to_string(plane[0]) + " and " + std::to_string(plane[i]) + where() + last_planes() +
                       "each of them must hold one number everywhere");
    planes.uniform.push_back(plane[0]);
  }

  std::uint64_t key = mix64(1 + state.legal.size());
  for (Action a : state.legal) key = combine(key, a);
  for (float x : planes.uniform) key = combine(key, std::bit_cast<std::uint32_t>(x + 0.f));  // -0 is 0
  for (size_t i = 0; i < planes.bits.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, &planes.bits[i], std::min<size_t>(8, planes.bits.size() - i));
    key = combine(key, word);
  }
  planes.key = key;
  return planes;
}

std::optional<std::uint64_t> PythonGame::transposition_key(const ExternalState& state) const {
  if (ask_.transposition_key.is_none()) return std::nullopt;
  PythonCall call(mutex_);
  const nb::object answer = ask(ask_.transposition_key, "transposition_key", "(state)", value_of(state));
  const nb::object number = nb::steal(PyNumber_Index(answer.ptr()));
  if (!number.is_valid()) {
    PyErr_Clear();
    fail("transposition_key(state)", "returned " + shown(answer) + ": must be a whole number, such as hash(...)");
  }
  return mix64(PyLong_AsUnsignedLongLongMask(number.ptr()));
}

std::string PythonGame::to_move(const ExternalState& state, Action action) const {
  if (ask_.to_move.is_none()) return std::to_string(action);
  PythonCall call(mutex_);
  const std::string arguments = "(state, " + std::to_string(action) + ")";
  const nb::object answer = ask(ask_.to_move, "to_move", arguments, value_of(state), int(action));
  const std::string move = text(answer, "to_move" + arguments);
  if (move.empty() || move.find_first_of(" \t\n") != std::string::npos)
    fail("to_move" + arguments, "returned '" + move + "': must be a word, without blanks");
  return move;
}

int PythonGame::from_move(const ExternalState& state, const std::string& text) const {
  if (ask_.from_move.is_none()) {
    for (Action action : state.legal)
      if (to_move(state, action) == text) return action;
    return -1;
  }
  PythonCall call(mutex_);
  nb::object answer;
  try {
    answer = ask_.from_move(value_of(state), text);
  } catch (nb::python_error& error) {
    if (error.matches(PyExc_ValueError)) return -1;
    if (!error.matches(PyExc_Exception)) throw;
    fail("from_move(state, text)",
         "raised " + described(error, ask_.from_move) + ": must raise ValueError where the text is no move");
  }
  return answer.is_none() ? -1 : int(whole(answer, "from_move(state, text)", -1, metadata_.num_actions - 1));
}

std::string PythonGame::render(const ExternalState& state) const {
  PythonCall call(mutex_);
  if (ask_.render.is_none()) return shown(value_of(state));
  return text(ask(ask_.render, "render", "(state)", value_of(state)), "render(state)");
}

namespace {

// ExternalError -> common.errors.GameError, so that it is one line for the user wherever it comes up.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ExternalError& error) {
    PyErr_SetString(nb::module_::import_("shusaku.common.errors").attr("GameError").ptr(), error.what());
  }
}

}  // namespace

void bind_external_errors() { nb::register_exception_translator(&translate); }

bool is_external(const std::string& name) {
  return std::find(std::begin(kExternalNames), std::end(kExternalNames), name) != std::end(kExternalNames);
}

// The Python side finds, makes and checks the game; what it raises passes through.
std::shared_ptr<const AnyGame> make_external_game(const std::string& name, const Params& params) {
  const nb::object loaded = nb::module_::import_("shusaku.common.external.loader").attr("load_game")(name, params);
  const auto game = std::make_shared<const PythonGame>(loaded);
  const Params all = nb::cast<Params>(loaded.attr("params"));
  const int plies = game->metadata().max_plies;
  if (plies <= kShortExternal) return make_short_external(all, game);
  if (plies <= kLongExternal) return make_long_external(all, game);
  return make_longest_external(all, game);
}

}  // namespace shusaku
