// A linear rollout policy learned from finished games: which moves were played among those a rollout may choose.
//
// Maximises log p(move) with p = softmax of the moves' scores (Silver et al. 2016, Methods), by stochastic gradients
// with a rate for each weight (AdaGrad, Duchi et al. 2011), which gives rare features long steps.  The same games,
// calls and seed give the same weights.
#pragma once

#include <cassert>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "search/rollout.h"

namespace shusaku {

// How well moves are predicted.  A move that no rollout chooses (a pass, a fill of an own eye) is an `other` one.
struct RolloutFit {
  std::int64_t positions = 0, others = 0;
  double loss = 0;                  // mean of -log p(move) over the positions
  std::int64_t top1 = 0, top5 = 0;  // positions whose move is the most likely one, or among five
};

template <HasRolloutPolicy G>
class RolloutTraining {
 public:
  explicit RolloutTraining(const G& rules) : rules_(&rules), policy_(rules, RolloutWeights{}) {}

  // A game from the start; of a ply whose `weights` are 0 nothing is learned.  std::invalid_argument if a move is
  // illegal.
  void add(std::vector<Action> moves, const std::vector<float>& weights, bool is_unseen) {
    auto p = rules_->start();
    std::vector<Action> legal(size_t(rules_->max_legal_actions()));
    for (size_t t = 0; t < moves.size(); ++t) {
      const auto end = legal.begin() + rules_->legal_actions(p, legal.data());
      if (std::find(legal.begin(), end, moves[t]) == end)
        throw std::invalid_argument("the move of ply " + std::to_string(t) + " is illegal");
      rules_->play(p, moves[t]);
    }
    Played game{std::move(moves), std::vector<bool>(weights.size())};
    std::transform(weights.begin(), weights.end(), game.counts.begin(), [](float weight) { return weight > 0; });
    (is_unseen ? unseen_ : games_).push_back(std::move(game));
  }

  // Gives a weight to every feature that moves to choose from had at least so often; the number of weights.
  size_t begin(std::int64_t least_seen) {
    std::unordered_map<std::uint64_t, std::int64_t> seen;
    for (const auto& game : games_)
      each_position(game, [&](int) {
        for (std::uint64_t key : candidates_.keys) ++seen[key];
      });
    keys_.clear();
    for (const auto& [key, times] : seen)
      if (times >= least_seen) keys_.push_back(key);
    std::sort(keys_.begin(), keys_.end());
    indices_.clear(), indices_.reserve(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) indices_.emplace(keys_[i], std::uint32_t(i));
    weights_.assign(keys_.size(), 0.f), squares_.assign(keys_.size(), 0.f);
    return keys_.size();
  }

  // One pass over the games in an order by `seed`; the fit is that of each position before it was learned from.
  RolloutFit learn(float rate, std::uint64_t seed) {
    std::vector<size_t> order(games_.size());
    std::iota(order.begin(), order.end(), size_t(0));
    Random random(seed);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    return fit(
        [&](auto visit) {
          for (size_t game : order) each_position(games_[game], visit);
        },
        [&](int chosen) { step(chosen, rate); });
  }

  RolloutFit measure() {
    return fit(
        [&](auto visit) {
          for (const auto& game : unseen_) each_position(game, visit);
        },
        [](int) {});
  }

  RolloutWeights weights(std::string note) const {
    return {name_of(*rules_), board_of(rules_->shape()), std::move(note), keys_, weights_};
  }

  std::int64_t num_games() const { return std::int64_t(games_.size()); }

 private:
  static constexpr std::uint32_t kNone = ~0u;
  struct Played {
    std::vector<Action> moves;
    std::vector<bool> counts;  // whether a ply is learned from
  };

  // Calls visit(index of the move that was played among the candidates, or -1) at every position that counts.
  template <class Visit>
  void each_position(const Played& game, Visit visit) {
    auto p = rules_->start();
    for (size_t t = 0; t < game.moves.size(); ++t) {
      const Action move = game.moves[t];
      if (game.counts[t]) {
        policy_.candidates(p, candidates_);
        const auto at = std::find(candidates_.actions.begin(), candidates_.actions.end(), move);
        visit(at == candidates_.actions.end() ? -1 : int(at - candidates_.actions.begin()));
      }
      rules_->play(p, move);
    }
  }

  // The probabilities of the candidates, and where the weights of their features are.
  void weigh() {
    used_.clear();
    for (std::uint64_t key : candidates_.keys) {
      const auto at = indices_.find(key);
      used_.push_back(at == indices_.end() ? kNone : at->second);
    }
    const size_t count = candidates_.actions.size();
    scores_.assign(count, 0.f);
    float most = -1e30f;
    for (size_t i = 0; i < count; ++i) {
      for (std::uint32_t f = candidates_.offsets[i]; f < candidates_.offsets[i + 1]; ++f)
        if (used_[f] != kNone) scores_[i] += weights_[used_[f]];
      most = std::max(most, scores_[i]);
    }
    float total = 0;
    for (float& s : scores_) total += s = std::exp(s - most);
    for (float& s : scores_) s /= total;
  }

  void step(int chosen, float rate) {
    for (size_t i = 0; i < scores_.size(); ++i) {
      const float gradient = float(int(i) == chosen) - scores_[i];
      for (std::uint32_t f = candidates_.offsets[i]; f < candidates_.offsets[i + 1]; ++f) {
        if (used_[f] == kNone) continue;
        float& square = squares_[used_[f]];
        square += gradient * gradient;
        weights_[used_[f]] += rate * gradient / (std::sqrt(square) + 1e-6f);
      }
    }
  }

  template <class Walk, class Learn>
  RolloutFit fit(Walk walk, Learn learn) {
    RolloutFit r;
    walk([&](int chosen) {
      if (chosen < 0) {
        ++r.others;
        return;
      }
      weigh();
      const float p = scores_[size_t(chosen)];
      int better = 0;  // an earlier candidate of the same probability comes first
      for (size_t i = 0; i < scores_.size(); ++i) better += scores_[i] > p || (scores_[i] == p && int(i) < chosen);
      ++r.positions;
      r.top1 += better == 0, r.top5 += better < 5;
      r.loss -= std::log(double(std::max(p, 1e-30f)));
      learn(chosen);
    });
    r.loss /= double(std::max<std::int64_t>(1, r.positions));
    return r;
  }

  const G* rules_;
  typename G::RolloutPolicy policy_;
  std::vector<Played> games_, unseen_;
  std::vector<std::uint64_t> keys_;  // ascending
  std::unordered_map<std::uint64_t, std::uint32_t> indices_;
  std::vector<float> weights_, squares_;  // of the keys
  RolloutCandidates candidates_;          // scratch, as the rest
  std::vector<std::uint32_t> used_;
  std::vector<float> scores_;
};

}  // namespace shusaku
