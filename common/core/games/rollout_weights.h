// The weights of a linear rollout policy, and their file.
//
// A move's score is the sum of the weights of its features; a feature is a key of 64 bits whose meaning is the game's
// (games/go/rollout_state.h).  The file, little endian:
//
//   SHUSAKU rollout 1\n | game NAME\n | board HxW\n | weights N\n | note TEXT\n | \n
//   N keys of 64 bits, ascending | N weights of 32 bits | checksum of all before, 64 bits
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "games/game.h"

namespace shusaku {

struct RolloutWeights {
  std::string game, board, note;    // note: how it was trained, one line
  std::vector<std::uint64_t> keys;  // ascending
  std::vector<float> weights;       // of the keys

  float of(std::uint64_t key) const {  // 0 for a feature that has none
    const auto at = std::lower_bound(keys.begin(), keys.end(), key);
    return at != keys.end() && *at == key ? weights[size_t(at - keys.begin())] : 0.f;
  }
};

// The moves that a rollout may choose at a position and the features of each, whose weights add up to its score.
struct RolloutCandidates {
  std::vector<Action> actions;         // [K]
  std::vector<std::uint32_t> offsets;  // [K + 1] into keys
  std::vector<std::uint64_t> keys;     // of features

  void clear() { actions.clear(), keys.clear(), offsets.assign(1, 0); }
  void end(Action action) { actions.push_back(action), offsets.push_back(std::uint32_t(keys.size())); }
};

static_assert(std::endian::native == std::endian::little, "files are little endian");

inline constexpr const char* kRolloutMagic = "SHUSAKU rollout 1\n";
inline constexpr std::uint64_t kMostRolloutWeights = 1ull << 24;

inline std::string board_of(const Shape& s) { return std::to_string(s.height) + "x" + std::to_string(s.width); }

inline std::uint64_t rollout_checksum(const char* data, size_t size) {
  std::uint64_t sum = size;
  for (size_t at = 0; at < size; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, std::min<size_t>(8, size - at));
    sum = combine(sum, word);
  }
  return sum;
}

inline std::string rollout_bytes(const RolloutWeights& w) {
  std::string out = kRolloutMagic;
  out += "game " + w.game + "\nboard " + w.board + "\nweights " + std::to_string(w.keys.size()) + "\nnote " + w.note +
         "\n\n";
  out.append(reinterpret_cast<const char*>(w.keys.data()), w.keys.size() * sizeof(std::uint64_t));
  out.append(reinterpret_cast<const char*>(w.weights.data()), w.weights.size() * sizeof(float));
  const std::uint64_t sum = rollout_checksum(out.data(), out.size());
  out.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return out;
}

// std::invalid_argument with what is wrong, if the bytes are no such file.
inline RolloutWeights parse_rollout(const std::string& bytes) {
  const std::string magic = kRolloutMagic;
  if (bytes.compare(0, magic.size(), magic) != 0) throw std::invalid_argument("is no file of a rollout policy");
  std::uint64_t sum = 0;
  if (bytes.size() < magic.size() + sizeof sum) throw std::invalid_argument("is cut");
  const size_t end = bytes.size() - sizeof sum;
  std::memcpy(&sum, bytes.data() + end, sizeof sum);
  if (sum != rollout_checksum(bytes.data(), end)) throw std::invalid_argument("is damaged: its checksum differs");
  RolloutWeights w;
  size_t at = magic.size(), count = 0;
  for (;;) {
    const size_t stop = bytes.find('\n', at);
    if (stop == std::string::npos || stop >= end) throw std::invalid_argument("has a header without an end");
    const std::string line = bytes.substr(at, stop - at);
    at = stop + 1;
    if (line.empty()) break;
    const size_t space = line.find(' ');
    const std::string key = line.substr(0, space), value = space == std::string::npos ? "" : line.substr(space + 1);
    if (key == "game")
      w.game = value;
    else if (key == "board")
      w.board = value;
    else if (key == "note")
      w.note = value;
    else if (key == "weights" && !value.empty() && value.size() < 9 &&
             value.find_first_not_of("0123456789") == std::string::npos)
      count = size_t(std::stoul(value));
    else
      throw std::invalid_argument("has an unknown header line");
  }
  if (count > kMostRolloutWeights || end - at != count * (sizeof(std::uint64_t) + sizeof(float)))
    throw std::invalid_argument("holds another number of weights than it says");
  w.keys.resize(count), w.weights.resize(count);
  std::memcpy(w.keys.data(), bytes.data() + at, count * sizeof(std::uint64_t));
  std::memcpy(w.weights.data(), bytes.data() + at + count * sizeof(std::uint64_t), count * sizeof(float));
  for (size_t i = 0; i < count; ++i)
    if (!std::isfinite(w.weights[i]) || (i && w.keys[i - 1] >= w.keys[i]))
      throw std::invalid_argument("has weights out of order or not finite");
  return w;
}

// The weights in a file, which must be of this game and board; std::invalid_argument in one line if they are not.
template <class G>
RolloutWeights read_rollout(const G& rules, const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw std::invalid_argument("search.rollout=" + file +
                                ": cannot be read; name a file that shusaku rollout has written");
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  RolloutWeights w;
  try {
    w = parse_rollout(bytes);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("search.rollout=" + file + ": " + error.what() +
                                "; name a file that shusaku rollout has written");
  }
  const std::string game = name_of(rules), board = board_of(rules.shape());
  if (w.game != game || w.board != board)
    throw std::invalid_argument("search.rollout=" + file + ": is of " + w.game + " " + w.board + ", the game is " +
                                game + " " + board + "; train one for it with shusaku rollout");
  return w;
}

}  // namespace shusaku
