// A client of this host: its requests lie in shared memory, and a byte over a socket says in which slot.
//
//   slot    status u4 | size u4 | written at f8, seconds of the host's monotonic clock | body [slot_bytes]
//
// `actors/inference/shm_segment.py` describes the memory and makes it; a connection comes here after its handshake.
#pragma once

#if defined(__linux__)

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "serving/request_port.h"

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

// The client behind the connection.
class MemoryPeer final : public Peer {
 public:
  explicit MemoryPeer(std::shared_ptr<SlotConnection> connection)
      : connection_(std::move(connection)), requests_(size_t(connection_->slots())) {}

  int socket() const override { return connection_->socket(); }

  bool receive(RequestQueue& queue) override {
    std::uint8_t slot = 0;
    const ssize_t got = ::recv(connection_->socket(), &slot, 1, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0 || slot >= connection_->slots()) return false;
    auto request = requests_[slot] = std::make_shared<SlotRequest>(connection_, slot);
    const SlotHead head = connection_->read_head(slot);
    if (head.status != kSlotHoldsRequest || head.size > connection_->slot_bytes()) {
      queue.count_refused();
      request->fail(Outcome::kRefused, "slot " + std::to_string(slot) + " holds no request");
      return true;
    }
    queue.submit(std::move(request), connection_->client(), {connection_->body(slot), head.size});
    return true;
  }

  void end(RequestQueue& queue) override {
    connection_->shut();
    for (const auto& request : requests_)  // its answer would have no reader
      if (request) queue.withdraw(request.get());
  }

 private:
  const std::shared_ptr<SlotConnection> connection_;
  std::vector<std::shared_ptr<SlotRequest>> requests_;  // the newest of each slot
};

}  // namespace shusaku

#endif
