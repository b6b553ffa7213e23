// A search tree that takes memory for what was visited only: one search may grow to millions of nodes.
//
// An edge and the node that it leads to are one, made at the first visit, in a list of siblings: a GrowingNode of 56
// bytes, or a struct made from it.  The priors
// of all legal actions lie beside it as half floats, in the order of legal_actions(), which is asked again when a new
// child is made.  So a simulation at 19 x 19 takes at most 56 + 2 * 368 bytes (search/tree.h: 32 + 16 * 368).
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/arena.h"
#include "search/tree.h"

namespace shusaku {

// Values are for the player to move at the node.
struct GrowingNode {
  double value_sum = 0;  // over `visits`, in double: floats lose what is added after some million visits
  double square_sum = 0;
  std::int32_t visits = 0;  // its own evaluation and all visits below it
  float raw_value = 0;      // the network's, or what the end of the game is worth
  float visited_prior = 0;  // sum of the priors of the children
  std::uint32_t first_child = kNothing, next_sibling = kNothing;
  std::uint32_t first_block = kNothing;  // of the priors
  std::uint16_t edge = 0;                // which of the parent's legal actions leads here
  Action action = 0;                     // the same as an action
  std::uint16_t prior = 0;               // of that edge, a half float
  std::uint16_t num_edges = 0;
  std::uint16_t waiting = 0;  // paths through it or to it that wait for the network
  Stage stage = Stage::kNew;
  std::uint8_t proof = 0;  // 0: none; else 2 + the result under best play
  bool is_terminal_or_proven = false;
  bool moves_again = false;  // the player to move here has made the move that led here

  bool is_expanded() const { return stage != Stage::kNew; }
  int result() const { return proof - 2; }  // if there is a proof
  float exact_value() const { return proof ? float(result()) : raw_value; }
  float mean_value() const { return visits ? float(value_sum) / float(visits) : 0.f; }
  // The same for the player who moves along the edge; a proven loss is minus infinity, so that it is not selected.
  int result_for_mover() const { return moves_again ? result() : -result(); }
  float sum_for_mover() const {
    if (proof) return result_for_mover() < 0 ? kProvenLoss : float(result_for_mover() * visits);
    return moves_again ? float(value_sum) : -float(value_sum);
  }
  float value_for_mover() const {  // visited
    return proof ? float(result_for_mover()) : sum_for_mover() / float(visits);
  }
};
static_assert(sizeof(GrowingNode) == 56);

struct alignas(16) PriorBlock {
  std::uint16_t prior[kLanes];  // half floats: logits, or probabilities once make_priors() has made them
};

constexpr std::uint16_t kVisited = 0xFC00;  // minus infinity, in place of the prior of a child

template <class Node>  // GrowingNode or a struct made from it
class GrowingTree {
 public:
  GrowingTree() { clear(); }

  Node& operator[](std::uint32_t node) { return *nodes_.at(node); }
  const Node& operator[](std::uint32_t node) const { return *nodes_.at(node); }
  std::uint32_t root() const { return root_; }

  void clear() {
    nodes_.clear(), blocks_.clear();
    root_ = add_node();
  }

  // The child along `edge`, which has none.
  std::uint32_t add_child(std::uint32_t parent, int edge, Action action) {
    const std::uint32_t at = add_node();
    Node &node = (*this)[at], &above = (*this)[parent];
    std::uint16_t& prior = priors_of(above)[edge];
    node.edge = std::uint16_t(edge), node.action = action, node.prior = prior;
    node.next_sibling = above.first_child;
    above.first_child = at;
    above.visited_prior += from_half(prior);
    prior = kVisited;
    return at;
  }

  // `logits` of the legal actions in half floats.
  void set_logits(Node& node, const std::uint16_t* logits, int count) {
    node.num_edges = std::uint16_t(count);
    node.first_block = blocks_.take(num_blocks(node));
    std::uint16_t* priors = priors_of(node);
    std::fill(std::copy_n(logits, count, priors), priors + padded(count), kVisited);
    node.stage = Stage::kEvaluated;
  }

  // Logits become probabilities, their softmax: the numbers of Tree::make_priors.
  void make_priors(Node& node) {
    const int count = node.num_edges;
    scratch_.resize(size_t(padded(count)));
    std::uint16_t* priors = priors_of(node);
    for (int i = 0; i < count; ++i) scratch_[size_t(i)] = from_half(priors[i]);
    Tree::softmax(scratch_.data(), count);
    for (int i = 0; i < count; ++i) priors[i] = to_half(scratch_[size_t(i)]);
    node.stage = Stage::kReady;
  }

  // Other probabilities than before, also of the children; `probabilities` of all edges.
  void replace_priors(Node& node, const float* probabilities) {
    std::uint16_t* priors = priors_of(node);
    for (int i = 0; i < node.num_edges; ++i)
      if (priors[i] != kVisited) priors[i] = to_half(probabilities[i]);
    node.visited_prior = 0;
    for (std::uint32_t at = node.first_child; at != kNothing; at = (*this)[at].next_sibling) {
      Node& child = (*this)[at];
      child.prior = to_half(probabilities[child.edge]);
      node.visited_prior += from_half(child.prior);
    }
    node.stage = Stage::kReady;
  }

  // The priors of all edges, kVisited in place of those of the children; padded to a multiple of eight.
  const std::uint16_t* priors(const Node& node) const {
    return reinterpret_cast<const std::uint16_t*>(blocks_.at(node.first_block));
  }

  // Calls visit(number, child) for every child.
  template <class Visit>
  void for_children(const Node& node, Visit visit) const {
    for (std::uint32_t at = node.first_child; at != kNothing; at = (*this)[at].next_sibling) visit(at, (*this)[at]);
  }

  std::uint32_t child_along(std::uint32_t parent, Action action) const {
    std::uint32_t found = kNothing;
    for_children((*this)[parent], [&](std::uint32_t at, const Node& child) {
      if (child.action == action) found = at;
    });
    return found;
  }

  // The subtree below this child of the root stays, in its place; the rest is given back.
  void keep_child(std::uint32_t child) {
    std::vector<std::uint32_t>& open = open_;
    open.assign(1, root_);
    while (!open.empty()) {
      const std::uint32_t at = open.back();
      open.pop_back();
      for_children((*this)[at], [&](std::uint32_t below, const Node&) {
        if (below != child) open.push_back(below);
      });
      const Node& node = (*this)[at];
      if (node.first_block != kNothing) blocks_.give_back(node.first_block, num_blocks(node));
      nodes_.give_back(at, 1);
    }
    root_ = child;
    (*this)[child].next_sibling = kNothing;
  }

  std::size_t bytes() const { return nodes_.bytes() + blocks_.bytes(); }

 private:
  static std::uint32_t num_blocks(const Node& node) { return std::uint32_t(padded(node.num_edges) / kLanes); }

  std::uint32_t add_node() {
    const std::uint32_t at = nodes_.take(1);
    *nodes_.at(at) = Node{};
    return at;
  }

  std::uint16_t* priors_of(const Node& node) { return reinterpret_cast<std::uint16_t*>(blocks_.at(node.first_block)); }

  Arena<Node, 1 << 12, 1> nodes_;
  Arena<PriorBlock, 1 << 16, 1 << 13> blocks_;
  std::uint32_t root_ = 0;
  std::vector<float> scratch_;
  std::vector<std::uint32_t> open_;  // scratch
};

}  // namespace shusaku
