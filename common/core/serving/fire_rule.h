// When an inference server stops gathering and runs a batch: the rule alone, without clock, threads or requests; and
// which clients can still send one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <unordered_map>

namespace shusaku {

// A batch runs when it is full, when no more can come, or at the deadline.  While the device computes the batch
// before, an earlier start gains nothing, so then the deadline is the end of that batch.  An idle device waits for a
// client that stands still once, not at every batch: for one that was late at a deadline it waits again after its next
// request.
struct FireRule {
  int largest = 1;        // positions of a full batch
  double deadline_s = 0;  // an idle device waits at most so long for others to join the oldest request

  // How long to keep gathering, at most; 0: run now.  `waited`: seconds that the oldest request has waited; `able`:
  // live clients that can send another request before they get an answer, `prompt`: those of them that were not late;
  // `busy_s`: until the device is free.
  double seconds_left(std::int64_t positions, int able, int prompt, double waited, double busy_s) const {
    if (positions >= largest || able == 0) return 0;
    return std::max({0.0, prompt > 0 ? deadline_s - waited : 0.0, busy_s});
  }

  // Whether an idle device waited until the deadline in vain: those that could have sent a request are late.
  // `waited`: seconds that the device was idle and a request waited.
  bool is_missed(std::int64_t positions, int prompt, double waited) const {
    return positions < largest && prompt > 0 && waited >= deadline_s;
  }
};

// Which clients sent a request lately, which of them wait for answers and send nothing until then, and which are late.
//
// How many requests a client has in flight before it waits is not declared but seen: the most of its last requests.
class LiveClients {
 public:
  explicit LiveClients(double seconds) : seconds_(seconds) {}

  // A request of this client arrived.
  void record_request(std::int64_t client, double now) {
    auto [found, is_new] = clients_.try_emplace(client);
    State& s = found->second;
    if (is_new) {
      order_.push_back(client);
      s.place = std::prev(order_.end());
      count_in(s, 1);
    } else {
      order_.splice(order_.end(), order_, s.place);
    }
    change(s, [&] {
      s.last_seen = now;
      s.is_late = false;
      s.peak = std::max(s.peak, ++s.in_flight);
      if (++s.since == kWindow) s.most_before = s.peak, s.peak = s.in_flight, s.since = 0;
    });
    if (clients_.size() > kMostClients) forget(order_.begin());
  }

  // A request of this client was answered, or given up.
  void record_answer(std::int64_t client, double now) {
    const auto found = clients_.find(client);
    if (found == clients_.end()) return;
    State& s = found->second;
    order_.splice(order_.end(), order_, s.place);
    change(s, [&] {
      s.last_seen = now;
      s.in_flight = std::max(0, s.in_flight - 1);
    });
  }

  // An idle device waited until the deadline: who could have sent a request is late until its next one.
  void record_deadline() {
    for (auto& [client, s] : clients_)
      if (s.is_prompt()) change(s, [&s] { s.is_late = true; });
  }

  // How many clients are live: a request or an answer in the last `seconds`, or a request that waits for its answer.
  int count(double now) {
    expire(now);
    return int(clients_.size());
  }

  // How many live clients can send another request before they get an answer.
  int able(double now) {
    expire(now);
    return able_;
  }

  // How many of them were not late at the last deadline.
  int prompt(double now) {
    expire(now);
    return prompt_;
  }

 private:
  static constexpr int kWindow = 16;              // requests that `most` looks back at, once or twice
  static constexpr size_t kMostClients = 65'536;  // beyond it the one not seen for longest is forgotten

  struct State {
    double last_seen = 0;
    int in_flight = 0, peak = 0, most_before = 0, since = 0;
    bool is_late = false;
    std::list<std::int64_t>::iterator place;
    bool is_able() const { return in_flight < std::max({1, peak, most_before}); }
    bool is_prompt() const { return is_able() && !is_late; }
  };

  void count_in(const State& s, int sign) {
    able_ += sign * s.is_able();
    prompt_ += sign * s.is_prompt();
  }

  template <class F>
  void change(State& s, F f) {
    count_in(s, -1);
    f();
    count_in(s, 1);
  }

  void expire(double now) {
    for (auto at = order_.begin(); at != order_.end();) {
      const State& s = clients_.at(*at);
      if (now - s.last_seen <= seconds_) return;  // those behind it are younger
      const auto next = std::next(at);
      if (s.in_flight == 0) forget(at);
      at = next;
    }
  }

  void forget(std::list<std::int64_t>::iterator at) {
    count_in(clients_.at(*at), -1);
    clients_.erase(*at);
    order_.erase(at);
  }

  double seconds_;
  int able_ = 0, prompt_ = 0;
  std::list<std::int64_t> order_;  // the one seen last at the end
  std::unordered_map<std::int64_t, State> clients_;
};

}  // namespace shusaku
