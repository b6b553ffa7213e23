// The network's policy without any search, as AlphaGo's policy network played (Silver et al. 2016): one evaluation a
// move, which is sampled with probability P^(1/temperature).
#pragma once

#include <cassert>

#include "search/move_choice.h"
#include "search/options.h"
#include "search/tree.h"

namespace shusaku {

class PolicyOnly {
 public:
  static constexpr bool kUsesNetwork = true, kSimulates = false, kSharesNodes = false, kKnowsWaiting = false;

  explicit PolicyOnly(const SearchOptions& options) : options_(options) {}

  void make_ready(Tree& tree, const Node& root) const { tree.make_priors(root); }
  void begin(Tree&, int, std::uint64_t, Budget) {}

  int select_root(const Tree& tree, const Node& root) const { return select_interior(tree, root); }
  int select_interior(const Tree&, const Node&) const { return assert(false), 0; }  // nothing below the root is visited

  void conclude(const Tree& tree, int ply, std::uint64_t seed, SearchResult& result) const {
    const std::uint32_t first = tree.nodes[0].first_edge();
    for (size_t i = 0; i < result.actions.size(); ++i)
      result.prior.push_back(from_half(tree.prior(first + std::uint32_t(i))));
    conclude_by_weights(tree, options_, ply, seed, result.prior, result);
  }

  template <class Archive>
  void archive(Archive&) {}

 private:
  SearchOptions options_;
};

}  // namespace shusaku
