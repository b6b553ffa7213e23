// A request of leaves and its answer as bytes: what an actor asks an inference server, and what the server answers.
//
//   request   'SLQ1'  crc32 of the rules u4 | B u4 | N u4      uniform f4 [B, U], actions u2 [N], counts u2 [B],
//                                                             packed u1 [B, P]
//   answer    'SLA1'  B u4 | N u4 | version u4                 values f2 [B], logits f2 [N]
//
// B positions, N legal actions of all of them end to end, P packed bytes and U uniform planes a position;
// little-endian. Counts of legal actions travel instead of offsets: they cannot fall, overlap or begin elsewhere.
// Logits and values travel as half floats, to which the search rounds every evaluation anyway, so a remote answer is a
// local one bit for bit.
//
// A request is not trusted, and in shared memory it can change while it is read.  So the header is read once, columns
// are copied first, and the copies are checked.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "search/simd.h"

namespace shusaku {

static_assert(std::endian::native == std::endian::little, "columns travel as they lie in memory");

// Of the game that a server evaluates, and all that a request is checked against.
struct RequestRules {
  std::uint32_t crc = 0;  // of name and parameters of the game
  int packed_bytes = 0, uniforms = 0, max_legal = 0, num_actions = 0;
  size_t max_bytes = 0;  // of a request
};

struct RequestHeader {
  char mark[4];
  std::uint32_t crc, rows, actions;
};

struct AnswerHeader {
  char mark[4];
  std::uint32_t rows, actions, version;
};

constexpr char kRequestMark[] = "SLQ1", kAnswerMark[] = "SLA1";

inline size_t request_bytes(const RequestRules& rules, size_t rows, size_t actions) {
  return sizeof(RequestHeader) + rows * (size_t(rules.packed_bytes) + 4 * size_t(rules.uniforms) + 2) + 2 * actions;
}

inline size_t answer_bytes(size_t rows, size_t actions) { return sizeof(AnswerHeader) + 2 * (rows + actions); }

// The arrays that a batch is laid into; `places`, row x num_actions + action, is optional.
struct LeafColumns {
  std::uint8_t* packed = nullptr;   // [rows, P]
  float* uniform = nullptr;         // [rows, U]
  std::int32_t* offsets = nullptr;  // [rows + 1]; offsets[0] is 0
  std::uint16_t* actions = nullptr;
  std::int32_t* places = nullptr;
};

// A request whose header was checked.
struct RequestView {
  const std::byte* body = nullptr;  // behind the header
  int rows = 0, actions = 0;
};

// Checks the header of a request of so many bytes; an empty text, or why it is none.
inline std::string read_request(const RequestRules& rules, std::span<const std::byte> data, RequestView& view) {
  const auto number = [](auto n) { return std::to_string(n); };
  if (data.size() < sizeof(RequestHeader) || data.size() > rules.max_bytes)
    return number(data.size()) + " bytes; " + number(sizeof(RequestHeader)) + " to " + number(rules.max_bytes) +
           " are read";
  RequestHeader h;
  std::memcpy(&h, data.data(), sizeof h);
  if (std::memcmp(h.mark, kRequestMark, sizeof h.mark) != 0)
    return std::string("begins with other bytes than '") + kRequestMark + "'";
  if (h.crc != rules.crc) return "positions of another game, or of the same with other parameters";
  // Bounded by the size first, so that no product overflows; and by the rules, for the columns of a batch hold no more.
  if (h.rows < 1 || h.rows > data.size() || h.actions > data.size() ||
      request_bytes(rules, h.rows, h.actions) != data.size())
    return number(data.size()) + " bytes; " + number(h.rows) + " positions with " + number(h.actions) +
           " actions are " + number(request_bytes(rules, h.rows, h.actions)) + ", and there must be one";
  if (h.actions > size_t(h.rows) * size_t(rules.max_legal))
    return number(h.actions) + " legal actions of " + number(h.rows) + " positions; the game allows 1 to " +
           number(rules.max_legal) + " each";
  view = {data.data() + sizeof h, int(h.rows), int(h.actions)};
  return {};
}

// Copies a request into the columns from `row` and offsets[row] on, and checks the copy; an empty text, or why it is
// refused: then nothing from `row` on counts.  `counts` is scratch memory.
inline std::string copy_request(const RequestRules& rules, const RequestView& view, const LeafColumns& to, int row,
                                std::vector<std::uint16_t>& counts) {
  const size_t rows = size_t(view.rows), n = size_t(view.actions), uniforms = rows * size_t(rules.uniforms);
  const std::byte* at = view.body;
  float* uniform = to.uniform + size_t(row) * size_t(rules.uniforms);
  std::memcpy(uniform, at, 4 * uniforms);
  at += 4 * uniforms;
  const std::int32_t first = to.offsets[row];
  std::uint16_t* actions = to.actions + first;
  std::memcpy(actions, at, 2 * n);
  at += 2 * n;
  counts.resize(rows);
  std::memcpy(counts.data(), at, 2 * rows);
  at += 2 * rows;
  std::memcpy(to.packed + size_t(row) * size_t(rules.packed_bytes), at, rows * size_t(rules.packed_bytes));

  size_t total = 0;
  for (size_t i = 0; i < rows; ++i) {
    const int count = counts[i];
    if (count < 1 || count > rules.max_legal)
      return "a position has " + std::to_string(count) + " legal actions; the game allows 1 to " +
             std::to_string(rules.max_legal);
    total += size_t(count);
    if (total > n) break;
    to.offsets[size_t(row) + i + 1] = first + std::int32_t(total);
  }
  if (total != n)
    return "the positions have " + std::to_string(total) + " legal actions up to there; the header says " +
           std::to_string(n);
  std::uint16_t largest = 0;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, actions[i]);
  if (largest >= rules.num_actions)
    return "action " + std::to_string(largest) + "; the game has " + std::to_string(rules.num_actions);
  bool is_finite = true;
  for (size_t i = 0; i < uniforms; ++i) is_finite &= std::isfinite(uniform[i]);
  if (!is_finite) return "a uniform plane is not a finite number";
  if (to.places) {
    std::int32_t* places = to.places + first;
    for (size_t i = 0, k = 0; i < rows; ++i) {
      const std::int32_t base = (std::int32_t(row) + std::int32_t(i)) * rules.num_actions;
      for (const size_t end = k + counts[i]; k < end; ++k) places[k] = base + actions[k];
    }
  }
  return {};
}

// Rounded to the nearest half float, as the search does; what is too large becomes infinite.  Returns whether all of
// them are finite.
inline bool to_halves(const float* from, size_t count, std::byte* to) {
  constexpr size_t kBlock = 32 * kLanes;  // looked through at once, which compilers do in vectors
  std::uint16_t halves[kBlock];
  bool is_finite = true;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t length = std::min(kBlock, count - begin);
    size_t i = 0;
    for (; i + kLanes <= length; i += kLanes) F8::load(from + begin + i).store_half(halves + i);
    for (; i < length; ++i) halves[i] = to_half(from[begin + i]);
    std::uint16_t bad = 0;
    for (size_t k = 0; k < length; ++k) bad |= std::uint16_t((halves[k] & 0x7C00) == 0x7C00);
    is_finite &= bad == 0;
    std::memcpy(to + 2 * begin, halves, 2 * length);
  }
  return is_finite;
}

inline bool is_finite_half(float x) { return (to_half(x) & 0x7C00) != 0x7C00; }

// Writes an answer of answer_bytes(rows, actions); whether all its numbers are finite.
inline bool write_answer(std::byte* to, const float* logits, const float* values, int rows, int actions,
                         std::uint32_t version) {
  AnswerHeader h{{}, std::uint32_t(rows), std::uint32_t(actions), version};
  std::memcpy(h.mark, kAnswerMark, sizeof h.mark);
  std::memcpy(to, &h, sizeof h);
  const bool values_are_finite = to_halves(values, size_t(rows), to + sizeof h);
  return to_halves(logits, size_t(actions), to + sizeof h + 2 * size_t(rows)) && values_are_finite;
}

}  // namespace shusaku
