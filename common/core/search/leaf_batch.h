// Leaves of many searches packed for the network, and their evaluations handed back: the seam of the search.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "search/evaluation_cache.h"
#include "search/search.h"
#include "search/symmetric_positions.h"

namespace shusaku {

struct Counters {
  std::uint64_t simulations = 0, searches = 0, evaluations = 0, cache_hits = 0, terminals = 0;
  std::uint64_t games = 0, plies = 0, rows = 0, non_finite = 0;  // rows: with weight, of games not yet ended, too
};

// Views of the packed leaves; they hold until the next select().  A leaf is one row, or a row for every symmetry where
// the search averages over them.
struct Leaves {
  int count = 0;                      // of rows
  std::vector<std::uint8_t> packed;   // [B, packed_bytes]
  std::vector<float> uniform;         // [B, U]
  std::vector<std::int32_t> offsets;  // [B + 1]
  std::vector<Action> actions;        // [offsets[B]]
};

template <GameRules G, class P>
class LeafBatch {
 public:
  // Of up to `size` leaves.
  LeafBatch(const G& rules, const SearchOptions& options, int size, std::uint64_t seed)
      : rules_(&rules),
        symmetries_(options.symmetries ? rules.num_symmetries() : 1),
        views_(options.average_symmetries ? rules.num_symmetries() : 1),
        joins_symmetric_(options.symmetric_cache && rules.num_symmetries() > 1),
        seed_(combine(seed, 0xCA11)),
        cache_(P::kUsesNetwork ? std::uint64_t(options.cache) : 0, rules.max_legal_actions()),
        symmetric_(rules, options.symmetries),
        half_(size_t(padded(rules.max_legal_actions()))),
        ordered_(half_.size()),
        view_(half_.size()),
        mean_(half_.size()) {
    const Shape shape = rules.shape();
    const size_t rows = size_t(size) * size_t(views_);
    leaves.packed.resize(rows * size_t(shape.packed_bytes()));
    leaves.uniform.resize(rows * size_t(shape.uniform));
    leaves.offsets.resize(rows + 1);
    leaves.actions.resize(rows * size_t(rules.max_legal_actions()) +
                          kLanes);  // rows are written eight actions at a time
    slots_.resize(size_t(size));
    keys_.resize(size_t(size));
    walked_.resize(size_t(size));
    if constexpr (kSharesPlace<G>) {
      drafts_.packed.resize(size_t(size) * size_t(shape.packed_bytes()));
      drafts_.uniform.resize(size_t(size) * size_t(shape.uniform));
      drafts_.actions.resize(size_t(size) * size_t(padded(rules.max_legal_actions())));
    }
  }

  Leaves leaves;
  Counters counters;

  void clear(std::uint32_t version) {
    leaves.count = num_leaves_ = 0;
    version_ = version;
  }

  int num_leaves() const { return num_leaves_; }

  // Whether searches may walk one after the other before any of their leaves is looked up.
  bool may_walk_ahead() const { return !(kSharesPlace<G> && joins_symmetric_); }

  // Runs `search` until it waits for the network (for leaf `num_leaves() - 1`), is done or has used its simulations.
  // Leaves that the cache knows are expanded at once.
  Step run(Search<G, P>& search, int slot, int& simulations_left) {
    Step step;
    do step = walk_to_leaf(search, slot, simulations_left);
    while (step == Step::kLeaf && expand_if_known(search, slot, false));
    return step;
  }

  // run() in two halves, so that others may walk while memory brings what the cache knows of this leaf.  First until
  // the search stands at a leaf, ...
  Step walk(Search<G, P>& search, int slot, int& simulations_left) {
    const Step step = walk_to_leaf(search, slot, simulations_left);
    if (kSharesPlace<G> && step == Step::kLeaf) draft_row(search, slot);  // others will stand there
    return step;
  }

  // ... then, true: the cache knew the leaf, and the search may walk on; false: it is leaf `num_leaves() - 1` now.
  bool expand_known(Search<G, P>& search, int slot) { return expand_if_known(search, slot, kSharesPlace<G>); }

  // Calls expand(leaf, slot, logits, value) for every leaf, logits in half floats; those with a number that is not
  // finite go to reject(leaf, slot).  prefetch(slot, k) is told, k = 3, 2, 1 leaves ahead, whose turn comes.
  template <class Expand, class Reject, class Prefetch>
  void take(const float* logits, const float* values, std::uint32_t version, Expand expand, Reject reject,
            Prefetch prefetch) {
    for (int leaf = 0; leaf < num_leaves_; ++leaf) {
      for (int k = 3; k > 0; --k)
        if (leaf + k < num_leaves_) prefetch(slots_[size_t(leaf + k)], k);
      if (leaf + 3 < num_leaves_) cache_.prefetch(keys_[size_t(leaf + 3)]);
      const int row = leaf * views_;
      const std::int32_t first = leaves.offsets[size_t(row)];
      const int count = leaves.offsets[size_t(row) + 1] - first;
      const float* said = logits + first;
      float worth = values[row];
      if (views_ > 1) said = average_views(row, count, logits, values, worth);
      const std::uint16_t value = to_half(worth);
      bool is_finite = std::isfinite(from_half(value));
      for (int i = 0; i < count; i += kLanes) {
        F8::load_first(said + i, count - i).store_half(&half_[size_t(i)]);
        is_finite = is_finite && all_finite(F8::load_half(&half_[size_t(i)]));
      }
      if (!is_finite) {
        ++counters.non_finite;
        reject(leaf, slots_[size_t(leaf)]);
        continue;
      }
      ++counters.evaluations;
      if (cache_.is_on()) cache_.store(keys_[size_t(leaf)], version, value, as_remembered(first, count), count);
      expand(leaf, slots_[size_t(leaf)], half_.data(), from_half(value));
    }
    leaves.count = num_leaves_ = 0;
  }

 private:
  Step walk_to_leaf(Search<G, P>& search, int slot, int& simulations_left) {
    const Step step = search.run(simulations_left, counters.terminals);
    if (step == Step::kLeaf && !joins_symmetric_) cache_.prefetch(walked_[size_t(slot)] = key_of(search));
    return step;
  }

  bool expand_if_known(Search<G, P>& search, int slot, bool is_drafted) {
    const std::uint64_t key =
        joins_symmetric_ ? key_of(search) : walked_[size_t(slot)];  // symmetric_ are of this leaf only now
    std::uint16_t value = 0;
    const std::uint16_t* known = cache_.is_on() ? cache_.find(key, version_, value) : nullptr;
    if (!known) {
      if (is_drafted)
        take_draft(search, slot, key);
      else
        add_leaf(search, slot, key);
      return false;
    }
    ++counters.cache_hits;
    const int count = search.num_leaf_actions();
    if (joins_symmetric_) known = in_order_of_leaf(known, count);
    std::copy_n(known, count, half_.data());
    std::fill(half_.begin() + count, half_.begin() + padded(count), std::uint16_t(0));
    search.expand(half_.data(), from_half(value));
    return true;
  }

  std::uint64_t key_of(const Search<G, P>& search) {
    const Action* actions = search.leaf_actions();
    const int count = search.num_leaf_actions();
    if (!joins_symmetric_) return evaluation_key(*rules_, search.leaf(), actions, count);
    symmetric_.choose_view(search.leaf(), actions, count, combine(version_, seed_));
    return symmetric_.key();
  }

  // The logits of a row as the cache keeps them: of a view that mirror images share, in the order of its actions.
  [[gnu::noinline]] const std::uint16_t* as_remembered(std::int32_t first, int count) {
    if (!joins_symmetric_) return half_.data();
    const auto& ascending = symmetric_.ascending(&leaves.actions[size_t(first)], count);
    for (size_t k = 0; k < size_t(count); ++k) ordered_[k] = half_[ascending[k]];
    return ordered_.data();
  }

  // The way back, to the legal actions of the leaf that symmetric_ looked at.
  [[gnu::noinline]] const std::uint16_t* in_order_of_leaf(const std::uint16_t* known, int count) {
    const auto& ascending = symmetric_.ascending(symmetric_.actions(), count);
    for (size_t k = 0; k < size_t(count); ++k) ordered_[ascending[k]] = known[k];
    return ordered_.data();
  }

  // A function of position, version and seed, so that a cached answer is the one a fresh one would be.
  int sample_symmetry(std::uint64_t key) const {
    const std::uint64_t random = combine(combine(key, version_), seed_);
    return symmetries_ > 1 ? int((unsigned __int128)random * unsigned(symmetries_) >> 64) : 0;
  }

  void add_leaf(const Search<G, P>& search, int slot, std::uint64_t key) {
    slots_[size_t(num_leaves_)] = slot;
    keys_[size_t(num_leaves_++)] = key;
    const int symmetry = joins_symmetric_ ? symmetric_.symmetry() : sample_symmetry(key);
    add_row(search, symmetry);
    for (int view = 0; view < views_; ++view)
      if (views_ > 1 && view != symmetry) add_row(search, view);
  }

  void add_row(const Search<G, P>& search, int symmetry) {
    const Shape shape = rules_->shape();
    const size_t row = size_t(leaves.count++);
    rules_->observe(search.leaf(), symmetry, &leaves.packed[row * size_t(shape.packed_bytes())],
                    leaves.uniform.data() + row * size_t(shape.uniform));
    permute(search, symmetry, begin_actions(row, search.num_leaf_actions()));
  }

  // Where the actions of a new row go.
  Action* begin_actions(size_t row, int count) {
    if (row == 0) leaves.offsets[0] = 0;
    const std::int32_t first = leaves.offsets[row];
    leaves.offsets[row + 1] = first + count;
    return &leaves.actions[size_t(first)];
  }

  void permute(const Search<G, P>& search, int symmetry, Action* out) const {
    const Action* actions = search.leaf_actions();
    for (int i = 0, count = search.num_leaf_actions(); i < count;
         i += kLanes)  // what is too much is the next row's to write
      for (int k = i; k < i + kLanes; ++k) out[k] = rules_->permute(symmetry, actions[k]);
  }

  // The row that this leaf will be, if the cache does not know it.
  void draft_row(const Search<G, P>& search, int slot) {
    const Shape shape = rules_->shape();
    const int symmetry = sample_symmetry(walked_[size_t(slot)]);
    rules_->observe(search.leaf(), symmetry, &drafts_.packed[size_t(slot) * size_t(shape.packed_bytes())],
                    drafts_.uniform.data() + size_t(slot) * size_t(shape.uniform));
    permute(search, symmetry, &drafts_.actions[size_t(slot) * size_t(padded(rules_->max_legal_actions()))]);
  }

  void take_draft(const Search<G, P>& search, int slot, std::uint64_t key) {
    slots_[size_t(num_leaves_)] = slot;
    keys_[size_t(num_leaves_++)] = key;
    const Shape shape = rules_->shape();
    const size_t row = size_t(leaves.count++), bytes = size_t(shape.packed_bytes()), uniforms = size_t(shape.uniform);
    const int count = search.num_leaf_actions();
    std::copy_n(&drafts_.packed[size_t(slot) * bytes], bytes, &leaves.packed[row * bytes]);
    std::copy_n(drafts_.uniform.data() + size_t(slot) * uniforms, uniforms, leaves.uniform.data() + row * uniforms);
    std::copy_n(&drafts_.actions[size_t(slot) * size_t(padded(rules_->max_legal_actions()))], count,
                begin_actions(row, count));
  }

  // The mean of what the network says of a leaf through every symmetry: of the values, and of the policies as
  // probabilities (KataGo, cpp/neuralnet/nninputs.cpp, NNOutput of several); its logarithms, in the order of the leaf's
  // legal actions.  A number that is not finite makes the value one.
  [[gnu::noinline]] const float* average_views(int row, int count, const float* logits, const float* values,
                                               float& value) {
    std::fill(mean_.begin(), mean_.end(), 0.f);
    float sum = 0;
    for (int v = row; v < row + views_; ++v) {
      const float* said = logits + leaves.offsets[size_t(v)];
      sum += values[v];
      for (int i = 0; i < count; ++i)
        if (!std::isfinite(view_[size_t(i)] = said[i])) sum = std::numeric_limits<float>::quiet_NaN();
      Tree::softmax(view_.data(), count);
      for (int i = 0; i < count; ++i) mean_[size_t(i)] += view_[size_t(i)] / float(views_);
    }
    for (int i = 0; i < count; ++i) mean_[size_t(i)] = std::log(std::max(mean_[size_t(i)], 1e-30f));
    value = sum / float(views_);
    return mean_.data();
  }

  const G* rules_;
  int symmetries_;        // that one is drawn from
  int views_;             // rows of a leaf
  bool joins_symmetric_;  // a position and its mirror images share their evaluation
  std::uint64_t seed_;
  std::uint32_t version_ = 0;
  EvaluationCache cache_;
  SymmetricPositions<G> symmetric_;
  std::vector<std::uint16_t> half_, ordered_;  // scratch, as the next two
  std::vector<float> view_, mean_;
  int num_leaves_ = 0;
  std::vector<int> slots_;             // of each leaf
  std::vector<std::uint64_t> keys_;    // of each leaf
  std::vector<std::uint64_t> walked_;  // of the leaf that each slot stands at
  struct {
    std::vector<std::uint8_t> packed;  // [size, packed_bytes]
    std::vector<float> uniform;        // [size, U]
    std::vector<Action> actions;       // [size, padded A]
  } drafts_;                           // rows of the leaves that the slots stand at, where places are shared
};

// An evaluator without a network: logits and values in [-1, 1) from a hash of the planes.
inline void pseudo_random_evaluate(const std::uint8_t* packed, int bytes, const float* uniform, int uniforms,
                                   const std::int32_t* offsets, const Action* actions, int rows, float* logits,
                                   float* values) {
  const auto unit = [](std::uint32_t h) { return float(std::int32_t(h >> 8)) * 0x1p-23f - 1.f; };
  for (int row = 0; row < rows; ++row) {
    const std::uint8_t* at = packed + size_t(row) * size_t(bytes);
    std::uint64_t lanes[4] = {1, 2, 3, 4};  // side by side: one would wait for itself
    const auto add = [&](int i, std::uint64_t word) {
      std::uint64_t& lane = lanes[i / 8 & 3];
      lane = (lane ^ word) * 0x9E3779B97F4A7C15ull;
      lane ^= lane >> 32;
    };
    int i = 0;
    for (std::uint64_t word; i + 8 <= bytes; i += 8) std::memcpy(&word, at + i, 8), add(i, word);
    std::uint64_t tail = 0;
    if (i < bytes) {
      if (bytes >= 8)
        std::memcpy(&tail, at + bytes - 8, 8);  // overlaps what was read
      else
        for (int k = 0; k < bytes; ++k) tail = tail << 8 | at[k];
      add(i, tail);
    }
    std::uint64_t hash = combine(lanes[0] + std::rotl(lanes[1], 16), std::rotl(lanes[2], 32) + std::rotl(lanes[3], 48));
    for (int u = 0; u < uniforms; ++u) hash = combine(hash, std::bit_cast<std::uint32_t>(uniform[row * uniforms + u]));
    values[row] = unit(std::uint32_t(hash >> 32));
    const std::uint32_t key = std::uint32_t(hash);
    const auto logit = [&](Action action) {  // in 32 bits: compilers do eight at once
      std::uint32_t h = (key ^ (action + 1u) * 0x9E3779B9u) * 0x85EBCA6Bu;
      h = (h ^ h >> 15) * 0xC2B2AE35u;
      return unit(h);
    };
    std::int32_t k = offsets[row];
    for (; k < offsets[row + 1] && k + kLanes <= offsets[rows];
         k += kLanes)  // what is too much is the next row's to write
      for (int i = 0; i < kLanes; ++i) logits[k + i] = logit(actions[k + i]);
    for (; k < offsets[row + 1]; ++k) logits[k] = logit(actions[k]);
  }
}

}  // namespace shusaku
