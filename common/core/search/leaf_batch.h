// Leaves of many searches packed for the network, and their evaluations handed back: the search is cut here.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "search/evaluation_cache.h"
#include "search/search.h"
#include "search/symmetric_positions.h"

namespace shusaku {

struct Counters {
  std::uint64_t searches = 0, evaluations = 0, cache_hits = 0, terminals = 0;
  std::uint64_t games = 0, plies = 0, rows = 0, non_finite = 0;  // rows: with weight, of games not yet ended, too
  // Games: resigned; in which no player may resign, while there is a threshold; of these, with a player who saw less
  // than it and did not lose.
  std::uint64_t resigned = 0, played_on = 0, wrongly_resigned = 0;
  std::uint64_t discarded = 0;  // games for a value network that ended before the position to be learned from
  std::uint64_t simulations() const { return evaluations + cache_hits + terminals; }
};

// The packed leaves; they hold until the next select().  A leaf is one row, or a row for every symmetry if the search
// averages over them.
struct Leaves {
  int count = 0;                      // rows
  std::vector<std::uint8_t> packed;   // [B, packed_bytes]
  std::vector<float> uniform;         // [B, U]
  std::vector<std::int32_t> offsets;  // [B + 1]
  std::vector<Action> actions;        // [offsets[B]]
};

// One interface over the batches of all games and tree policies: virtual calls happen once a batch, never once a
// simulation.
class AnyBatch {
 public:
  virtual ~AnyBatch() = default;
  virtual int size() const = 0;
  virtual const Leaves& select(std::uint32_t version) = 0;
  virtual const Leaves& leaves() const = 0;
  virtual void expand_and_backup(const float* logits, const float* values, std::uint32_t version) = 0;
  virtual const Counters& counters() const = 0;
};

// Each search of the batch, an S, has an index; a leaf knows the index of its search.
template <GameRules G, class S>
class LeafBatch {
 public:
  // Holds up to `size` leaves.  `cache` may serve several batches, one at a time; none: the batch has its own.
  LeafBatch(const G& rules, const SearchOptions& options, int size, std::uint64_t seed,
            std::shared_ptr<EvaluationCache> cache = nullptr)
      : rules_(&rules),
        symmetries_(options.symmetries ? rules.num_symmetries() : 1),
        rows_per_leaf_(options.average_symmetries ? rules.num_symmetries() : 1),
        joins_symmetric_(options.symmetric_cache && rules.num_symmetries() > 1),
        seed_(combine(seed, 0xCA11)),
        cache_(cache ? std::move(cache) : make_cache(rules, options)),
        symmetric_positions_(rules, options.symmetries),
        half_(size_t(padded(rules.max_legal_actions()))),
        ordered_(half_.size()),
        probabilities_(half_.size()),
        mean_(half_.size()) {
    const Shape shape = rules.shape();
    const size_t rows = size_t(size) * size_t(rows_per_leaf_);
    leaves.packed.resize(rows * size_t(shape.packed_bytes()));
    leaves.uniform.resize(rows * size_t(shape.uniform));
    leaves.offsets.resize(rows + 1);
    leaves.actions.resize(rows * size_t(rules.max_legal_actions()) + kLanes);  // eight actions are written at a time
    leaf_search_.resize(size_t(size));
    leaf_key_.resize(size_t(size));
    leaf_symmetry_.resize(size_t(size));
    selected_key_.resize(size_t(size));
    if constexpr (kSharesPlace<G>) {
      drafts_.packed.resize(size_t(size) * size_t(shape.packed_bytes()));
      drafts_.uniform.resize(size_t(size) * size_t(shape.uniform));
      drafts_.actions.resize(size_t(size) * size_t(padded(rules.max_legal_actions())));
    }
  }

  static std::shared_ptr<EvaluationCache> make_cache(const G& rules, const SearchOptions& options) {
    return std::make_shared<EvaluationCache>(S::kUsesNetwork ? std::uint64_t(options.cache) : 0,
                                             rules.max_legal_actions());
  }

  Leaves leaves;
  Counters counters;

  void clear(std::uint32_t version) {
    leaves.count = num_leaves_ = 0;
    version_ = version;
  }

  int num_leaves() const { return num_leaves_; }
  int search_of(int leaf) const { return leaf_search_[size_t(leaf)]; }

  // The first row of this leaf, and the symmetry through which it is seen.
  int first_row(int leaf) const { return leaf * rows_per_leaf_; }
  int symmetry(int leaf) const { return leaf_symmetry_[size_t(leaf)]; }

  // Whether searches may select one after the other before any of their leaves is looked up in the cache.
  bool may_select_ahead() const { return !(kSharesPlace<G> && joins_symmetric_); }

  // Runs `search` until it waits for the network (for leaf `num_leaves() - 1`), is done or has used its simulations.
  // A leaf that the cache knows is expanded at once.
  Step run(S& search, int index, int& simulations_left) {
    Step step;
    do step = select_leaf(search, index, simulations_left);
    while (step == Step::kLeaf && expand_if_known(search, index, false));
    return step;
  }

  // The first half of run(): selects a leaf.  Other searches may select theirs while memory brings the cache's entry.
  Step select_ahead(S& search, int index, int& simulations_left) {
    const Step step = select_leaf(search, index, simulations_left);
    if (kSharesPlace<G> && step == Step::kLeaf) write_draft(search, index);  // the next search overwrites the place
    return step;
  }

  // The second half.  True: the cache knew the leaf, and the search may go on; false: it is leaf `num_leaves() - 1`
  // now.
  bool expand_known(S& search, int index) { return expand_if_known(search, index, kSharesPlace<G>); }

  // Adds the leaf that `search` is at, which no cache is asked about.
  void add(const S& search, int index) {
    leaf_search_[size_t(num_leaves_)] = index;
    leaf_key_[size_t(num_leaves_++)] = 0;
    add_rows(search, 0);
  }

  // Calls expand(leaf, index, logits, value) for every leaf, logits in half floats, or reject(leaf, index) if a number
  // is not finite.  Before that, prefetch(index, k) is called k = 3, 2, 1 leaves ahead.
  template <class Expand, class Reject, class Prefetch>
  void distribute(const float* logits, const float* values, std::uint32_t version, Expand expand, Reject reject,
                  Prefetch prefetch) {
    for (int leaf = 0; leaf < num_leaves_; ++leaf) {
      for (int k = 3; k > 0; --k)
        if (leaf + k < num_leaves_) prefetch(leaf_search_[size_t(leaf + k)], k);
      if (leaf + 3 < num_leaves_) cache_->prefetch(leaf_key_[size_t(leaf + 3)]);
      const int row = leaf * rows_per_leaf_;
      const std::int32_t first = leaves.offsets[size_t(row)];
      const int count = leaves.offsets[size_t(row) + 1] - first;
      const float* leaf_logits = logits + first;
      float leaf_value = values[row];
      if (rows_per_leaf_ > 1) leaf_logits = average_rows(row, count, logits, values, leaf_value);
      const std::uint16_t value = to_half(leaf_value);
      bool is_finite = std::isfinite(from_half(value));
      for (int i = 0; i < count; i += kLanes) {
        F8::load_first(leaf_logits + i, count - i).store_half(&half_[size_t(i)]);
        is_finite = is_finite && all_finite(F8::load_half(&half_[size_t(i)]));
      }
      if (!is_finite) {
        ++counters.non_finite;
        reject(leaf, leaf_search_[size_t(leaf)]);
        continue;
      }
      ++counters.evaluations;
      if (cache_->is_on()) cache_->store(leaf_key_[size_t(leaf)], version, value, to_cache_order(first, count), count);
      expand(leaf, leaf_search_[size_t(leaf)], half_.data(), from_half(value));
    }
    leaves.count = num_leaves_ = 0;
  }

 private:
  Step select_leaf(S& search, int index, int& simulations_left) {
    const Step step = search.run(simulations_left, counters.terminals);
    if (step == Step::kLeaf && !joins_symmetric_) cache_->prefetch(selected_key_[size_t(index)] = key_of(search));
    return step;
  }

  bool expand_if_known(S& search, int index, bool has_draft) {
    // symmetric_positions_ holds one leaf at a time, so its key is made now.
    const std::uint64_t key = joins_symmetric_ ? key_of(search) : selected_key_[size_t(index)];
    std::uint16_t value = 0;
    const std::uint16_t* known = cache_->is_on() ? cache_->find(key, version_, value) : nullptr;
    if (!known) {
      leaf_search_[size_t(num_leaves_)] = index;
      leaf_key_[size_t(num_leaves_++)] = key;
      if (has_draft)
        add_draft(index, search.num_leaf_actions());
      else
        add_rows(search, key);
      return false;
    }
    ++counters.cache_hits;
    const int count = search.num_leaf_actions();
    if (joins_symmetric_) known = to_leaf_order(known, count);
    std::copy_n(known, count, half_.data());
    std::fill(half_.begin() + count, half_.begin() + padded(count), std::uint16_t(0));
    search.expand(half_.data(), from_half(value));
    return true;
  }

  std::uint64_t key_of(const S& search) {
    const Action* actions = search.leaf_actions();
    const int count = search.num_leaf_actions();
    if (!joins_symmetric_) return evaluation_key(*rules_, search.leaf(), actions, count);
    symmetric_positions_.choose_view(search.leaf(), actions, count, combine(version_, seed_));
    return symmetric_positions_.key();
  }

  // The logits of a row as the cache keeps them: symmetric positions share them, in the order of the view's actions.
  [[gnu::noinline]] const std::uint16_t* to_cache_order(std::int32_t first, int count) {
    if (!joins_symmetric_) return half_.data();
    const auto& ascending = symmetric_positions_.ascending(&leaves.actions[size_t(first)], count);
    for (size_t k = 0; k < size_t(count); ++k) ordered_[k] = half_[ascending[k]];
    return ordered_.data();
  }

  // The way back, to the legal actions of the leaf whose view was chosen last.
  [[gnu::noinline]] const std::uint16_t* to_leaf_order(const std::uint16_t* known, int count) {
    const auto& ascending = symmetric_positions_.ascending(symmetric_positions_.actions(), count);
    for (size_t k = 0; k < size_t(count); ++k) ordered_[ascending[k]] = known[k];
    return ordered_.data();
  }

  // A function of position, version and seed, so that a cached evaluation equals a fresh one.
  int sample_symmetry(std::uint64_t key) const {
    const std::uint64_t random = combine(combine(key, version_), seed_);
    return symmetries_ > 1 ? int((unsigned __int128)random * unsigned(symmetries_) >> 64) : 0;
  }

  void add_rows(const S& search, std::uint64_t key) {
    const int symmetry = joins_symmetric_ ? symmetric_positions_.symmetry() : sample_symmetry(key);
    leaf_symmetry_[size_t(num_leaves_ - 1)] = symmetry;
    add_row(search, symmetry);
    for (int s = 0; s < rows_per_leaf_; ++s)
      if (rows_per_leaf_ > 1 && s != symmetry) add_row(search, s);
  }

  void add_row(const S& search, int symmetry) {
    const size_t row = size_t(leaves.count++);
    write_row(search, symmetry, row, leaves, add_actions(row, search.num_leaf_actions()));
  }

  // Returns the place of the actions of a new row.
  Action* add_actions(size_t row, int count) {
    if (row == 0) leaves.offsets[0] = 0;
    const std::int32_t first = leaves.offsets[row];
    leaves.offsets[row + 1] = first + count;
    return &leaves.actions[size_t(first)];
  }

  template <class Rows>
  void write_row(const S& search, int symmetry, size_t row, Rows& rows, Action* out) const {
    const Shape shape = rules_->shape();
    rules_->observe(search.leaf(), symmetry, &rows.packed[row * size_t(shape.packed_bytes())],
                    rows.uniform.data() + row * size_t(shape.uniform));
    const Action* actions = search.leaf_actions();
    for (int i = 0, count = search.num_leaf_actions(); i < count; i += kLanes)  // the next row overwrites the excess
      for (int k = i; k < i + kLanes; ++k) out[k] = rules_->permute(symmetry, actions[k]);
  }

  // The row of this leaf, in case the cache does not know it.
  void write_draft(const S& search, int index) {
    write_row(search, sample_symmetry(selected_key_[size_t(index)]), size_t(index), drafts_, draft_actions(index));
  }

  void add_draft(int index, int count) {
    const Shape shape = rules_->shape();
    const size_t row = size_t(leaves.count++), bytes = size_t(shape.packed_bytes()), uniforms = size_t(shape.uniform);
    std::copy_n(&drafts_.packed[size_t(index) * bytes], bytes, &leaves.packed[row * bytes]);
    std::copy_n(drafts_.uniform.data() + size_t(index) * uniforms, uniforms, leaves.uniform.data() + row * uniforms);
    std::copy_n(draft_actions(index), count, add_actions(row, count));
  }

  Action* draft_actions(int index) {
    return &drafts_.actions[size_t(index) * size_t(padded(rules_->max_legal_actions()))];
  }

  // The mean over the rows of a leaf, one for every symmetry: of the values, and of the policies as probabilities
  // (KataGo, cpp/neuralnet/nninputs.cpp, NNOutput of several).  Returns the logarithms of the mean probabilities, in
  // the order of the leaf's legal actions.  A number that is not finite makes `value` one.
  [[gnu::noinline]] const float* average_rows(int first, int count, const float* logits, const float* values,
                                              float& value) {
    std::fill(mean_.begin(), mean_.end(), 0.f);
    float sum = 0;
    for (int row = first; row < first + rows_per_leaf_; ++row) {
      const float* row_logits = logits + leaves.offsets[size_t(row)];
      sum += values[row];
      for (int i = 0; i < count; ++i) {
        probabilities_[size_t(i)] = row_logits[i];
        if (!std::isfinite(row_logits[i])) sum = std::numeric_limits<float>::quiet_NaN();
      }
      Tree::softmax(probabilities_.data(), count);
      for (int i = 0; i < count; ++i) mean_[size_t(i)] += probabilities_[size_t(i)] / float(rows_per_leaf_);
    }
    for (int i = 0; i < count; ++i) mean_[size_t(i)] = std::log(std::max(mean_[size_t(i)], 1e-30f));
    value = sum / float(rows_per_leaf_);
    return mean_.data();
  }

  const G* rules_;
  int symmetries_;  // one of them is sampled for a row
  int rows_per_leaf_;
  bool joins_symmetric_;  // symmetric positions share their evaluation
  std::uint64_t seed_;
  std::uint32_t version_ = 0;
  std::shared_ptr<EvaluationCache> cache_;
  SymmetricPositions<G> symmetric_positions_;
  std::vector<std::uint16_t> half_, ordered_;  // scratch
  std::vector<float> probabilities_, mean_;    // scratch
  int num_leaves_ = 0;
  std::vector<int> leaf_search_;             // [leaves] the index of the leaf's search
  std::vector<std::uint64_t> leaf_key_;      // [leaves]
  std::vector<int> leaf_symmetry_;           // [leaves] if it was written at once
  std::vector<std::uint64_t> selected_key_;  // [searches] of the leaf that the search has selected
  struct {
    std::vector<std::uint8_t> packed;  // [searches, packed_bytes]
    std::vector<float> uniform;        // [searches, U]
    std::vector<Action> actions;       // [searches, padded A]
  } drafts_;                           // the rows of the selected leaves, if the searches share one place
};

// An evaluator without a network: logits and values in [-1, 1) from a hash of the planes.
inline void pseudo_random_evaluate(const std::uint8_t* packed, int bytes, const float* uniform, int uniforms,
                                   const std::int32_t* offsets, const Action* actions, int rows, float* logits,
                                   float* values) {
  const auto unit = [](std::uint32_t h) { return float(std::int32_t(h >> 8)) * 0x1p-23f - 1.f; };
  for (int row = 0; row < rows; ++row) {
    const std::uint8_t* at = packed + size_t(row) * size_t(bytes);
    std::uint64_t lanes[4] = {1, 2, 3, 4};  // four independent chains of multiplications
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
    for (; k < offsets[row + 1] && k + kLanes <= offsets[rows]; k += kLanes)  // the next row overwrites the excess
      for (int i = 0; i < kLanes; ++i) logits[k + i] = logit(actions[k + i]);
    for (; k < offsets[row + 1]; ++k) logits[k] = logit(actions[k]);
  }
}

}  // namespace shusaku
