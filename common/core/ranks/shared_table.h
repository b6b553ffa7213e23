// What the ranks of a learner on one host tell each other: a table in shared memory, with a row for each rank.
//
//   counts   a cache line for each rank: how many rows it has written
//   rows     [2, ranks, row_bytes]: even and odd calls take turns
//
// A rank writes its row, raises its count and waits for the counts of the others.  It writes over that row two calls
// later: the others have raised their counts for the call between by then, so they have read it.
//
// A rank that waits keeps its core, which it has to itself: an answer takes some microseconds instead of the half
// millisecond of a message through the kernel and a second thread.  Each rank locks its byte of the file (fcntl,
// F_OFD_SETLK); the kernel takes the lock from a rank that ends, and those that wait for it find out.
#pragma once

#if defined(__linux__)

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

namespace shusaku {

class SharedTable {
 public:
  static size_t file_bytes(int ranks, size_t row_bytes) { return size_t(ranks) * (kLine + 2 * row_bytes); }

  // Takes the descriptor over; std::system_error if the memory cannot be mapped, or another process has this rank.
  SharedTable(int descriptor, int rank, int ranks, size_t row_bytes)
      : descriptor_(descriptor), rank_(rank), ranks_(ranks), row_bytes_(row_bytes) {
    void* map = mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (map == MAP_FAILED || !lock(F_OFD_SETLK, rank)) {
      const int error = errno;
      if (map != MAP_FAILED) munmap(map, size());
      ::close(descriptor);
      throw std::system_error(error, std::generic_category(), "the ranks' shared memory");
    }
    map_ = static_cast<std::byte*>(map);
  }
  SharedTable(const SharedTable&) = delete;
  ~SharedTable() {
    munmap(map_, size());
    ::close(descriptor_);  // and with it the lock
  }

  size_t row_bytes() const { return row_bytes_; }
  int ranks() const { return ranks_; }

  // Writes the own row and reads those of all: `bytes` from `own`, ranks x `bytes` into `all`.  All ranks make the
  // same calls.  std::runtime_error if a rank has ended, or does not come within `seconds`.
  void gather(const std::byte* own, size_t bytes, std::byte* all, double seconds) {
    post(own, bytes);
    for (int other = 0; other < ranks_; ++other) {
      wait_for(other, seconds);
      std::memcpy(all + size_t(other) * bytes, row(other), bytes);
    }
  }

  // In the same way, the sum of all rows in the place of the own one: added up in the order of the ranks, so that all
  // have the same bits.
  template <class T>
  void sum(T* values, size_t size, double seconds) {
    post(reinterpret_cast<const std::byte*>(values), size * sizeof(T));
    for (int other = 0; other < ranks_; ++other) {
      wait_for(other, seconds);
      const T* const part = reinterpret_cast<const T*>(row(other));
      for (size_t i = 0; i < size; ++i) values[i] = other == 0 ? part[i] : values[i] + part[i];
    }
  }

 private:
  static constexpr size_t kLine = 64;
  static constexpr int kSpins = 1000;   // some tens of microseconds
  static constexpr int kYields = 1000;  // at least half a millisecond
  static constexpr int kSleepsToLook = 20;
  static constexpr auto kSleep = std::chrono::microseconds(100);

  size_t size() const { return file_bytes(ranks_, row_bytes_); }

  std::atomic_ref<std::uint64_t> count(int rank) const {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(map_ + size_t(rank) * kLine));
  }

  // Of the call that is made now.
  std::byte* row(int rank) const {
    return map_ + size_t(ranks_) * kLine + (size_t(calls_ & 1) * size_t(ranks_) + size_t(rank)) * row_bytes_;
  }

  void post(const std::byte* own, size_t bytes) {
    ++calls_;
    std::memcpy(row(rank_), own, bytes);
    count(rank_).store(calls_, std::memory_order_release);
  }

  void wait_for(int other, double seconds) const {
    for (int i = 0; i < kSpins + kYields; ++i) {
      if (has_come(other)) return;
      if (i < kSpins)
        pause();
      else
        std::this_thread::yield();
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (int i = 1; !has_come(other); ++i) {
      std::this_thread::sleep_for(kSleep);
      if (i % kSleepsToLook) continue;
      // A rank that came and ended between the two looks has done its part.
      if (has_ended(other) && !has_come(other))
        throw std::runtime_error("rank " + std::to_string(other) + " has ended");
      if (std::chrono::steady_clock::now() >= end)
        throw std::runtime_error("rank " + std::to_string(other) + " did not come in time");
    }
  }

  bool has_come(int other) const { return count(other).load(std::memory_order_acquire) >= calls_; }

  bool has_ended(int other) const {
    struct flock found;
    return lock(F_OFD_GETLK, other, &found) && found.l_type == F_UNLCK;
  }

  bool lock(int command, int rank, struct flock* result = nullptr) const {
    struct flock byte = {};
    byte.l_type = F_WRLCK;
    byte.l_whence = SEEK_SET;
    byte.l_start = rank;
    byte.l_len = 1;
    const bool is_done = fcntl(descriptor_, command, &byte) == 0;
    if (result) *result = byte;
    return is_done;
  }

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  const int descriptor_, rank_, ranks_;
  const size_t row_bytes_;
  std::uint64_t calls_ = 0;
  std::byte* map_ = nullptr;
};

}  // namespace shusaku

#endif
