// The requests of many clients in one queue, laid into batches, and answered: what an inference server does for every
// request, without Python.
//
//   submit() of many threads ──► bounded queue ──► gather(): one thread lays requests into a batch ──► answer()
//
// One thread gathers: it decides when the device is free, and calls the evaluator once a batch.  The same thread, or
// another one, answers.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serving/fire_rule.h"
#include "serving/request_layout.h"

namespace shusaku {

// What became of a request.  A number on the wire: the status of a slot in shared memory.
enum class Outcome : std::uint32_t {
  kAnswer = 1,
  kRefused = 2,      // no server can answer it: the text says why
  kUnavailable = 3,  // this server did not answer now
  // Of calls in this process, which say which of the reasons it was; unavailable in shared memory.
  kClosed = 4,
  kQueueFull = 5,
  kFailed = 6,
};

inline double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Where the bytes of a request lie, and where its answer goes.  The memory stays valid as long as the object.
class Asker {
 public:
  virtual ~Asker() = default;
  // Memory for an answer of so many bytes; nullptr if it has no reader any more.  `deliver` follows.
  virtual std::byte* answer_space(size_t bytes) = 0;
  virtual void deliver(size_t bytes) = 0;
  virtual void fail(Outcome outcome, const std::string& why) = 0;
};

struct Request {
  std::shared_ptr<Asker> asker;
  std::int64_t client = 0;
  RequestView view;
  double queued_at = 0;
};

// Requests that are evaluated together.
struct RequestBatch {
  std::vector<Request> requests;  // empty if the queue was closed meanwhile
  LeafColumns columns;
  int rows = 0, actions = 0;
  double began_at = 0;
  // [rows + 1], its own: the next batch is laid into the columns before this one is answered.
  std::vector<std::int32_t> offsets;
  // Memory of its own, for a request that is larger than any batch.
  std::vector<std::uint8_t> packed;
  std::vector<float> uniform;
  std::vector<std::uint16_t> legal;
};

struct QueueCounters {
  std::int64_t rows = 0, batches = 0, refused = 0, failed = 0, non_finite = 0;
};

class RequestQueue {
 public:
  static constexpr size_t kHistory = 4096;  // waits that statistics look back at
  static constexpr double kForEver = 3600;  // seconds: a wait until infinity would overflow the clock

  RequestQueue(const RequestRules& rules, FireRule rule, size_t max_waiting, double live_seconds)
      : rules_(rules), rule_(rule), max_waiting_(max_waiting), clients_(live_seconds) {}

  const RequestRules& rules() const { return rules_; }

  // --- called by any thread -------------------------------------------------------------------------------------

  // Queues a request; it is failed at once if it is invalid or cannot be queued.  Returns whether it is queued.
  bool submit(std::shared_ptr<Asker> asker, std::int64_t client, std::span<const std::byte> data) {
    Request request{std::move(asker), client, {}, monotonic_seconds()};
    std::string why = read_request(rules_, data, request.view);
    Outcome outcome = Outcome::kRefused;
    {
      std::lock_guard lock(mutex_);
      if (why.empty() && is_closed_) {
        outcome = Outcome::kClosed, why = "the inference server is closed";
      } else if (why.empty() && queue_.size() >= max_waiting_) {
        outcome = Outcome::kQueueFull;
        why = std::to_string(queue_.size()) + " requests wait at the inference server; that is its bound";
      }
      if (why.empty()) {
        clients_.record_request(client, request.queued_at);
        positions_ += request.view.rows;
        queue_.push_back(std::move(request));
        // Otherwise the thread sleeps until the deadline that it knows.
        if (queue_.size() == 1 || seconds_left(queue_.back().queued_at) <= 0) wake_.notify_one();
        return true;
      }
      ++counters_.refused;
    }
    request.asker->fail(outcome, why);
    return false;
  }

  // Takes the requests of this asker out of the queue, without an answer; whether there was one.
  bool withdraw(const Asker* asker) {
    std::lock_guard lock(mutex_);
    const size_t before = queue_.size();
    const double now = monotonic_seconds();
    std::erase_if(queue_, [&](const Request& r) {
      if (r.asker.get() != asker) return false;
      positions_ -= r.view.rows;
      clients_.record_answer(r.client, now);
      return true;
    });
    return queue_.size() < before;
  }

  void count_refused() {
    std::lock_guard lock(mutex_);
    ++counters_.refused;
  }

  // Ends a `gather` that waits, without a batch.
  void wake() {
    std::lock_guard lock(mutex_);
    is_woken_ = true;
    wake_.notify_one();
  }

  int waiting() const {
    std::lock_guard lock(mutex_);
    return int(queue_.size());
  }

  int clients() {
    std::lock_guard lock(mutex_);
    return clients_.count(monotonic_seconds());
  }

  // Totals, and the seconds from arrival to answer of the newest requests.
  std::pair<QueueCounters, std::vector<float>> counters() const {
    std::lock_guard lock(mutex_);
    return {counters_, waits_};
  }

  // Fails every request that waits or is computed, and every later one.
  void close(const std::string& why) {
    std::vector<Request> abandoned;
    {
      std::lock_guard lock(mutex_);
      is_closed_ = true;
      for (RequestBatch* batch : running_) {
        std::move(batch->requests.begin(), batch->requests.end(), std::back_inserter(abandoned));
        batch->requests.clear();
      }
      std::move(queue_.begin(), queue_.end(), std::back_inserter(abandoned));
      queue_.clear();
      positions_ = 0;
      counters_.refused += std::int64_t(abandoned.size());
      wake_.notify_one();
    }
    for (const Request& request : abandoned) request.asker->fail(Outcome::kClosed, why);
  }

  // --- called by the threads of the server ------------------------------------------------------------------------

  int largest() const { return rule_.largest; }

  void set_largest(int rows) {
    std::lock_guard lock(mutex_);
    rule_.largest = rows;
  }

  // Waits until a batch should run, and lays it into `columns`, which hold `largest` positions; false after `wake`,
  // after `close`, or at `until`.  `takes`: false as long as there are no weights; `has_room`: the device takes another
  // batch, else only a full one is laid; `busy_until`: when the device is free.  Both times are those of
  // monotonic_seconds().
  bool gather(RequestBatch& batch, const LeafColumns& columns, bool takes, bool has_room, double busy_until,
              double until) {
    const double began = monotonic_seconds();
    for (;;) {
      std::unique_lock lock(mutex_);
      for (;;) {
        if (is_closed_ || std::exchange(is_woken_, false)) return false;
        const double now = monotonic_seconds();
        double end = until;
        if (takes && !queue_.empty()) {
          busy_until_ = busy_until;
          has_room_ = has_room;
          const double left = seconds_left(now);
          if (left <= 0) {
            if (rule_.is_missed(filled(), clients_.prompt(now), now - std::max(began, queue_.front().queued_at)))
              clients_.record_deadline();
            break;
          }
          end = std::min(end, now + left);
        }
        if (end <= now) return false;
        wake_.wait_for(lock, std::chrono::duration<double>(std::min(end - now, kForEver)));
      }
      pop(batch);
      lock.unlock();
      lay(batch, columns);
      lock.lock();
      if (!batch.requests.empty() && is_closed_) {  // while the rows were copied
        const std::vector<Request> abandoned = std::exchange(batch.requests, {});
        counters_.refused += std::int64_t(abandoned.size());
        lock.unlock();
        for (const Request& request : abandoned)
          request.asker->fail(Outcome::kClosed, "the inference server was closed");
        return false;
      }
      if (batch.requests.empty()) continue;  // all of them were refused
      running_.push_back(&batch);
      return true;
    }
  }

  // Answers the requests of a batch: logits [actions], values [rows].  Returns how many positions have a number that
  // is not finite in their answer.
  int answer(RequestBatch& batch, const float* logits, const float* values, std::uint32_t version) {
    std::vector<Request> requests;
    {
      std::lock_guard lock(mutex_);
      running_.remove(&batch);
      requests.swap(batch.requests);
      // Before the answer goes out: the client's next request may come before this call ends.
      for (const Request& request : requests) clients_.record_answer(request.client, monotonic_seconds());
    }
    int row = 0, bad = 0;
    for (const Request& request : requests) {
      const std::int32_t* offsets = batch.offsets.data() + row;
      const int rows = request.view.rows, actions = request.view.actions;
      const size_t bytes = answer_bytes(size_t(rows), size_t(actions));
      if (std::byte* space = request.asker->answer_space(bytes)) {
        if (!write_answer(space, logits + offsets[0], values + row, rows, actions, version))
          bad += count_non_finite(offsets, logits, values + row, rows);
        request.asker->deliver(bytes);
      }
      row += rows;
    }
    const double now = monotonic_seconds();
    std::lock_guard lock(mutex_);
    counters_.rows += batch.rows;
    ++counters_.batches;
    counters_.non_finite += bad;
    for (const Request& request : requests) record_wait(float(now - request.queued_at));
    return bad;
  }

  // Fails the requests of a batch.
  void fail(RequestBatch& batch, const std::string& why) {
    std::vector<Request> requests;
    {
      std::lock_guard lock(mutex_);
      running_.remove(&batch);
      requests.swap(batch.requests);
      counters_.failed += std::int64_t(requests.size());
      for (const Request& request : requests) clients_.record_answer(request.client, monotonic_seconds());
    }
    for (const Request& request : requests) request.asker->fail(Outcome::kFailed, why);
  }

 private:
  // For the rule, which calls a batch full from `largest` positions on: it is full as well once a further request of as
  // many positions as the newest one would not fit any more.
  std::int64_t filled() const { return positions_ + queue_.back().view.rows - 1; }

  double seconds_left(double now) {
    if (!has_room_) return filled() >= rule_.largest ? 0 : kForEver;
    return rule_.seconds_left(filled(), clients_.able(now), clients_.prompt(now), now - queue_.front().queued_at,
                              busy_until_ - now);
  }

  // The oldest requests that fit into the largest batch; a request larger than that is a batch of its own.
  void pop(RequestBatch& batch) {
    batch.requests.clear();
    int rows = 0;
    do {
      rows += queue_.front().view.rows;
      batch.requests.push_back(std::move(queue_.front()));
      queue_.pop_front();
    } while (!queue_.empty() && rows + queue_.front().view.rows <= rule_.largest);
    positions_ -= rows;
    batch.began_at = monotonic_seconds();
  }

  // Copies the rows; requests that turn out to be invalid are refused.
  void lay(RequestBatch& batch, const LeafColumns& columns) {
    batch.columns = columns;
    if (const RequestView& view = batch.requests.front().view; view.rows > rule_.largest) {
      const size_t rows = size_t(view.rows);
      batch.packed.resize(rows * size_t(rules_.packed_bytes));
      batch.uniform.resize(std::max<size_t>(1, rows * size_t(rules_.uniforms)));
      batch.offsets.resize(rows + 1);
      batch.legal.resize(size_t(view.actions));
      batch.columns = {batch.packed.data(), batch.uniform.data(), batch.offsets.data(), batch.legal.data(), nullptr};
    }
    batch.columns.offsets[0] = 0;
    batch.rows = 0;
    std::vector<std::pair<Request, std::string>> refused;
    std::erase_if(batch.requests, [&](Request& request) {
      std::string why = copy_request(rules_, request.view, batch.columns, batch.rows, counts_);
      if (why.empty()) {
        batch.rows += request.view.rows;
        return false;
      }
      refused.emplace_back(std::move(request), std::move(why));
      return true;
    });
    batch.actions = batch.columns.offsets[batch.rows];
    if (batch.columns.offsets != batch.offsets.data())
      batch.offsets.assign(batch.columns.offsets, batch.columns.offsets + batch.rows + 1);
    if (refused.empty()) return;
    {
      std::lock_guard lock(mutex_);
      counters_.refused += std::int64_t(refused.size());
      for (const auto& [request, why] : refused) clients_.record_answer(request.client, batch.began_at);
    }
    for (const auto& [request, why] : refused) request.asker->fail(Outcome::kRefused, why);
  }

  static int count_non_finite(const std::int32_t* offsets, const float* logits, const float* values, int rows) {
    int bad = 0;
    for (int row = 0; row < rows; ++row)
      bad += !is_finite_half(values[row]) ||
             !std::all_of(logits + offsets[row], logits + offsets[row + 1], is_finite_half);
    return bad;
  }

  void record_wait(float seconds) {
    if (waits_.size() < kHistory) {
      waits_.push_back(seconds);
    } else {
      waits_[next_wait_] = seconds;
      next_wait_ = (next_wait_ + 1) % kHistory;
    }
  }

  const RequestRules rules_;
  FireRule rule_;
  const size_t max_waiting_;
  std::vector<std::uint16_t> counts_;  // scratch of the thread that gathers

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::deque<Request> queue_;
  std::int64_t positions_ = 0;  // in the queue
  double busy_until_ = 0;       // as `gather` was told last, and
  bool has_room_ = true;
  bool is_woken_ = false, is_closed_ = false;
  std::list<RequestBatch*> running_;
  LiveClients clients_;
  QueueCounters counters_;
  std::vector<float> waits_;  // seconds, a ring
  size_t next_wait_ = 0;
};

// A request of this process, whose caller waits for the answer.
class WaitingCall final : public Asker {
 public:
  explicit WaitingCall(std::string payload) : payload_(std::move(payload)) {}

  std::span<const std::byte> payload() const { return std::as_bytes(std::span(payload_)); }

  std::byte* answer_space(size_t bytes) override {
    answer_.resize(bytes);
    return reinterpret_cast<std::byte*>(answer_.data());
  }

  void deliver(size_t) override { settle(Outcome::kAnswer); }

  void fail(Outcome outcome, const std::string& why) override {
    answer_ = why;
    settle(outcome);
  }

  // Waits for at most so many seconds; whether there is an outcome.
  bool wait(double seconds) {
    std::unique_lock lock(mutex_);
    return settled_.wait_for(lock, std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e6)),
                             [&] { return is_settled_; });
  }

  // After `wait` returned true.
  Outcome outcome() const { return outcome_; }
  const std::string& answer() const { return answer_; }  // or why there is none

 private:
  void settle(Outcome outcome) {
    std::lock_guard lock(mutex_);
    outcome_ = outcome;
    is_settled_ = true;
    settled_.notify_one();
  }

  const std::string payload_;  // its own copy: a caller that gave up is gone while the batch runs
  std::mutex mutex_;
  std::condition_variable settled_;
  bool is_settled_ = false;
  Outcome outcome_ = Outcome::kUnavailable;
  std::string answer_;
};

}  // namespace shusaku
