// One search tree in flat arrays that are reused from search to search.
//
//   nodes   [ 0 root | 1 | 2 | ... ]            a node is made at its first visit
//   edges   [ edges of node 0 . . | edges of node 1 . . . | ... ]      one block a node, in order of expansion
//             prior  visits  value_sum  child  action                  16 bytes an edge, a column each
//
// A block is padded to a multiple of eight edges with edges that are never chosen, so that loops over it need no
// tail.  Values in a node are for the player to move there; values of an edge are for the player who moves along it.
#pragma once

#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "../games/game.h"
#include "simd.h"

namespace shusaku {

constexpr std::uint32_t kNoNode = 0xFFFFFFFFu;

struct Node {
  std::uint32_t first_edge = 0;
  std::uint16_t num_edges = 0;
  bool is_expanded = false;   // its edges carry priors
  bool is_terminal = false;
  std::int32_t visits = 0;    // its own evaluation and all visits below it
  float value_sum = 0;        // over `visits`
  float raw_value = 0;        // the network's, or the outcome where terminal
  float visited_prior = 0;    // sum of the priors of visited edges
};
static_assert(sizeof(Node) <= 48);

constexpr int padded(int edges) { return (edges + kLanes - 1) / kLanes * kLanes; }

class Tree {
 public:
  std::vector<Node> nodes;
  // Columns of the edges.  `prior` holds half floats: probabilities, or logits where the tree policy is gumbel.
  std::vector<std::uint16_t> prior;
  std::vector<std::int32_t> visits;
  std::vector<float> value_sum;
  std::vector<std::uint32_t> child;
  std::vector<Action> action;

  void clear() {
    nodes.clear();
    num_edges_ = 0;
    add_node();
  }

  std::uint32_t add_node() {
    nodes.emplace_back();
    return std::uint32_t(nodes.size() - 1);
  }

  // Reserves the block of edges of `node`; their actions come from `actions`, all else is zero.
  void add_edges(std::uint32_t node, const Action* actions, int count) {
    const std::uint32_t first = num_edges_;
    const int block = padded(count);
    num_edges_ += std::uint32_t(block);
    if (num_edges_ > visits.size()) grow();
    Node& n = nodes[node];
    n.first_edge = first;
    n.num_edges = std::uint16_t(count);
    std::memset(&visits[first], 0, sizeof(visits[0]) * size_t(block));
    std::memset(&value_sum[first], 0, sizeof(value_sum[0]) * size_t(block));
    std::memset(&child[first], 0xFF, sizeof(child[0]) * size_t(block));
    std::memcpy(&action[first], actions, sizeof(Action) * size_t(count));
  }

  std::uint32_t num_edges() const { return num_edges_; }

  float mean_value(const Node& n) const { return n.visits ? n.value_sum / float(n.visits) : 0.f; }

  // Turns logits into probabilities in place and stores them as the priors of `node`.
  void set_priors(const Node& node, const float* logits) {
    const int count = node.num_edges;
    float top = -kInfinity;
    for (int i = 0; i < count; i += kLanes)
      top = std::fmax(top, horizontal_max(choose(lanes_below(i, count), F8::load(logits + i), F8(-kInfinity))));
    F8 sums(0.f);
    for (int i = 0; i < count; i += kLanes)
      sums = sums + choose(lanes_below(i, count), exp_of_nonpositive(F8::load(logits + i) - F8(top)), F8(0.f));
    const F8 inverse = F8(1.f) / F8(horizontal_sum(sums));
    for (int i = 0; i < count; i += kLanes) {
      const F8 p = choose(lanes_below(i, count), exp_of_nonpositive(F8::load(logits + i) - F8(top)), F8(0.f));
      (p * inverse).store_half(&prior[node.first_edge + std::uint32_t(i)]);
    }
  }

  void set_logits(const Node& node, const float* logits) {
    for (int i = 0; i < node.num_edges; i += kLanes) F8::load(logits + i).store_half(&prior[node.first_edge + std::uint32_t(i)]);
  }

  // Makes `this` the subtree of `from` below the child of its root along `edge`.  False where that was never visited.
  bool keep_subtree(const Tree& from, std::uint32_t edge) {
    const std::uint32_t top = from.child[edge];
    if (top == kNoNode || !from.nodes[top].is_expanded) return false;
    clear();
    nodes[0] = from.nodes[top];
    for (std::uint32_t n = 0; n < nodes.size(); ++n) {  // breadth first: `nodes` is its own queue
      if (nodes[n].num_edges == 0) continue;
      const std::uint32_t source = nodes[n].first_edge;
      add_edges(n, &from.action[source], nodes[n].num_edges);
      const std::uint32_t first = nodes[n].first_edge;
      for (std::uint32_t i = 0; i < nodes[n].num_edges; ++i) {
        prior[first + i] = from.prior[source + i];
        visits[first + i] = from.visits[source + i];
        value_sum[first + i] = from.value_sum[source + i];
        const std::uint32_t old = from.child[source + i];
        if (old == kNoNode) continue;
        child[first + i] = add_node();
        nodes.back() = from.nodes[old];
      }
    }
    return true;
  }

  template <class Archive>
  void archive(Archive& a) {
    a.vector(nodes);
    a.number(num_edges_);
    if (num_edges_ > visits.size()) grow();
    a.raw(prior.data(), num_edges_), a.raw(visits.data(), num_edges_), a.raw(value_sum.data(), num_edges_);
    a.raw(child.data(), num_edges_), a.raw(action.data(), num_edges_);
  }

 private:
  void grow() {
    const size_t size = num_edges_ + num_edges_ / 2 + 512;
    prior.resize(size), visits.resize(size), value_sum.resize(size), child.resize(size), action.resize(size);
  }

  std::uint32_t num_edges_ = 0;
};

}  // namespace shusaku
