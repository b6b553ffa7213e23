// ExternalGame over a Python object: every result is checked here, once a state, and an error names method and value.
#pragma once

#include <map>
#include <mutex>

#include "bindings/arrays.h"
#include "games/external/rules.h"

namespace shusaku {

// One call at a time into a game, whichever thread it comes from: a game may keep scratch memory.
//
// Taken before the GIL and never waited for while holding it, so that no two threads wait for each other.
class PythonCall {
 public:
  explicit PythonCall(std::recursive_mutex& mutex);
  PythonCall(const PythonCall&) = delete;
  ~PythonCall();

 private:
  std::recursive_mutex& mutex_;
  PyGILState_STATE gil_;
};

class PythonGame final : public ExternalGame {
 public:
  explicit PythonGame(nb::handle loaded);  // a common.external.loader.LoadedGame; with the GIL
  ~PythonGame() override;

  const ExternalMetadata& metadata() const override { return metadata_; }
  ExternalStatePtr start() const override;
  ExternalStatePtr play(const ExternalState& state, Action action) const override;
  ExternalStatePtr parse(const std::string& text) const override;
  ExternalPlanes observe(const ExternalState& state) const override;
  std::optional<std::uint64_t> transposition_key(const ExternalState& state) const override;
  std::string to_move(const ExternalState& state, Action action) const override;
  int from_move(const ExternalState& state, const std::string& text) const override;
  std::string render(const ExternalState& state) const override;

 private:
  ExternalStatePtr adopt(nb::object value, const std::string& how) const;
  void read_legal(ExternalState& state, nb::handle answer) const;
  template <class... Args>
  nb::object ask(const nb::object& method, const char* name, const std::string& arguments, const Args&... args) const;
  [[noreturn]] void fail(const std::string& call, const std::string& what) const;
  long long whole(nb::handle answer, const std::string& call, long long low, long long high) const;
  bool truth(nb::handle answer, const std::string& call) const;
  std::string text(nb::handle answer, const std::string& call) const;

  struct Methods {  // None if the game has no such method
    nb::object start, play, to_play, is_terminal, legal_actions, outcome, observation, score, is_cut_off, parse,
        to_move, from_move, render, transposition_key;
  };

  mutable std::recursive_mutex mutex_;
  ExternalMetadata metadata_;
  Methods ask_;
  std::map<std::string, std::string> hints_;  // method -> the way out if its result is wrong
  nb::object numpy_bool_;
};

}  // namespace shusaku
