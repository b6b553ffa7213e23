// One search tree in flat arrays that are reused from search to search.
//
//   nodes   [ 0 root | 1 | 2 | ... ]                       a node is made at its first visit
//   blocks  [ blocks of node 0 | blocks of node 1 | ... ]  in order of expansion, eight edges a block:
//             prior x8 | action x8 | visits x8 || value_sum x8 | child x8       two cache lines, 16 bytes an edge
//
// The last block of a node may have lanes that stand for no edge: loops mask them with lanes_below().  Edge e is lane
// e % 8 of block e / 8.  Values in a node are for the player to move there; values of an edge for the player who moves
// along it.
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "games/game.h"
#include "search/simd.h"

namespace shusaku {

constexpr std::uint32_t kNoNode = 0xFFFFFFFFu;

// What the edges of a node carry.
enum class Stage : std::uint8_t {
  kNew = 0,        // actions at most: the node waits for its evaluation
  kReady = 1,      // what the tree policy selects by
  kEvaluated = 2,  // logits: most nodes are never selected from, so the work of the policy waits for the first time
};

struct Node {
  std::uint32_t first_block = 0;
  std::uint16_t num_edges = 0;
  Stage stage = Stage::kNew;
  bool is_terminal_or_proven = false;  // nothing below it is searched
  std::int32_t visits = 0;             // its own evaluation and all visits below it
  float value_sum = 0;                 // over `visits`
  float raw_value = 0;                 // the network's, or what the end of the game is worth
  float visited_prior = 0;             // sum of the priors of visited edges
  float square_sum = 0;                // of the values in value_sum, if moves are chosen by their lower bound
  std::uint8_t proof = 0;              // 0: none; else 2 + the result under best play
  bool moves_again = false;            // the player to move here has made the move that led here
  std::uint16_t waiting = 0;           // paths through it or to it that wait for the network, if several may
  bool is_expanded() const { return stage != Stage::kNew; }
  std::uint32_t first_edge() const { return first_block * kLanes; }
  int result() const { return proof - 2; }  // if there is a proof
  float exact_value() const { return proof ? float(result()) : raw_value; }
  int num_blocks() const { return (num_edges + kLanes - 1) / kLanes; }
};
static_assert(sizeof(Node) == 32);  // a node never straddles two cache lines

// A path that waits counts this much in the visits of its edges, above the real visits, and nothing in their values.
constexpr std::int32_t kWaitingVisit = 1 << 24;

// Prefetches the cache lines of so much memory; reads nothing.
inline void prefetch(const void* begin, size_t bytes) {
  const char* at = static_cast<const char*>(begin);
  for (size_t k = 0; k < bytes; k += 64) __builtin_prefetch(at + k);
}

inline void prefetch_until(const void* begin, const void* end) {
  prefetch(begin, size_t(static_cast<const char*>(end) - static_cast<const char*>(begin)));
}

struct alignas(64) EdgeBlock {
  std::uint16_t prior[kLanes];  // half floats: logits, or probabilities once the tree policy has made them
  Action action[kLanes];
  std::int32_t visits[kLanes];
  float value_sum[kLanes];
  std::uint32_t child[kLanes];
};
static_assert(sizeof(EdgeBlock) == 16 * kLanes);

// A proven loss for the player who moves along an edge is minus infinity in its value_sum, so it is not selected again.
constexpr float kProvenLoss = -kInfinity;
inline F8 are_lost(const EdgeBlock& block) { return less(F8::load(block.value_sum), F8(-1e30f)); }

constexpr int padded(int edges) { return (edges + kLanes - 1) / kLanes * kLanes; }

class Tree {
 public:
  std::vector<Node> nodes;

  void clear() {
    nodes.clear();
    num_blocks_ = 0;
    add_node();
  }

  [[gnu::always_inline]] std::uint32_t add_node() {
    nodes.emplace_back();
    return std::uint32_t(nodes.size() - 1);
  }

  const EdgeBlock* blocks(const Node& n) const { return &blocks_[n.first_block]; }
  EdgeBlock* blocks(const Node& n) { return &blocks_[n.first_block]; }

  std::uint16_t& prior(std::uint32_t edge) { return blocks_[edge / kLanes].prior[edge % kLanes]; }
  std::uint16_t prior(std::uint32_t edge) const { return blocks_[edge / kLanes].prior[edge % kLanes]; }
  Action action(std::uint32_t edge) const { return blocks_[edge / kLanes].action[edge % kLanes]; }
  std::int32_t visits(std::uint32_t edge) const {
    return blocks_[edge / kLanes].visits[edge % kLanes] & (kWaitingVisit - 1);
  }
  float value_sum(std::uint32_t edge) const { return blocks_[edge / kLanes].value_sum[edge % kLanes]; }
  bool is_lost(std::uint32_t edge) const { return value_sum(edge) == kProvenLoss; }
  float mean_value(std::uint32_t edge) const {
    return is_lost(edge) ? -1.f : value_sum(edge) / float(visits(edge));
  }  // visited
  std::uint32_t& child(std::uint32_t edge) { return blocks_[edge / kLanes].child[edge % kLanes]; }
  std::uint32_t child(std::uint32_t edge) const { return blocks_[edge / kLanes].child[edge % kLanes]; }

  void visit(std::uint32_t edge, float value) {
    EdgeBlock& block = blocks_[edge / kLanes];
    ++block.visits[edge % kLanes];
    block.value_sum[edge % kLanes] += value;
  }

  // `paths` more of them wait below `edge`, or fewer.
  void add_waiting(std::uint32_t edge, int paths) {
    blocks_[edge / kLanes].visits[edge % kLanes] += paths * kWaitingVisit;
  }

  void set_value_sum(std::uint32_t edge, float sum) { blocks_[edge / kLanes].value_sum[edge % kLanes] = sum; }

  // Whether the child along `edge` is proven; then `result` is its result for the player who moves along the edge.
  bool is_proven(std::uint32_t edge, int& result) const {
    const std::uint32_t at = blocks_[edge / kLanes].child[edge % kLanes];
    if (at == kNoNode || !nodes[at].proof) return false;
    result = nodes[at].moves_again ? nodes[at].result() : -nodes[at].result();
    return true;
  }

  // The value of `edge` is `result` for the player who moves along it, for all visits so far.
  void settle(std::uint32_t edge, int result) {
    blocks_[edge / kLanes].value_sum[edge % kLanes] = result < 0 ? kProvenLoss : float(result * visits(edge));
  }

  // Reserves blocks for `count` edges of `node`: unvisited, without priors, actions to be filled in by the caller.
  [[gnu::always_inline]] void add_edges(std::uint32_t node, int count) {
    const std::uint32_t first = num_blocks_;
    num_blocks_ += std::uint32_t((count + kLanes - 1) / kLanes);
    if (num_blocks_ > blocks_.size()) blocks_.resize(num_blocks_ + num_blocks_ / 2 + 64);
    nodes[node].first_block = first;
    nodes[node].num_edges = std::uint16_t(count);
    for (std::uint32_t b = first; b < num_blocks_; ++b) {
      std::memset(blocks_[b].visits, 0, sizeof blocks_[b].visits);
      std::memset(blocks_[b].value_sum, 0, sizeof blocks_[b].value_sum);
      std::memset(blocks_[b].child, 0xFF, sizeof blocks_[b].child);
    }
  }

  void prefetch_root() const {
    prefetch(nodes.data(), sizeof(Node));
    prefetch(blocks_.data(), sizeof(EdgeBlock));
  }
  void prefetch_edge(std::uint32_t edge) const { prefetch(&blocks_[edge / kLanes], sizeof(EdgeBlock)); }
  void prefetch_edges(const Node& n) const { prefetch(blocks(n), sizeof(EdgeBlock) * size_t(n.num_blocks())); }

  float mean_value(const Node& n) const { return n.visits ? n.value_sum / float(n.visits) : 0.f; }

  // `logits` in half floats, padded with anything finite to a multiple of eight.
  void set_logits(Node& node, const std::uint16_t* logits) {
    EdgeBlock* block = blocks(node);
    for (int i = 0; i < node.num_edges; i += kLanes, ++block)
      std::memcpy(block->prior, logits + i, sizeof block->prior);
    node.stage = Stage::kEvaluated;
  }

  // Logits become probabilities, their softmax.
  void make_priors(const Node& node) {
    const int count = node.num_edges;
    EdgeBlock* block = blocks(node);
    if (count <= kLanes) {  // the same numbers, in registers
      const F8 inside = lanes_below(0, count), x = F8::load_half(block->prior);
      const F8 top(horizontal_max(choose(inside, x, F8(-kInfinity))));
      const F8 p = choose(inside, exp_of_nonpositive(min(x - top, F8(0.f))), F8(0.f));
      (p * (F8(1.f) / F8(horizontal_sum(p)))).store_half(block->prior);
      return;
    }
    scratch_.resize(size_t(padded(count)));
    float* x = scratch_.data();
    for (int i = 0; i < count; i += kLanes) F8::load_half(block[i / kLanes].prior).store(x + i);
    const F8 inverse = exponentials(x, count);
    for (int i = 0; i < count; i += kLanes) (F8::load(x + i) * inverse).store_half(block[i / kLanes].prior);
  }

  // Makes `this` the subtree of `from` below the child of its root along `edge`.  False if that was never visited.
  bool keep_subtree(const Tree& from, std::uint32_t edge) {
    const std::uint32_t top = from.blocks_[edge / kLanes].child[edge % kLanes];
    if (top == kNoNode || !from.nodes[top].is_expanded()) return false;
    clear();
    nodes[0] = from.nodes[top];
    for (std::uint32_t n = 0; n < nodes.size(); ++n) {  // breadth first: `nodes` is its own queue
      if (nodes[n].num_edges == 0) continue;
      const std::uint32_t source = nodes[n].first_block;
      add_edges(n, nodes[n].num_edges);
      std::copy_n(&from.blocks_[source], nodes[n].num_blocks(), &blocks_[nodes[n].first_block]);
      for (std::uint32_t e = nodes[n].first_edge(); e < nodes[n].first_edge() + nodes[n].num_edges; ++e) {
        if (child(e) == kNoNode) continue;
        const Node& old = from.nodes[child(e)];
        child(e) = add_node();
        nodes.back() = old;
      }
    }
    return true;
  }

  template <class Archive>
  void archive(Archive& a) {
    a.vector(nodes);
    a.number(num_blocks_);
    if (num_blocks_ > blocks_.size()) blocks_.resize(num_blocks_);
    a.raw(blocks_.data(), num_blocks_);
  }

  // In place, over the first `count` of a list that is padded to a multiple of eight; the padding becomes 0.
  static void softmax(float* x, int count) {
    const F8 inverse = exponentials(x, count);
    for (int i = 0; i < count; i += kLanes) (F8::load(x + i) * inverse).store(x + i);
  }

 private:
  // Of x - max(x), in place; one over their sum.
  static F8 exponentials(float* x, int count) {
    F8 tops(-kInfinity);
    for (int i = 0; i < count; i += kLanes)
      tops = max(tops, choose(lanes_below(i, count), F8::load(x + i), F8(-kInfinity)));
    const F8 top(horizontal_max(tops));
    F8 sums(0.f);
    for (int i = 0; i < count; i += kLanes) {
      const F8 p = choose(lanes_below(i, count), exp_of_nonpositive(min(F8::load(x + i) - top, F8(0.f))), F8(0.f));
      p.store(x + i);
      sums = sums + p;
    }
    return F8(1.f) / F8(horizontal_sum(sums));
  }

  std::vector<EdgeBlock> blocks_;
  std::uint32_t num_blocks_ = 0;
  std::vector<float> scratch_;
};

}  // namespace shusaku
