// The connections of an inference server's clients: one thread takes the requests of all of them.
//
// What a connection is, `Peer` hides: shared memory (memory_peer.h) or TCP (tcp_peer.h).  Linux alone has all of it.
#pragma once

#if defined(__linux__)

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "serving/request_queue.h"

namespace shusaku {

// A client's connection, whose descriptors are closed with the object.  It belongs to one client process: if that ends,
// the end of the stream is read.  The port's thread calls it.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual int socket() const = 0;
  // Queues the requests that have arrived; false if the connection has to end.
  virtual bool receive(RequestQueue& queue) = 0;
  // The socket has room again for what could not be sent; false if the connection has to end.
  virtual bool send_more() { return true; }
  // `wait_for_room(true)`, from any thread until `end`: `send_more` is called once the socket has room.
  virtual void begin(std::function<void(bool)> /* wait_for_room */) {}
  // Ends the stream; its requests leave the queue.
  virtual void end(RequestQueue& queue) = 0;
};

// Takes the requests of all connections; `run` in one thread, the rest in any.
class RequestPort {
 public:
  explicit RequestPort(std::shared_ptr<RequestQueue> queue)
      : queue_(std::move(queue)), epoll_(epoll_create1(EPOLL_CLOEXEC)), end_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (epoll_ < 0 || end_ < 0 || !watch(EPOLL_CTL_ADD, end_, kEnd, EPOLLIN)) {
      const int error = errno;
      ::close(epoll_);  // -1 is no descriptor, and refused
      ::close(end_);
      throw std::system_error(error, std::generic_category(), "epoll");
    }
  }
  RequestPort(const RequestPort&) = delete;
  ~RequestPort() {
    ::close(epoll_);
    ::close(end_);
  }

  // Serves a client after its handshake; std::system_error if it cannot be watched.
  void attach(std::shared_ptr<Peer> peer) {
    std::lock_guard lock(mutex_);
    const std::uint64_t id = ++last_id_;
    peer->begin([this, id, socket = peer->socket()](bool waits) {  // fails only while the connection is dropped
      watch(EPOLL_CTL_MOD, socket, id, waits ? EPOLLIN | EPOLLOUT : EPOLLIN);
    });
    if (!watch(EPOLL_CTL_ADD, peer->socket(), id, EPOLLIN))
      throw std::system_error(errno, std::generic_category(), "epoll");
    peers_.emplace(id, std::move(peer));
  }

  size_t max_bytes() const { return queue_->rules().max_bytes; }

  int connections() const {
    std::lock_guard lock(mutex_);
    return int(peers_.size());
  }

  // Serves until `end`, then ends every connection.
  void run() {
    std::array<epoll_event, 64> events;
    for (bool goes_on = true; goes_on;) {
      const int count = epoll_wait(epoll_, events.data(), int(events.size()), -1);
      for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[size_t(i)];
        if (event.data.u64 == kEnd)
          goes_on = false;
        else if (!serve(event.data.u64, event.events))
          drop(event.data.u64);
      }
    }
    std::vector<std::uint64_t> left;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [id, peer] : peers_) left.push_back(id);
    }
    for (std::uint64_t id : left) drop(id);
  }

  void end() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(end_, &one, sizeof one);
  }

 private:
  static constexpr std::uint64_t kEnd = 0;  // no connection has this number

  bool watch(int operation, int descriptor, std::uint64_t id, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    return epoll_ctl(epoll_, operation, descriptor, &event) == 0;
  }

  // Only this thread removes peers, so one that was found stays.
  bool serve(std::uint64_t id, std::uint32_t events) {
    std::shared_ptr<Peer> peer;
    {
      std::lock_guard lock(mutex_);
      const auto found = peers_.find(id);
      if (found == peers_.end()) return true;
      peer = found->second;
    }
    try {
      if ((events & EPOLLOUT) != 0 && !peer->send_more()) return false;
      return (events & ~std::uint32_t(EPOLLOUT)) == 0 || peer->receive(*queue_);
    } catch (const std::bad_alloc&) {  // for its request; the others go on
      return false;
    }
  }

  void drop(std::uint64_t id) {
    std::shared_ptr<Peer> peer;
    {
      std::lock_guard lock(mutex_);
      const auto found = peers_.find(id);
      if (found == peers_.end()) return;
      peer = std::move(found->second);
    }
    epoll_ctl(epoll_, EPOLL_CTL_DEL, peer->socket(), nullptr);
    peer->end(*queue_);
    peer.reset();  // released before it leaves the list, unless a batch still reads its rows
    std::lock_guard lock(mutex_);
    peers_.erase(id);
  }

  const std::shared_ptr<RequestQueue> queue_;
  const int epoll_, end_;
  mutable std::mutex mutex_;                                        // guards the map
  std::unordered_map<std::uint64_t, std::shared_ptr<Peer>> peers_;  // by number, for the system gives descriptors again
  std::uint64_t last_id_ = kEnd;
};

}  // namespace shusaku

#endif
