// The matrix unit's registers: eight matrices of sixteen rows of 64 bytes.  For files that are compiled for it alone;
// all is inlined, so that nothing of it is shared with others.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace shusaku {

// By assembler, for GCC 12 does not know that its intrinsics read and write memory.  Registers 0 to 3 are sums, 4 and 5
// left sides, 6 and 7 right sides.
template <int kRegister>
[[gnu::always_inline]] inline void load(const void* matrix, size_t bytes_a_row) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(matrix), "r"(bytes_a_row), "i"(kRegister) : "memory");
}
template <int kRegister>
[[gnu::always_inline]] inline void store(void* matrix, size_t bytes_a_row) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(matrix), "r"(bytes_a_row), "i"(kRegister) : "memory");
}
template <int kRegister>
[[gnu::always_inline]] inline void clear() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kRegister));
}

// Sixteen rows of 32 numbers of bf16 and sums of float, or of 64 numbers of 8 bits, those of the left side without a
// sign, and sums of 32 bits.
struct OfBf16 {
  template <int kSums, int kLeft, int kRight>
  [[gnu::always_inline]] static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kLeft), "i"(kRight));
  }
};
struct OfInt8 {
  template <int kSums, int kLeft, int kRight>
  [[gnu::always_inline]] static void multiply() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kLeft), "i"(kRight));
  }
};

// The products of M left and N right sides, each 1 or 2: more sums than that leave no registers to load the next into.
template <class Numbers, int M, int N>
struct Products {
  [[gnu::always_inline]] static void clear_sums() {
    clear<0>();
    if constexpr (N > 1) clear<1>();
    if constexpr (M > 1) clear<2>();
    if constexpr (M > 1 && N > 1) clear<3>();
  }
  // Of 32 bits each; those of the other right side are `other` behind, those of the next left side `next`.
  template <class Sum>
  [[gnu::always_inline]] static void load_sums(const Sum* sums, size_t other, size_t next, size_t bytes_a_row) {
    load<0>(sums, bytes_a_row);
    if constexpr (N > 1) load<1>(sums + other, bytes_a_row);
    if constexpr (M > 1) load<2>(sums + next, bytes_a_row);
    if constexpr (M > 1 && N > 1) load<3>(sums + next + other, bytes_a_row);
  }
  template <class Sum>
  [[gnu::always_inline]] static void store_sums(Sum* sums, size_t other, size_t next, size_t bytes_a_row) {
    store<0>(sums, bytes_a_row);
    if constexpr (N > 1) store<1>(sums + other, bytes_a_row);
    if constexpr (M > 1) store<2>(sums + next, bytes_a_row);
    if constexpr (M > 1 && N > 1) store<3>(sums + next + other, bytes_a_row);
  }
  [[gnu::always_inline]] static void add(const void* left, const void* next_left, size_t bytes_a_row, const void* right,
                                         const void* next_right, size_t bytes_a_right_row = 64) {
    load<4>(left, bytes_a_row);
    load<6>(right, bytes_a_right_row);
    if constexpr (N > 1) load<7>(next_right, bytes_a_right_row);
    if constexpr (M > 1) load<5>(next_left, bytes_a_row);
    Numbers::template multiply<0, 4, 6>();
    if constexpr (N > 1) Numbers::template multiply<1, 4, 7>();
    if constexpr (M > 1) Numbers::template multiply<2, 5, 6>();
    if constexpr (M > 1 && N > 1) Numbers::template multiply<3, 5, 7>();
  }
};

[[gnu::always_inline]] inline void configure_matrices() {
  struct alignas(64) {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes_a_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } const registers;
  asm volatile("ldtilecfg %0" ::"m"(registers));
}
[[gnu::always_inline]] inline void release_matrices() { asm volatile("tilerelease" ::); }

}  // namespace shusaku
