// Memory in pages of 2 MiB if the system gives them: a table of many megabytes that is read at random otherwise
// misses the translation of nearly every address, and even a prefetch waits for that.
#pragma once

#include <cstddef>
#include <new>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace shusaku {

template <class T>
struct HugePages {
  using value_type = T;
  static constexpr size_t kPage = size_t(2) << 20;

  HugePages() = default;
  template <class U>
  HugePages(const HugePages<U>&) {}

  T* allocate(size_t n) {
    void* memory = ::operator new(bytes(n), std::align_val_t(kPage));
#if defined(MADV_HUGEPAGE)
    madvise(memory, bytes(n), MADV_HUGEPAGE);  // a hint; if it is refused, small pages do
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t n) { ::operator delete(memory, bytes(n), std::align_val_t(kPage)); }

  bool operator==(const HugePages&) const { return true; }

 private:
  static size_t bytes(size_t n) { return (n * sizeof(T) + kPage - 1) / kPage * kPage; }
};

}  // namespace shusaku
