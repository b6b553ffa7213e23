// The newest rows.  A game is replayed and checked when it is appended, so every row that can be sampled is known to be
// good.  Rows are numbered 0, 1, 2, ... for ever.
//
// Planes and policies are kept packed, in memory that is allocated once; or, where memory is short, as the moves of
// their games, which are replayed up to the row when it is sampled.  The rows that are handed out are the same.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "games/expand_planes.h"
#include "games/game.h"
#include "rows/exact_labels.h"
#include "rows/final_boards.h"
#include "rows/kept_games.h"
#include "rows/record_view.h"
#include "rows/row_labels.h"
#include "search/parallel_parts.h"
#include "search/random.h"

namespace shusaku {

// Where sampled rows go; every array is [B, ...] and written whole.  The last four only if LabelOptions are set.
struct BatchView {
  float* observations;     // [B, C, H, W]; nullptr: the next three instead
  std::uint8_t* packed;    // [B, packed bytes] as observed, before the symmetry
  float* uniform;          // [B, U]
  std::uint8_t* symmetry;  // [B]
  float* policy;           // [B, A]
  float* outcome;          // [B] for the player to move, like all values; deblundered or exact if LabelOptions are set
  float* root_values;      // [B] or their lambda-returns
  float* weight;           // [B]
  float* plies_left;       // [B]
  std::uint32_t* versions;
  std::int64_t* rows;
  float* short_term;  // [B, K] one a horizon
  float* ownership;   // [B, H, W] 1 the player to move; NaN: not known
  float* score;       // [B]; NaN: not known
  float* reply;       // [B, A] the policy of the next row, the opponent's; all 0: there is none
};

// One interface over the rings of all games.
class AnyRowRing {
 public:
  virtual ~AnyRowRing() = default;
  virtual std::int64_t end() const = 0;  // number of the next row
  virtual std::int64_t nbytes() const = 0;
  virtual std::int64_t append(const RecordView& record) = 0;
  virtual void sample(int count, std::int64_t begin, std::int64_t end, std::uint64_t seed, bool symmetries, int threads,
                      const BatchView& out) const = 0;
};

template <GameRules G>
class RowRing final : public AnyRowRing {
 public:
  RowRing(const G& rules, std::int64_t capacity, const LabelOptions& labels, bool keeps_moves)
      : rules_(&rules),
        labels_(labels),
        shape_(rules.shape()),
        slots_(rules.max_legal_actions()),
        capacity_(capacity),
        values_a_row_(labels.horizons.size() + labels.has_outcomes()),
        has_columns_(labels.any_column()),
        keeps_moves_(keeps_moves),
        packed_(keeps_moves ? 0 : size_t(capacity) * size_t(shape_.packed_bytes())),
        uniform_(keeps_moves ? 0 : size_t(capacity) * size_t(shape_.uniform)),
        policy_(keeps_moves ? 0 : size_t(capacity) * size_t(slots_)),
        metadata_(size_t(capacity)),
        values_(size_t(capacity) * values_a_row_),
        mass_(labels.weights_draws() ? size_t(capacity) : 0),
        exact_(rules, labels.solved_empties, labels.solved_policies),
        legal_(size_t(slots_)) {
    if (labels.ownership && !HasOwnership<G>) fail(name_of(rules) + " has no ownership of cells");
    for (int s = 0; s < rules.num_symmetries(); ++s) {
      for (int cell = 0; cell < shape_.cells(); ++cell) cells_.push_back(rules.permute_cell(s, cell));
      for (int a = 0; a < rules.num_actions(); ++a) actions_.push_back(rules.permute(s, Action(a)));
    }
  }

  std::int64_t end() const override { return end_; }
  std::int64_t nbytes() const override {
    return std::int64_t(packed_.size() + 4 * uniform_.size() + 4 * policy_.size() + sizeof(Facts) * metadata_.size() +
                        4 * values_.size() + 8 * mass_.size()) +
           finals_.nbytes() + games_.nbytes();
  }

  // Returns the number of rows that were kept.  Throws with the reason, keeping none, if the record breaks a rule.
  std::int64_t append(const RecordView& record) override {
    check_shape(record);
    check_replay(record);
    const RecordView r = labels_.solved_empties > 0 ? exact_.apply(record, start_with(record.komi)) : record;
    work_out_labels(r);
    typename G::Position position = start_with(r.komi);
    const std::int64_t before = end_;
    if (keeps_moves_ && has_rows(r)) {
      games_.forget_before(end_ - capacity_);
      games_.add(r, end_);
    }
    for (size_t t = 0; t < r.actions.size(); ++t) {
      if (r.row_weight[t] > 0) add_row(r, t, position);
      rules_->play(position, r.actions[t]);
    }
    return end_ - before;
  }

  void sample(int count, std::int64_t begin, std::int64_t end, std::uint64_t seed, bool symmetries, int threads,
              const BatchView& out) const override {
    if (begin < std::max<std::int64_t>(0, end_ - capacity_) || end > end_ || begin >= end)
      throw std::invalid_argument(
          "rows [" + std::to_string(begin) + ", " + std::to_string(end) + ") are not held; the ring has [" +
          std::to_string(std::max<std::int64_t>(0, end_ - capacity_)) + ", " + std::to_string(end_) + ")");
    auto work = [&](int first, int last) {
      Scratch scratch;
      for (int b = first; b < last; ++b)
        sample_row(b, begin, end, combine(seed, std::uint64_t(b)), symmetries, out, scratch);
    };
    threads = std::max(1, std::min(threads, count / 64));
    run_parts(threads, [&](int part) {
      work(int(std::int64_t(count) * part / threads), int(std::int64_t(count) * (part + 1) / threads));
    });
  }

 private:
  struct Facts {
    float root_value, weight;
    std::uint32_t version;
    std::uint16_t num_policy, plies_left;
    std::int8_t outcome;  // for the player to move
    std::int8_t player;   // to move
    bool has_reply;       // the next row is the opponent's reply, chosen by the same kind of search
  };
  struct Scratch {  // of a row that is replayed
    std::vector<std::uint8_t> packed;
    std::vector<float> uniform;
  };
  static constexpr double kMassOne = 1 << 16;  // of an average row: sums of whole numbers are the same everywhere

  [[noreturn]] static void fail(const std::string& what) { throw std::invalid_argument(what); }
  static std::string at(size_t t) { return " at ply " + std::to_string(t); }

  void check_shape(const RecordView& r) const {
    const size_t plies = r.actions.size();
    if (plies == 0) fail("length: the game has no plies");
    if (plies > size_t(rules_->max_plies()))
      fail("length: " + std::to_string(plies) + " plies, the game has at most " + std::to_string(rules_->max_plies()));
    if (r.root_values.size() != plies || r.raw_values.size() != plies || r.versions.size() != plies ||
        r.kind.size() != plies || r.row_weight.size() != plies || r.surprise.size() != plies ||
        r.policy_offsets.size() != plies + 1)
      fail("length: the columns differ in length");
    if (r.policy_offsets.front() != 0 || r.policy_offsets.back() != r.policy_actions.size() ||
        r.policy_actions.size() != r.policy_shares.size())
      fail("policy: its offsets do not fit its entries");
    for (size_t t = 0; t < plies; ++t) {
      if (r.policy_offsets[t] > r.policy_offsets[t + 1]) fail("policy: its offsets go back" + at(t));
      if (!std::isfinite(r.root_values[t]) || !std::isfinite(r.raw_values[t]) || !std::isfinite(r.row_weight[t]) ||
          !std::isfinite(r.surprise[t]))
        fail("number: not finite" + at(t));
      if (std::fabs(r.root_values[t]) > 1.001f || std::fabs(r.raw_values[t]) > 1.001f)
        fail("number: a value outside [-1, 1]" + at(t));
      if (r.row_weight[t] < 0 || r.row_weight[t] > 1000) fail("number: a weight outside [0, 1000]" + at(t));
      if (r.kind[t] > 3) fail("kind: unknown" + at(t));
      if (r.row_weight[t] > 0 && r.policy_offsets[t] == r.policy_offsets[t + 1])
        fail("policy: missing in a row with weight" + at(t));
    }
    if (r.outcome < -1 || r.outcome > 1) fail("outcome: " + std::to_string(r.outcome) + " is none of -1, 0, 1");
  }

  // The start of a game with this komi; NaN: that of the rules.
  typename G::Position start_with(float komi) const {
    typename G::Position position = rules_->start();
    if (std::isnan(komi)) return position;
    if constexpr (HasKomi<G>) {
      if (!G::is_komi(komi))
        fail("game: a komi of " + std::to_string(komi) + " is no multiple of 0.5 in the bounds of the rules");
      rules_->set_komi(position, komi);
      return position;
    }
    fail("game: a komi of its own, " + std::to_string(komi) + ", which " + name_of(*rules_) + " cannot have");
  }

  void check_replay(const RecordView& r) {
    typename G::Position position = start_with(r.komi);
    players_.clear();
    for (size_t t = 0; t < r.actions.size(); ++t) {
      players_.push_back(std::int8_t(rules_->to_play(position)));
      const int count = rules_->legal_actions(position, legal_.data());
      if (count == 0) fail("action: the game was over" + at(t));
      const auto legal_end = legal_.begin() + count;
      if (!std::binary_search(legal_.begin(), legal_end, r.actions[t]))
        fail("action: " + std::to_string(r.actions[t]) + " is illegal" + at(t));
      std::uint32_t sum = 0;
      int last = -1;
      for (std::uint32_t i = r.policy_offsets[t]; i < r.policy_offsets[t + 1]; ++i) {
        const Action a = r.policy_actions[i];
        if (int(a) <= last) fail("policy: actions are not ascending" + at(t));
        if (!std::binary_search(legal_.begin(), legal_end, a))
          fail("policy: action " + std::to_string(a) + " is illegal" + at(t));
        last = a;
        sum += r.policy_shares[i];
      }
      if (r.policy_offsets[t] != r.policy_offsets[t + 1] && sum != 65535)
        fail("policy: shares sum to " + std::to_string(sum) + ", not 65535" + at(t));
      rules_->play(position, r.actions[t]);
    }
    final_ = {};
    const bool is_over = rules_->is_terminal(position);
    if (r.ended_by == "rules" && !is_over) fail("outcome: the game is not over where the record ends by rules");
    if (is_over) {
      const std::string ended_by = rules_->is_cut_off(position) ? "ply_limit" : "rules";
      if (r.ended_by != ended_by)
        fail("outcome: the " + std::string(ended_by == "rules" ? "rules" : "ply limit") +
             " ended the game, the record says " + r.ended_by);
      const int sign = rules_->to_play(position) == 0 ? 1 : -1, outcome = sign * rules_->outcome(position);
      if (outcome != r.outcome)
        fail("outcome: " + std::to_string(r.outcome) + ", by the rules it is " + std::to_string(outcome));
      const float score = float(sign) * rules_->score(position);
      if (std::isnan(score) != std::isnan(r.score) || (!std::isnan(score) && score != r.score))
        fail("outcome: a score of " + std::to_string(r.score) + ", by the rules it is " + std::to_string(score));
      final_.score = score;
      if constexpr (HasOwnership<G>) {
        if (labels_.ownership) {
          final_.ownership.resize(size_t(shape_.cells()));
          rules_->ownership(position, final_.ownership.data());
          for (std::int8_t& owner : final_.ownership) owner = std::int8_t(sign * owner);
        }
      }
    } else {
      if (r.ended_by == "resignation" && r.outcome == 0) fail("outcome: a resigned game is no draw");
    }
  }

  // Of every ply, for the first player, into `game_values_` [T, values_a_row_] and `sampling_weights_` [T].
  void work_out_labels(const RecordView& r) {
    const size_t plies = r.actions.size();
    game_values_.resize(plies * values_a_row_);
    for (size_t k = 0; k < labels_.horizons.size(); ++k)
      short_term_values(r, players_, labels_, labels_.horizons[k], game_values_.data() + k, values_a_row_);
    if (labels_.has_outcomes())
      row_outcomes(r, players_, labels_, game_values_.data() + labels_.horizons.size(), values_a_row_);
    if (labels_.value_lambda > 0) {
      value_returns_.resize(plies);
      value_returns(r, players_, labels_, value_returns_.data());
    }
    if (!mass_.empty()) {
      sampling_weights_.resize(plies);
      sampling_weights(r, players_, labels_, shape_.cells(), sampling_weights_.data());
    }
    if (has_rows(r) && (labels_.ownership || labels_.score)) {
      finals_.forget_before(end_ - capacity_);
      final_.first_row = end_;
      finals_.add(std::move(final_));
    }
  }

  static bool has_rows(const RecordView& r) {
    return std::any_of(r.row_weight.begin(), r.row_weight.end(), [](float weight) { return weight > 0; });
  }

  void add_row(const RecordView& r, size_t t, const typename G::Position& position) {
    const size_t i = size_t(end_ % capacity_);
    const std::uint32_t first = r.policy_offsets[t], count = r.policy_offsets[t + 1] - first;
    if (!keeps_moves_) {
      rules_->observe(position, 0, &packed_[i * size_t(shape_.packed_bytes())],
                      uniform_.data() + i * size_t(shape_.uniform));
      PolicyShare* policy = &policy_[i * size_t(slots_)];
      for (std::uint32_t k = 0; k < count; ++k) policy[k] = {r.policy_actions[first + k], r.policy_shares[first + k]};
    }
    metadata_[i] = {labels_.value_lambda > 0 ? for_first(value_returns_[t], players_[t]) : r.root_values[t],
                    r.row_weight[t],
                    r.versions[t],
                    std::uint16_t(count),
                    std::uint16_t(r.actions.size() - t),
                    std::int8_t(players_[t] == 0 ? r.outcome : -r.outcome),
                    players_[t],
                    has_reply(r, t)};
    std::copy_n(game_values_.data() + t * values_a_row_, values_a_row_, values_.data() + i * values_a_row_);
    if (!mass_.empty()) {
      mass_[i] = mass_end_;
      mass_end_ += std::uint64_t(std::max<std::int64_t>(1, std::llround(kMassOne * double(sampling_weights_[t]))));
    }
    ++end_;
  }

  bool has_reply(const RecordView& r, size_t t) const {
    return t + 1 < r.actions.size() && r.row_weight[t + 1] > 0 && r.kind[t + 1] == r.kind[t] &&
           players_[t + 1] != players_[t];
  }

  // The row of [begin, end) in which a uniform sample of their mass lies.
  std::int64_t sample_by_mass(Random& random, std::int64_t begin, std::int64_t end) const {
    const std::uint64_t low = mass_before(begin), at = low + random.below(mass_before(end) - low);
    while (end - begin > 1) {
      const std::int64_t middle = begin + (end - begin) / 2;
      (mass_before(middle) <= at ? begin : end) = middle;
    }
    return begin;
  }
  std::uint64_t mass_before(std::int64_t row) const { return row == end_ ? mass_end_ : mass_[size_t(row % capacity_)]; }

  void sample_row(int b, std::int64_t begin, std::int64_t end, std::uint64_t seed, bool symmetries,
                  const BatchView& out, Scratch& scratch) const {
    Random random(seed);
    const std::int64_t row = mass_.empty() ? begin + std::int64_t(random.below(std::uint64_t(end - begin)))
                                           : sample_by_mass(random, begin, end);
    const int symmetry = symmetries ? int(random.below(std::uint64_t(rules_->num_symmetries()))) : 0;
    const size_t i = size_t(row % capacity_);
    const int* cells = symmetry ? &cells_[size_t(symmetry) * size_t(shape_.cells())] : nullptr;
    const size_t bytes = size_t(shape_.packed_bytes()), uniforms = size_t(shape_.uniform);
    if (keeps_moves_) replay(row, scratch);
    const std::uint8_t* packed = keeps_moves_ ? scratch.packed.data() : &packed_[i * bytes];
    const float* uniform = keeps_moves_ ? scratch.uniform.data() : uniform_.data() + i * uniforms;
    if (out.observations) {
      expand_planes(shape_, packed, uniform, cells,
                    out.observations + size_t(b) * size_t(shape_.planes() * shape_.cells()));
    } else {
      std::copy_n(packed, bytes, out.packed + size_t(b) * bytes);
      std::copy_n(uniform, uniforms, out.uniform + size_t(b) * uniforms);
      out.symmetry[b] = std::uint8_t(symmetry);
    }
    const size_t num_actions = size_t(rules_->num_actions());
    const Action* actions = &actions_[size_t(symmetry) * num_actions];
    expand_policy(row, actions, out.policy + size_t(b) * num_actions);
    const Facts& f = metadata_[i];
    out.outcome[b] = float(f.outcome), out.root_values[b] = f.root_value, out.weight[b] = f.weight;
    out.plies_left[b] = float(f.plies_left), out.versions[b] = f.version, out.rows[b] = row;
    if (has_columns_) write_labels(size_t(b), row, cells, actions, out);
  }

  // Observes the position of a row, which its game is replayed to.
  void replay(std::int64_t row, Scratch& scratch) const {
    const KeptGame& game = games_.of(row);
    typename G::Position position = start_with(game.komi);
    const size_t ply = game.plies[size_t(row - game.first_row)];
    for (size_t t = 0; t < ply; ++t) rules_->play(position, game.actions[t]);
    scratch.packed.resize(size_t(shape_.packed_bytes())), scratch.uniform.resize(size_t(shape_.uniform));
    rules_->observe(position, 0, scratch.packed.data(), scratch.uniform.data());
  }

  std::span<const PolicyShare> policy_of(std::int64_t row) const {
    if (keeps_moves_) return games_.policy(row);
    const size_t i = size_t(row % capacity_);
    return {&policy_[i * size_t(slots_)], metadata_[i].num_policy};
  }

  // [A], under the symmetry of `actions`.
  void expand_policy(std::int64_t row, const Action* actions, float* policy) const {
    std::fill_n(policy, rules_->num_actions(), 0.f);
    for (const PolicyShare& p : policy_of(row)) policy[actions[p.action]] = float(p.share) / 65535.f;
  }

  void write_labels(size_t b, std::int64_t row, const int* cells, const Action* actions, const BatchView& out) const {
    const size_t i = size_t(row % capacity_), horizons = labels_.horizons.size();
    const Facts& f = metadata_[i];
    const float* values = values_.data() + i * values_a_row_;
    for (size_t k = 0; k < horizons; ++k) out.short_term[b * horizons + k] = for_first(values[k], f.player);
    if (labels_.has_outcomes()) out.outcome[b] = for_first(values[horizons], f.player);
    if (labels_.score) out.score[b] = for_first(finals_.of(row).score, f.player);
    if (labels_.ownership) {
      const std::vector<std::int8_t>& owners = finals_.of(row).ownership;
      const size_t area = size_t(shape_.cells());
      float* map = out.ownership + b * area;
      for (size_t c = 0; c < area; ++c)
        map[cells ? size_t(cells[c]) : c] = owners.empty() ? kNoScore : for_first(float(owners[c]), f.player);
    }
    if (labels_.reply) {
      float* reply = out.reply + b * size_t(rules_->num_actions());
      if (f.has_reply)
        expand_policy(row + 1, actions, reply);
      else
        std::fill_n(reply, rules_->num_actions(), 0.f);
    }
  }

  const G* rules_;
  LabelOptions labels_;
  Shape shape_;
  int slots_;  // of policy entries a row
  std::int64_t capacity_, end_ = 0;
  size_t values_a_row_;  // K short-term values, and the outcome if each row has its own
  bool has_columns_, keeps_moves_;
  std::vector<std::uint8_t> packed_;
  std::vector<float> uniform_;
  std::vector<PolicyShare> policy_;  // [capacity, slots]; empty like the two above if moves are kept
  std::vector<Facts> metadata_;
  std::vector<float> values_;        // [capacity, values_a_row_] for the first player
  std::vector<std::uint64_t> mass_;  // [capacity] of all rows before; empty: every row is as likely
  std::uint64_t mass_end_ = 0;
  FinalBoards finals_;
  KeptGames games_;  // empty if planes are kept
  ExactLabels<G> exact_;
  std::vector<Action> legal_;         // scratch, like the next four: of the game that is appended
  std::vector<std::int8_t> players_;  // [T]
  std::vector<float> game_values_, sampling_weights_, value_returns_;
  FinalBoard final_;
  std::vector<int> cells_;       // [S, H * W] of permute_cell
  std::vector<Action> actions_;  // [S, A] of permute
};

}  // namespace shusaku
