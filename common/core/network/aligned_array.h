// Zeros in memory that starts at a register's boundary.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

namespace shusaku {

// Zeros, aligned for registers of 64 bytes, and some bytes more behind the end.
template <class T>
class AlignedArray {
 public:
  explicit AlignedArray(std::size_t size)
      : data_(static_cast<T*>(::operator new(size * sizeof(T) + kAlignment, std::align_val_t(kAlignment)))) {
    std::fill_n(data_.get(), size, T());
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T& operator[](std::size_t i) { return data_.get()[i]; }

 private:
  static constexpr std::size_t kAlignment = 64;
  struct Free {
    void operator()(T* p) const { ::operator delete(p, std::align_val_t(kAlignment)); }
  };
  std::unique_ptr<T, Free> data_;
};

}  // namespace shusaku
