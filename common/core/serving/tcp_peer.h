// A client of another host: requests and answers travel over TCP.
//
//   request   bytes u4 | ticket u4 | request of request_layout.h
//   answer    bytes u4 | ticket u4 | outcome u4 | answer, or the reason as text
//
// little-endian; the ticket is the client's, and comes back with the answer.  A connection comes here after its
// handshake, which `actors/inference/tcp_server.py` makes.
#pragma once

#if defined(__linux__)

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "serving/request_port.h"

namespace shusaku {

struct TcpRequestHead {
  std::uint32_t bytes, ticket;
};
struct TcpAnswerHead {
  std::uint32_t bytes, ticket, outcome;
};
constexpr int kMostTickets = 16;    // requests of a connection that have no answer yet
constexpr size_t kMostText = 4096;  // bytes of a reason

// The sending side of a connection; the server's thread answers, the port's thread sends what had no room.
class TcpSender {
 public:
  // Takes the descriptor over.
  explicit TcpSender(int socket) : socket_(socket) {}
  TcpSender(const TcpSender&) = delete;
  ~TcpSender() { ::close(socket_); }

  int socket() const { return socket_; }

  void begin(std::function<void(bool)> wait_for_room) { wait_for_room_ = std::move(wait_for_room); }

  bool is_open() const { return is_open_; }

  // Sends a frame, as much of it as there is room for; the rest follows by `send_more`.
  void send(std::vector<std::byte> frame) {
    std::lock_guard lock(mutex_);
    if (!is_open_) return;
    size_t sent = 0;
    if (waiting_.empty() && !send_some(frame, sent)) {
      ::shutdown(socket_, SHUT_RDWR);  // the port's thread reads the end of the stream
      return;
    }
    if (sent == frame.size()) return;
    if (waiting_.size() >= size_t(kMostTickets)) {  // it asks on without reading
      ::shutdown(socket_, SHUT_RDWR);
      return;
    }
    if (waiting_.empty()) {
      sent_ = sent;
      wait_for_room_(true);
    }
    waiting_.push_back(std::move(frame));
  }

  // Whether the connection may go on.
  bool send_more() {
    std::lock_guard lock(mutex_);
    while (!waiting_.empty()) {
      if (!send_some(waiting_.front(), sent_)) return false;
      if (sent_ < waiting_.front().size()) return true;
      waiting_.pop_front();
      sent_ = 0;
    }
    wait_for_room_(false);
    return true;
  }

  void shut() {
    std::lock_guard lock(mutex_);
    is_open_ = false;
    waiting_.clear();
    ::shutdown(socket_, SHUT_RDWR);
  }

 private:
  // False if the client is gone.
  bool send_some(const std::vector<std::byte>& frame, size_t& sent) const {
    while (sent < frame.size()) {
      const ssize_t n = ::send(socket_, frame.data() + sent, frame.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno == EAGAIN;
      sent += size_t(n);
    }
    return true;
  }

  const int socket_;
  std::function<void(bool)> wait_for_room_;
  std::atomic<bool> is_open_ = true;            // written under the lock
  std::mutex mutex_;                            // guards all below
  std::deque<std::vector<std::byte>> waiting_;  // at most kMostTickets
  size_t sent_ = 0;                             // of the first one
};

// One request, and the memory that it lies in.
class TcpRequest final : public Asker {
 public:
  TcpRequest(std::shared_ptr<TcpSender> sender, std::uint32_t ticket, std::vector<std::byte> payload,
             std::shared_ptr<std::atomic<int>> in_flight)
      : sender_(std::move(sender)), payload_(std::move(payload)), in_flight_(std::move(in_flight)), ticket_(ticket) {}

  std::span<const std::byte> payload() const { return payload_; }

  std::byte* answer_space(size_t bytes) override {
    if (!sender_->is_open()) return nullptr;
    answer_.resize(sizeof(TcpAnswerHead) + bytes);
    return answer_.data() + sizeof(TcpAnswerHead);
  }

  void deliver(size_t) override { send(Outcome::kAnswer); }

  void fail(Outcome outcome, const std::string& why) override {
    const size_t bytes = std::min(why.size(), kMostText);
    answer_.resize(sizeof(TcpAnswerHead) + bytes);
    std::memcpy(answer_.data() + sizeof(TcpAnswerHead), why.data(), bytes);
    send(outcome == Outcome::kRefused ? outcome : Outcome::kUnavailable);
  }

 private:
  void send(Outcome outcome) {
    const TcpAnswerHead head{std::uint32_t(answer_.size() - sizeof head), ticket_, std::uint32_t(outcome)};
    std::memcpy(answer_.data(), &head, sizeof head);
    --*in_flight_;  // before the client can send the next one
    sender_->send(std::move(answer_));
  }

  const std::shared_ptr<TcpSender> sender_;
  const std::vector<std::byte> payload_;
  const std::shared_ptr<std::atomic<int>> in_flight_;
  const std::uint32_t ticket_;
  std::vector<std::byte> answer_;
};

// The client behind the connection.
class TcpPeer final : public Peer {
 public:
  // Takes the descriptor over; `max_bytes`: of a request.
  TcpPeer(int socket, std::int64_t client, size_t max_bytes)
      : sender_(std::make_shared<TcpSender>(socket)), client_(client), max_bytes_(max_bytes) {}

  int socket() const override { return sender_->socket(); }
  void begin(std::function<void(bool)> wait_for_room) override { sender_->begin(std::move(wait_for_room)); }
  bool send_more() override { return sender_->send_more(); }

  bool receive(RequestQueue& queue) override {
    // One look at the socket for each event, so that a busy client does not keep the others waiting.
    if (filled_ + staged_.size() <= payload_.size()) {  // a large request, whose rest goes where it belongs
      const ssize_t got = read(payload_.data() + filled_, payload_.size() - filled_);
      if (got <= 0) return got == kLater;
      filled_ += size_t(got);
      return filled_ < payload_.size() || submit(queue);
    }
    const ssize_t got = read(staged_.data(), staged_.size());
    if (got <= 0) return got == kLater;
    for (size_t at = 0; at < size_t(got);) {
      if (head_filled_ < sizeof head_) {
        at += take(staged_.data() + at, size_t(got) - at, reinterpret_cast<std::byte*>(&head_), sizeof head_,
                   head_filled_);
        if (head_filled_ < sizeof head_) return true;
        if (head_.bytes < 1 || head_.bytes > max_bytes_) return false;
        payload_.resize(head_.bytes);
        filled_ = 0;
      }
      at += take(staged_.data() + at, size_t(got) - at, payload_.data(), payload_.size(), filled_);
      if (filled_ == payload_.size() && !submit(queue)) return false;
    }
    return true;
  }

  void end(RequestQueue& queue) override {
    sender_->shut();
    for (const auto& one : requests_)  // its answer would have no reader
      if (const auto request = one.lock()) queue.withdraw(request.get());
  }

 private:
  static constexpr ssize_t kLater = -1, kGone = 0;

  // Bytes read; kLater if there are none, kGone if there will be none.
  ssize_t read(std::byte* to, size_t bytes) const {
    const ssize_t got = ::recv(sender_->socket(), to, bytes, MSG_DONTWAIT);
    return got >= 0 ? got : errno == EAGAIN || errno == EINTR ? kLater : kGone;
  }

  // Copies until `to` is full; how many bytes.
  static size_t take(const std::byte* from, size_t bytes, std::byte* to, size_t size, size_t& filled) {
    const size_t n = std::min(bytes, size - filled);
    std::memcpy(to + filled, from, n);
    filled += n;
    return n;
  }

  // Queues the request that is complete; false if the client has too many under way.
  bool submit(RequestQueue& queue) {
    if (++*in_flight_ > kMostTickets) return false;
    auto request = std::make_shared<TcpRequest>(sender_, head_.ticket, std::move(payload_), in_flight_);
    payload_ = {};
    filled_ = head_filled_ = 0;
    std::erase_if(requests_, [](const auto& one) { return one.expired(); });
    requests_.push_back(request);
    const auto payload = request->payload();
    queue.submit(std::move(request), client_, payload);
    return true;
  }

  const std::shared_ptr<TcpSender> sender_;
  const std::int64_t client_;
  const size_t max_bytes_;
  const std::shared_ptr<std::atomic<int>> in_flight_ = std::make_shared<std::atomic<int>>(0);
  std::array<std::byte, 1 << 16> staged_;
  TcpRequestHead head_{};
  size_t head_filled_ = 0;
  std::vector<std::byte> payload_;
  size_t filled_ = 0;
  std::vector<std::weak_ptr<TcpRequest>> requests_;
};

}  // namespace shusaku

#endif
