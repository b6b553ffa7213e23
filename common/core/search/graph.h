// A search graph in place of a tree: positions with the same future are one node, whichever moves led there.
//
// A node's edges count their own visits, and its value is summed up from its children each time a path has passed
// through: Q(n) = (U(n) + sum over a of N(n, a) Q(n, a)) / (1 + sum over a of N(n, a)), U the evaluation of n
// itself (KataGo, docs/GraphSearch.md).  So a child that paths through another parent have visited brings its better
// value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "search/tree.h"

namespace shusaku {

// Nodes by the keys of their positions: open addressing, at most half full.
class NodeIndex {
 public:
  void clear() {
    keys_.clear();
    std::fill(table_.begin(), table_.end(), kNoNode);
  }

  // The node of `key`; if there was none, `next`, the next node to be made.
  std::uint32_t find_or_add(std::uint64_t key, std::uint32_t next) {
    if (2 * (keys_.size() + 1) > table_.size()) {
      table_.assign(std::max(size_t(64), 2 * table_.size()), kNoNode);
      for (std::uint32_t n = 0; n < keys_.size(); ++n) table_[slot_of(keys_[n])] = n;
    }
    const size_t slot = slot_of(key);
    if (table_[slot] != kNoNode) return table_[slot] + 1;
    assert(next == keys_.size() + 1);
    table_[slot] = std::uint32_t(keys_.size());
    keys_.push_back(key);
    return next;
  }

  template <class Archive>
  void archive(Archive& a) {
    std::vector<std::uint64_t> keys = keys_;
    a.vector(keys);
    clear();
    for (std::uint64_t key : keys) find_or_add(key, std::uint32_t(keys_.size() + 1));
  }

 private:
  // Where `key` lies, or would lie.
  size_t slot_of(std::uint64_t key) const {
    size_t at = size_t(mix64(key)) & (table_.size() - 1);
    while (table_[at] != kNoNode && keys_[table_[at]] != key) at = (at + 1) & (table_.size() - 1);
    return at;
  }

  std::vector<std::uint64_t> keys_;   // of node k + 1; the root has none, for nothing leads back to it
  std::vector<std::uint32_t> table_;  // into keys_; a power of two
};

// Sums up the values of `node` and its edges, and if `proves`, finds whether its children prove it: a won child does,
// else the best one once all are proven.  The second moments are summed up too, for lower confidence bounds.
inline void sum_up(Tree& tree, Node& node, bool proves) {
  float sum = node.raw_value, squares = node.raw_value * node.raw_value;
  int best = -1, num_proven = 0;
  for (std::uint32_t e = node.first_edge(); e < node.first_edge() + node.num_edges; ++e) {
    if (tree.child(e) == kNoNode) continue;
    const Node& child = tree.nodes[tree.child(e)];
    const float visits = float(tree.visits(e));
    int result = 0;
    if (tree.is_proven(e, result)) {
      tree.settle(e, result);
      best = std::max(best, result), ++num_proven;
      sum += float(result) * visits, squares += float(result * result) * visits;
    } else if (visits > 0) {
      const float mean = tree.mean_value(child);
      tree.set_value_sum(e, (child.moves_again ? mean : -mean) * visits);
      sum += tree.value_sum(e), squares += child.square_sum / float(child.visits) * visits;
    }
  }
  if (proves && (best == 1 || num_proven == node.num_edges)) {
    node.proof = std::uint8_t(best + 2);
    node.is_terminal_or_proven = true;
    sum = float(best * node.visits), squares = float(best * best * node.visits);
  }
  node.value_sum = sum;
  node.square_sum = squares;
}

}  // namespace shusaku
