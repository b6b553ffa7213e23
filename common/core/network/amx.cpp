// The loops of `amx_loops.h`; compiled with AVX-512 BF16 on x86-64, whatever the rest is compiled for.
#include "network/amx_loops.h"

#if defined(SHUSAKU_AMX)
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 says both of its own intrinsics
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "network/amx_registers.h"

namespace shusaku {
namespace {

// To the nearest, ties to even.
uint16_t bf16_of(float number) {
  const __m128bh rounded = _mm_cvtneps_pbh(_mm_set_ss(number));
  return uint16_t(_mm_extract_epi16(reinterpret_cast<const __m128i&>(rounded), 0));
}

void pack_kernels(const float* kernels, KernelStrides strides, int inputs, int outputs, uint16_t* packed) {
  for (int first = 0; first < outputs; first += 32)
    for (int row = 0; row < 3; ++row)
      for (int matrix = 0; matrix < row_matrices(inputs); ++matrix)
        for (int output = first; output < outputs && output < first + 32; output += 16, packed += kMatrixNumbers)
          for (int i = 0; i < 32; ++i) {
            const int tap = (32 * matrix + i) / inputs, input = (32 * matrix + i) % inputs;
            const float* from =
                kernels + output * strides.output + input * strides.input + (3 * row + tap) * strides.tap;
            uint16_t* const to = packed + i / 2 * 32 + i % 2;
            for (int column = 0; column < 16; ++column)
              to[2 * column] = tap < 3 ? bf16_of(from[column * strides.output]) : uint16_t(0);
          }
}

// Positions of a board, sixteen of them, whose sums wait to be written.
struct Rows {
  const uint16_t* numbers;
  const int* cells;
  uint16_t* y;
};

__m512 floats_at(const uint16_t* numbers) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

template <int N, bool kAdds>
class Convolution {
 public:
  Convolution(const AmxBoard& shape, const uint16_t* packed, int inputs, int outputs)
      : packed_(packed), row_(shape.pitch() * inputs), inputs_(inputs), outputs_(outputs) {}

  // At sixteen positions, or twice sixteen.
  template <int M>
  [[gnu::always_inline]] void run(const Rows& rows, const Rows& next) {
    using Sums = Products<OfBf16, M, N>;
    Sums::clear_sums();
    const uint16_t* kernels = packed_;
    for (int row = -1; row <= 1; ++row) {
      const uint16_t *left = rows.numbers + row * row_ - inputs_, *next_left = next.numbers + row * row_ - inputs_;
      for (int i = 0; i < row_matrices(inputs_); ++i, left += 32, next_left += 32, kernels += N * kMatrixNumbers)
        Sums::add(left, next_left, size_t(inputs_) * 2, kernels, kernels + kMatrixNumbers);
    }
    Sums::store_sums(sums_, 16, N * kSumNumbers, N * 64);
    write(sums_, rows);
    if constexpr (M > 1) write(sums_ + N * kSumNumbers, next);
  }

 private:
  void write(const float* sums, const Rows& rows) const {
    for (int i = 0; i < 16; ++i, sums += 16 * N) {
      if (rows.cells[i] < 0) continue;
      uint16_t* const to = rows.y + ptrdiff_t(rows.cells[i]) * outputs_;
      const auto numbers = [&](int from) {
        const __m512 sum = _mm512_load_ps(sums + from);
        return kAdds ? _mm512_add_ps(sum, floats_at(to + from)) : sum;
      };
      if constexpr (N > 1) {
        const __m512bh rounded = _mm512_cvtne2ps_pbh(numbers(16), numbers(0));
        _mm512_storeu_si512(to, reinterpret_cast<const __m512i&>(rounded));
      } else {
        const __m256bh rounded = _mm512_cvtneps_pbh(numbers(0));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<const __m256i&>(rounded));
      }
    }
  }

  const uint16_t* packed_;
  ptrdiff_t row_;
  int inputs_, outputs_;
  alignas(64) float sums_[2 * N * kSumNumbers];
};

template <int N, bool kAdds>
void convolve_outputs(const AmxBoard& shape, const uint16_t* first, int boards, const uint16_t* packed, int inputs,
                      int outputs, const int* cells, uint16_t* y) {
  Convolution<N, kAdds> convolution(shape, packed, inputs, outputs);
  const auto rows_at = [&](int i) {
    const int board = i / shape.row_blocks(), matrix = i % shape.row_blocks();
    return Rows{first + ptrdiff_t(board * shape.positions() + 16 * matrix) * inputs, cells + 16 * matrix,
                y + ptrdiff_t(board) * shape.height * shape.width * outputs};
  };
  const int all = boards * shape.row_blocks();
  for (int i = 0; i + 1 < all; i += 2) convolution.template run<2>(rows_at(i), rows_at(i + 1));
  if (all % 2 == 1) convolution.template run<1>(rows_at(all - 1), rows_at(all - 1));
}

void convolve(const AmxBoard& shape, const uint16_t* first, int boards, const uint16_t* packed, int inputs, int outputs,
              const int* cells, bool adds, uint16_t* y) {
  const size_t of_outputs = size_t(3 * row_matrices(inputs)) * kMatrixNumbers;  // for sixteen of them
  for (int output = 0; output < outputs; output += 32, packed += 2 * of_outputs) {
    const bool is_wide = output + 32 <= outputs;
    (adds      ? is_wide ? convolve_outputs<2, true> : convolve_outputs<1, true>
     : is_wide ? convolve_outputs<2, false>
               : convolve_outputs<1, false>)(shape, first, boards, packed, inputs, outputs, cells, y + output);
  }
}

// Sixteen channels of two positions, [16][2].
__m512i pair_at(const uint16_t* numbers, int channels) {
  const auto at = [](const uint16_t* p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  };
  return _mm512_or_si512(at(numbers), _mm512_slli_epi32(at(numbers + channels), 16));
}

void interleave(const uint16_t* numbers, int channels, int pairs, uint16_t* interleaved) {
  for (int channel = 0; channel < channels; channel += 16)
    for (int i = 0; i < pairs; ++i, interleaved += 32)
      _mm512_store_si512(interleaved, pair_at(numbers + ptrdiff_t(2 * i) * channels + channel, channels));
}

// Rows and columns of 16 x 16 numbers of 32 bits change places.
[[gnu::always_inline]] inline void transpose_16x16(__m512i (&rows)[16]) {
  __m512i other[16];
  for (int i = 0; i < 16; i += 2) {
    other[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    other[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {  // row i + j: columns j, 4 + j, 8 + j and 12 + j of four rows
    rows[i] = _mm512_unpacklo_epi64(other[i], other[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(other[i], other[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(other[i + 1], other[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(other[i + 1], other[i + 3]);
  }
  for (int j = 0; j < 4; ++j) {
    const __m512i even = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0x88),
                  odd = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0xdd),
                  even_below = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0x88),
                  odd_below = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0xdd);
    other[j] = _mm512_shuffle_i32x4(even, even_below, 0x88);
    other[4 + j] = _mm512_shuffle_i32x4(odd, odd_below, 0x88);
    other[8 + j] = _mm512_shuffle_i32x4(even, even_below, 0xdd);
    other[12 + j] = _mm512_shuffle_i32x4(odd, odd_below, 0xdd);
  }
  for (int i = 0; i < 16; ++i) rows[i] = other[i];
}

void transpose(const uint16_t* numbers, int channels, int matrices, uint16_t* transposed) {
  for (int channel = 0; channel < channels; channel += 16)
    for (int matrix = 0; matrix < matrices; ++matrix, transposed += kMatrixNumbers) {
      __m512i rows[16];
      for (int i = 0; i < 16; ++i)
        rows[i] = pair_at(numbers + ptrdiff_t(32 * matrix + 2 * i) * channels + channel, channels);
      transpose_16x16(rows);
      for (int i = 0; i < 16; ++i) _mm512_store_si512(transposed + 32 * i, rows[i]);
    }
}

// Matrices of one tap, and how far it is from one sixteen of outputs, or of inputs, to the next.
struct Sides {
  const uint16_t *left, *right;
  size_t next_left, next_right;
  int matrices;
};

template <int M, int N>
void add_sides(const Sides& sides, float* sums, size_t next) {
  using Sums = Products<OfBf16, M, N>;
  Sums::load_sums(sums, kSumNumbers, next, 64);
  const uint16_t *left = sides.left, *right = sides.right;
  for (int i = 0; i < sides.matrices; ++i, left += kMatrixNumbers, right += kMatrixNumbers)
    Sums::add(left, left + sides.next_left, 64, right, right + sides.next_right);
  Sums::store_sums(sums, kSumNumbers, next, 64);
}

void add_products(const AmxBoard& shape, const uint16_t* transposed, int matrices, const uint16_t* even,
                  const uint16_t* odd, int pairs, int inputs, int outputs, float* sums) {
  const int lefts = outputs / 16, rights = inputs / 16;
  const size_t next_left = size_t(matrices) * kMatrixNumbers, next_right = size_t(pairs) * 32,
               next = size_t(rights) * kSumNumbers;
  for (int left = 0; left < lefts; left += 2)
    for (int right = 0; right < rights; right += 2)
      for (int tap = 0; tap < 9; ++tap) {
        const int from = shape.lead() + (tap / 3 - 1) * shape.pitch() + tap % 3 - 1;
        const uint16_t* pair = (from % 2 == 0 ? even : odd) + size_t(right) * next_right + ptrdiff_t(from / 2) * 32;
        const Sides sides{transposed + size_t(left) * next_left, pair, next_left, next_right, matrices};
        float* const to = sums + size_t(tap * lefts + left) * next + size_t(right) * kSumNumbers;
        const bool has_left = left + 1 < lefts, has_right = right + 1 < rights;
        (has_left    ? has_right ? add_sides<2, 2> : add_sides<2, 1>
         : has_right ? add_sides<1, 2>
                     : add_sides<1, 1>)(sides, to, next);
      }
}

constexpr AmxLoops kLoops{[] { configure_matrices(); },
                          [] { release_matrices(); },
                          pack_kernels,
                          convolve,
                          interleave,
                          transpose,
                          add_products};

}  // namespace

const AmxLoops* const kAmx = &kLoops;

}  // namespace shusaku

#else

namespace shusaku {
const AmxLoops* const kAmx = nullptr;
}  // namespace shusaku

#endif
