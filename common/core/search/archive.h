// Bytes of an open game, for checkpoints of this program's own runs: numbers as they lie in memory, lengths checked.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace shusaku {

class Writer {
 public:
  std::string bytes;

  void raw(const void* data, size_t size) { bytes.append(static_cast<const char*>(data), size); }
  template <class T>
  void raw(const T* data, std::uint32_t count) {
    raw(static_cast<const void*>(data), sizeof(T) * count);
  }
  template <class T>
  void number(const T& x) {
    static_assert(std::is_trivially_copyable_v<T>);
    raw(static_cast<const void*>(&x), sizeof x);
  }
  template <class T>
  void vector(const std::vector<T>& v) {
    number(std::uint64_t(v.size()));
    raw(static_cast<const void*>(v.data()), sizeof(T) * v.size());
  }
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  void raw(void* data, size_t size) {
    if (size > bytes_.size()) throw std::invalid_argument("the snapshot of the open games is cut short");
    std::memcpy(data, bytes_.data(), size);
    bytes_.remove_prefix(size);
  }
  template <class T>
  void raw(T* data, std::uint32_t count) {
    raw(static_cast<void*>(data), sizeof(T) * count);
  }
  template <class T>
  void number(T& x) {
    raw(static_cast<void*>(&x), sizeof x);
  }
  template <class T>
  void vector(std::vector<T>& v) {
    std::uint64_t size = 0;
    number(size);
    if (size > bytes_.size() / sizeof(T)) throw std::invalid_argument("the snapshot of the open games is damaged");
    v.resize(size);
    raw(static_cast<void*>(v.data()), sizeof(T) * size);
  }
  bool is_empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

}  // namespace shusaku
