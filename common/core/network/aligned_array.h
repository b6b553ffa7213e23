// Zeros in memory that starts at a register's boundary.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

namespace shusaku {

// Zeros, aligned for registers of 64 bytes; so are 64 bytes behind the end.
template <class T>
class AlignedArray {
 public:
  explicit AlignedArray(std::size_t size)
      : data_(static_cast<T*>(::operator new((size + kBehind) * sizeof(T), std::align_val_t(kAlignment)))) {
    std::fill_n(data_.get(), size + kBehind, T());
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T& operator[](std::size_t i) { return data_.get()[i]; }

 private:
  static constexpr std::size_t kAlignment = 64, kBehind = kAlignment / sizeof(T);
  struct Free {
    void operator()(T* p) const { ::operator delete(p, std::align_val_t(kAlignment)); }
  };
  std::unique_ptr<T, Free> data_;
};

}  // namespace shusaku
