// Several threads on one search tree: each selects leaves, lets the network run outside, and backs up what it says.
//
//   thread: select() -> leaves -> network -> expand_and_backup() -> select() -> ... -> no leaves: it is over
//
// One lock guards the tree; it is held for the walks, never while a network runs or a game is rolled out.  report() and
// stop() may be called at any moment by any thread.  No thread holds Python's lock while it waits for this one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <ctime>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "analysis/alphago_search.h"
#include "analysis/analysis_search.h"
#include "search/leaf_batch.h"
#include "search/search_batch.h"

namespace shusaku {

struct AnalysisLimits {
  std::int64_t simulations = -1;  // in all, those in the tree included; -1: any number
  double seconds = -1;            // -1: any time
  double processor_seconds = -1;  // of all threads together; -1: any
  std::vector<Action> actions;    // searched at the root; all if empty
  bool to_the_end = false;        // also if the best move cannot change any more
};

struct AnalysisReport : RootReport {
  double seconds = 0;
  float score = kNoScore;  // mean over the evaluations since the root is the root; NaN: none said
  std::vector<float> ownership;
  std::vector<std::string> moves;  // the actions as text
  std::string ended;               // empty while a thread searches
};

class AnyAnalysis {
 public:
  virtual ~AnyAnalysis() = default;
  virtual void set_position(const AnyPosition& position) = 0;  // keeps the subtree if it lies below the root
  virtual void advance(Action action) = 0;                     // legal
  virtual void clear() = 0;
  virtual void start(const AnalysisLimits& limits) = 0;
  virtual void stop() = 0;  // returns at once
  // At most `most` leaves for this thread, which waits if none can be selected; none at all: the search is over for it.
  virtual const Leaves& select(int thread, int most, std::uint32_t version) = 0;
  virtual const Leaves& leaves(int thread) const = 0;
  // Ownership [rows, H * W] and score [rows] of the leaves, before expand_and_backup(); null where there is none.
  virtual void add_heads(int thread, const float* ownership, const float* score) = 0;
  virtual void expand_and_backup(int thread, const float* logits, const float* values, std::uint32_t version) = 0;
  virtual void abandon(int thread) = 0;  // instead of the last two, and of all further calls of this thread
  virtual AnalysisReport report() = 0;
  virtual bool is_running() = 0;
  virtual int threads() const = 0;
  virtual int most_in_flight() = 0;     // leaves that waited at once since start()
  virtual std::size_t bytes() = 0;      // of the tree
  virtual bool has_virtual_loss() = 0;  // alphago: never once the search has ended
  virtual const Counters& counters(int thread) const = 0;
};

// Search: AnalysisSearch<G> or AlphaGoSearch<G>.
template <GameRules G, class Search = AnalysisSearch<G>>
class Analysis : public AnyAnalysis {
  using Clock = std::chrono::steady_clock;
  using Position = typename G::Position;
  using Worker = typename Search::Worker;

 public:
  // `megabytes`: the search ends when its tree is larger.
  Analysis(const G& rules, const SearchOptions& options, int threads, int leaves, int megabytes, std::uint64_t seed)
      : rules_(rules),
        search_(rules, options, seed),
        cache_(std::make_shared<EvaluationCache>(Search::kUsesNetwork ? std::uint64_t(options.cache) : 0,
                                                 rules.max_legal_actions())),
        leaves_(leaves),
        most_bytes_(std::size_t(megabytes) << 20) {
    for (int thread = 0; thread < threads; ++thread)
      workers_.push_back(std::make_unique<Worker>(rules, options, leaves, seed, cache_, search_));
    clear_heads();
  }
  Analysis(const Analysis&) = delete;

  void set_position_to(const Position& position) {
    const std::lock_guard lock(mutex_);
    check_idle("set_position");
    const int plies = search_.follow(position);
    if (plies < 0) search_.begin(position);
    if (plies != 0) clear_heads();
  }

  void advance(Action action) final {
    const std::lock_guard lock(mutex_);
    check_idle("advance");
    search_.advance(action);
    clear_heads();
  }

  void clear() final {
    const std::lock_guard lock(mutex_);
    check_idle("clear");
    const Position root = search_.root();
    search_.begin(root);
    cache_->clear();
    clear_heads();
  }

  void start(const AnalysisLimits& limits) final {
    const std::lock_guard lock(mutex_);
    check_idle("start");
    limits_ = limits;
    const bool is_counted = limits.simulations >= 0;
    const std::int64_t limit = is_counted ? limits.simulations : std::numeric_limits<std::int64_t>::max() / 2;
    if (search_.set_limits(limit, limits.actions)) clear_heads();
    kept_ = search_.simulations();
    begin_ = Clock::now();
    ended_.clear(), reason_.clear();
    should_stop_ = false;
    most_in_flight_ = 0;
    running_ = int(workers_.size());
    processor_times_.assign(workers_.size(), {});
  }

  void stop() final {
    const std::lock_guard lock(mutex_);
    should_stop_ = true;
    changed_.notify_all();
  }

  const Leaves& select(int thread, int most, std::uint32_t version) final {
    std::unique_lock lock(mutex_);
    Worker& worker = *workers_[size_t(thread)];
    worker.batch.clear(version);
    for (;;) {
      if (worker.batch.num_leaves() == 0 && is_over(thread)) {
        finish();
        return worker.batch.leaves;
      }
      const int room = std::min(most, room_for_leaves(worker));
      const bool is_ready = worker.fill(search_, lock, room, [&] { return is_over(thread); });
      most_in_flight_ = std::max(most_in_flight_, search_.num_pending());
      if (is_ready && worker.batch.num_leaves()) return worker.batch.leaves;
      if (is_ready && search_.num_waiting() + search_.num_pending() && !is_over(thread)) {
        changed_.wait(lock);
      } else {  // simulations that need no network: let others have the lock
        lock.unlock();
        lock.lock();
      }
    }
  }

  const Leaves& leaves(int thread) const final { return workers_[size_t(thread)]->batch.leaves; }

  void add_heads(int thread, const float* ownership, const float* score) final {
    const std::lock_guard lock(mutex_);
    const auto& batch = workers_[size_t(thread)]->batch;
    const size_t cells = size_t(rules_.shape().cells());
    const int root_player = rules_.to_play(search_.root());
    for (int leaf = 0; leaf < batch.num_leaves(); ++leaf) {
      const size_t row = size_t(batch.first_row(leaf));
      const double sign = workers_[size_t(thread)]->players[size_t(leaf)] == root_player ? 1 : -1;
      if (score) score_sum_ += sign * double(score[row]), ++score_count_;
      if (!ownership) continue;
      for (size_t cell = 0; cell < cells; ++cell) {
        const size_t seen = size_t(rules_.permute_cell(batch.symmetry(leaf), int(cell)));
        ownership_sum_[cell] += sign * double(ownership[row * cells + seen]);
      }
      ++ownership_count_;
    }
  }

  void expand_and_backup(int thread, const float* logits, const float* values, std::uint32_t version) final {
    const std::lock_guard lock(mutex_);
    Worker& worker = *workers_[size_t(thread)];
    bool is_finite = true;
    worker.batch.distribute(
        logits, values, version,
        [&](int leaf, int, const std::uint16_t* l, float v) { worker.answer(search_, leaf, l, v); },
        [&](int leaf, int) {
          worker.drop(search_, leaf);
          is_finite = false;
        },
        [](int, int) {});
    worker.end_answers(search_);
    changed_.notify_all();
    if (!is_finite)
      throw std::invalid_argument("the network answered with a number that is not finite; use other weights");
  }

  void abandon(int thread) final {
    const std::lock_guard lock(mutex_);
    Worker& worker = *workers_[size_t(thread)];
    for (int leaf = 0; leaf < worker.batch.num_leaves(); ++leaf) worker.drop(search_, leaf);
    worker.batch.clear(0);
    should_stop_ = true;
    if (reason_.empty()) reason_ = "stop";
    finish();
  }

  AnalysisReport report() final {
    const std::lock_guard lock(mutex_);
    AnalysisReport r;
    static_cast<RootReport&>(r) = search_.report();
    r.ended = ended_;
    r.seconds = std::chrono::duration<double>((running_ ? Clock::now() : end_) - begin_).count();
    if (score_count_) r.score = float(score_sum_ / double(score_count_));
    if (ownership_count_)
      for (double sum : ownership_sum_) r.ownership.push_back(float(sum / double(ownership_count_)));
    for (Action action : r.actions) r.moves.push_back(rules_.to_move(search_.root(), action));
    return r;
  }

  bool is_running() final {
    const std::lock_guard lock(mutex_);
    return running_ > 0;
  }
  int threads() const final { return int(workers_.size()); }
  int most_in_flight() final {
    const std::lock_guard lock(mutex_);
    return most_in_flight_;
  }
  std::size_t bytes() final {
    const std::lock_guard lock(mutex_);
    return search_.bytes();
  }
  bool has_virtual_loss() final {
    const std::lock_guard lock(mutex_);
    return search_.has_virtual_loss();
  }
  const Counters& counters(int thread) const final { return workers_[size_t(thread)]->batch.counters; }

 protected:
  const G& rules_;

 private:
  void check_idle(const char* method) const {
    if (running_) throw std::runtime_error(std::string(method) + "() while a search runs: call stop() first");
  }

  void clear_heads() {
    score_sum_ = 0, score_count_ = ownership_count_ = 0;
    ownership_sum_.assign(size_t(rules_.shape().cells()), 0.0);
  }

  // Leaves wait for at most 1/16 of the simulations of this search, or of those made so far if their number is not
  // known: so a lost visit more or less never decides what is visited.  Each thread gets its share.
  int room_for_leaves(const Worker& worker) const {
    const std::int64_t known =
        !has_clock() && limits_.simulations >= 0 ? limits_.simulations - kept_ : search_.simulations();
    const std::int64_t most = std::max<std::int64_t>(1, known / 16), threads = std::int64_t(workers_.size());
    const std::int64_t share = std::max<std::int64_t>(1, (most + threads - 1) / threads);
    return int(std::min<std::int64_t>({share, most - search_.num_pending() + worker.batch.num_leaves(), leaves_}));
  }

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  // Whether this thread has nothing more to do; the first thread to know says why.
  bool is_over(int thread) {
    if (limits_.processor_seconds >= 0) {
      ProcessorTime& time = processor_times_[size_t(thread)];
      const double now = thread_seconds();
      if (time.begin < 0) time.begin = now;
      time.spent = now - time.begin;
    }
    if (reason_.empty()) reason_ = reason_to_end();
    return !reason_.empty();
  }

  // Processor time of this thread, networks that it runs included.
  static double thread_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
  }

  bool has_clock() const { return limits_.seconds >= 0 || limits_.processor_seconds >= 0; }

  // The time that is limited, and what of it has passed; the wall's if both are.
  std::pair<double, double> limit_and_time() const {
    if (limits_.seconds >= 0) return {limits_.seconds, elapsed()};
    double spent = 0;
    for (const ProcessorTime& time : processor_times_) spent += time.spent;
    return {limits_.processor_seconds, spent};
  }

  std::string reason_to_end() const {
    if (should_stop_) return "stop";
    if (!search_.has_evaluation()) return "";  // at least the root is evaluated
    if (search_.is_proven()) return "proven";
    const std::int64_t left = search_.simulations_left();
    if (left <= search_.num_waiting()) return "simulations";
    if (has_clock()) {
      const auto [limit, time] = limit_and_time();
      if (time >= limit) return "time";
    }
    if (search_.bytes() > most_bytes_) return "memory";
    const bool may_end_early = !limits_.to_the_end && (has_clock() || limits_.simulations >= 0);
    return may_end_early && search_.is_decided(simulations_to_come(double(left))) ? "decided" : "";
  }

  // At most so many are still made, by the pace so far where a clock ends the search.
  double simulations_to_come(double left) const {
    if (!has_clock()) return left;
    const double made = double(search_.simulations() - kept_);
    if (made < 32) return left;  // no pace yet
    const auto [limit, time] = limit_and_time();
    constexpr double kMargin = 1.25;
    return std::min(left, kMargin * made / std::max(time, 1e-6) * (limit - time) + search_.num_waiting());
  }

  void finish() {
    changed_.notify_all();
    if (--running_ > 0) return;
    end_ = Clock::now();
    ended_ = reason_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;  // a thread has backed up, or the search is to stop
  Search search_;
  std::shared_ptr<EvaluationCache> cache_;
  std::vector<std::unique_ptr<Worker>> workers_;
  int leaves_;
  std::size_t most_bytes_;
  AnalysisLimits limits_;
  struct ProcessorTime {
    double begin = -1, spent = 0;  // seconds; -1: the thread has not come yet
  };
  std::vector<ProcessorTime> processor_times_;  // [threads] if they are limited
  std::int64_t kept_ = 0;                       // simulations that were in the tree at start()
  Clock::time_point begin_ = Clock::now(), end_ = begin_;
  std::string ended_ = "stop", reason_;
  bool should_stop_ = false;
  int running_ = 0, most_in_flight_ = 0;
  double score_sum_ = 0;
  std::int64_t score_count_ = 0, ownership_count_ = 0;
  std::vector<double> ownership_sum_;  // [H * W]
};

}  // namespace shusaku
