// Requests of clients of this host: they lie in shared memory, and a byte over a socket says in which slot.
//
//   slot    status u4 | size u4 | written at f8, seconds of the host's monotonic clock | body [slot_bytes]
//
// `actors/inference/shm_segment.py` describes the memory and makes it; a connection comes here after its handshake.
// It belongs to one client process: if that ends, the end of the stream is read at once.  Linux alone has all of it.
#pragma once

#if defined(__linux__)

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "serving/request_queue.h"

namespace shusaku {

struct SlotHead {
  std::uint32_t status, size;
  double written_at;
};
constexpr std::uint32_t kSlotHoldsRequest = 0;
constexpr size_t kSlotAlign = 64;

inline size_t slot_stride(size_t slot_bytes) {
  return (sizeof(SlotHead) + slot_bytes + kSlotAlign - 1) / kSlotAlign * kSlotAlign;
}

// A client's socket and memory, which are released with the object.
class SlotConnection {
 public:
  // Takes both descriptors over; std::system_error if the memory cannot be mapped.
  SlotConnection(int socket, int memory, int slots, size_t slot_bytes, std::int64_t client)
      : socket_(socket), memory_(memory), slots_(slots), slot_bytes_(slot_bytes), client_(client) {
    void* map = mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (map == MAP_FAILED) {
      const int error = errno;
      ::close(socket_);
      ::close(memory_);
      throw std::system_error(error, std::generic_category(), "shared memory");
    }
    map_ = static_cast<std::byte*>(map);
  }
  SlotConnection(const SlotConnection&) = delete;
  ~SlotConnection() {
    munmap(map_, size());
    ::close(memory_);
    ::close(socket_);
  }

  int socket() const { return socket_; }
  int slots() const { return slots_; }
  size_t slot_bytes() const { return slot_bytes_; }
  std::int64_t client() const { return client_; }
  std::byte* body(int slot) const { return head(slot) + sizeof(SlotHead); }

  SlotHead read_head(int slot) const {
    SlotHead h;
    std::memcpy(&h, head(slot), sizeof h);
    return h;
  }

  // Tells the client that its slot holds this.
  void deliver(int slot, Outcome outcome, size_t bytes) {
    const SlotHead h{std::uint32_t(outcome), std::uint32_t(bytes), monotonic_seconds()};
    std::memcpy(head(slot), &h, sizeof h);
    const std::uint8_t number = std::uint8_t(slot);
    // The client died, or does not read: the port reads the end of the stream and drops the connection.
    if (::send(socket_, &number, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1) shut();
  }

  // Ends the stream; the memory stays until the last request that lies in it is gone.
  void shut() {
    is_open_ = false;
    ::shutdown(socket_, SHUT_RDWR);
  }

  bool is_open() const { return is_open_; }

 private:
  size_t size() const { return size_t(slots_) * slot_stride(slot_bytes_); }
  std::byte* head(int slot) const { return map_ + size_t(slot) * slot_stride(slot_bytes_); }

  const int socket_, memory_, slots_;
  const size_t slot_bytes_;
  const std::int64_t client_;
  std::byte* map_ = nullptr;
  std::atomic<bool> is_open_ = true;
};

// The request in one slot; the answer, which is never larger, overwrites it.
class SlotRequest final : public Asker {
 public:
  SlotRequest(std::shared_ptr<SlotConnection> connection, int slot) : connection_(std::move(connection)), slot_(slot) {}

  std::byte* answer_space(size_t bytes) override {
    return connection_->is_open() && bytes <= connection_->slot_bytes() ? connection_->body(slot_) : nullptr;
  }

  void deliver(size_t bytes) override { connection_->deliver(slot_, Outcome::kAnswer, bytes); }

  void fail(Outcome outcome, const std::string& why) override {
    if (!connection_->is_open()) return;
    const size_t bytes = std::min(why.size(), connection_->slot_bytes());
    std::memcpy(connection_->body(slot_), why.data(), bytes);
    connection_->deliver(slot_, outcome == Outcome::kRefused ? outcome : Outcome::kUnavailable, bytes);
  }

 private:
  std::shared_ptr<SlotConnection> connection_;
  int slot_;
};

// Takes the requests of all connections; `run` in one thread, the rest in any.
class RequestPort {
 public:
  explicit RequestPort(std::shared_ptr<RequestQueue> queue)
      : queue_(std::move(queue)), epoll_(epoll_create1(EPOLL_CLOEXEC)), end_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (epoll_ < 0 || end_ < 0) throw std::system_error(errno, std::generic_category(), "epoll");
    watch(end_, kEnd);
  }
  RequestPort(const RequestPort&) = delete;
  ~RequestPort() {
    ::close(epoll_);
    ::close(end_);
  }

  // Serves a client after its handshake; takes both descriptors over, also if it fails: std::system_error.
  void attach(int socket, int memory, int slots, size_t slot_bytes, std::int64_t client) {
    auto connection = std::make_shared<SlotConnection>(socket, memory, slots, slot_bytes, client);
    std::lock_guard lock(mutex_);
    watch(socket, ++last_id_);
    connections_.emplace(last_id_,
                         Entry{std::move(connection), std::vector<std::shared_ptr<SlotRequest>>(size_t(slots))});
  }

  int connections() const {
    std::lock_guard lock(mutex_);
    return int(connections_.size());
  }

  // Serves until `end`, then ends every connection.
  void run() {
    std::array<epoll_event, 64> events;
    for (bool goes_on = true; goes_on;) {
      const int count = epoll_wait(epoll_, events.data(), int(events.size()), -1);
      for (int i = 0; i < count; ++i) {
        const std::uint64_t id = events[size_t(i)].data.u64;
        if (id == kEnd) {
          goes_on = false;
        } else if (!serve(id)) {
          drop(id);
        }
      }
    }
    std::vector<std::uint64_t> left;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [id, entry] : connections_) left.push_back(id);
    }
    for (std::uint64_t id : left) drop(id);
  }

  void end() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(end_, &one, sizeof one);
  }

 private:
  struct Entry {
    std::shared_ptr<SlotConnection> connection;
    std::vector<std::shared_ptr<SlotRequest>> requests;  // the newest of each slot
  };

  static constexpr std::uint64_t kEnd = 0;  // no connection has this number

  void watch(int descriptor, std::uint64_t id) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = id;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0)
      throw std::system_error(errno, std::generic_category(), "epoll");
  }

  // Queues the requests that the client's messages name; false if the connection has to end.
  bool serve(std::uint64_t id) {
    Entry* entry = nullptr;
    {
      std::lock_guard lock(mutex_);
      const auto found = connections_.find(id);
      if (found == connections_.end()) return true;
      entry = &found->second;  // only this thread removes entries, and others do not move it
    }
    SlotConnection& connection = *entry->connection;
    std::uint8_t slot = 0;
    const ssize_t got = ::recv(connection.socket(), &slot, 1, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0 || slot >= connection.slots()) return false;
    auto request = entry->requests[slot] = std::make_shared<SlotRequest>(entry->connection, slot);
    const SlotHead head = connection.read_head(slot);
    if (head.status != kSlotHoldsRequest || head.size > connection.slot_bytes()) {
      queue_->count_refused();
      request->fail(Outcome::kRefused, "slot " + std::to_string(slot) + " holds no request");
      return true;
    }
    queue_->submit(std::move(request), connection.client(), {connection.body(slot), head.size});
    return true;
  }

  void drop(std::uint64_t id) {
    Entry entry;
    {
      std::lock_guard lock(mutex_);
      const auto found = connections_.find(id);
      if (found == connections_.end()) return;
      entry = std::move(found->second);
    }
    epoll_ctl(epoll_, EPOLL_CTL_DEL, entry.connection->socket(), nullptr);
    entry.connection->shut();
    for (const auto& request : entry.requests)  // its answer would have no reader
      if (request) queue_->withdraw(request.get());
    entry = {};  // released before it leaves the list, unless a batch still reads its rows
    std::lock_guard lock(mutex_);
    connections_.erase(id);
  }

  const std::shared_ptr<RequestQueue> queue_;
  const int epoll_, end_;
  mutable std::mutex mutex_;                              // guards the map
  std::unordered_map<std::uint64_t, Entry> connections_;  // by number, for the system gives descriptors again
  std::uint64_t last_id_ = kEnd;
};

}  // namespace shusaku

#endif
