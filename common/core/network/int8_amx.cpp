// The loops of `int8_loops.h` by the matrix unit of Intel's processors (AMX): 16 x 64 by 64 x 16 numbers of 8 bits in
// sixteen cycles, eight times what VNNI multiplies, and half as many of bf16.
//
// A cell's channels, and the three neighbours of a row, follow one another in memory, so a row of a kernel is a product
// over 3 x channels numbers; the last matrix of weights is filled up with zeros.  Sixteen cells that follow one
// another, zeros between rows among them, are the left side of a product; what is computed for the zeros is not
// written.
#include "network/int8_loops.h"

#if defined(SHUSAKU_AMX)
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 says both of its own intrinsics
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "network/amx_registers.h"
#include "network/int8_stores.h"

namespace shusaku {
namespace {

constexpr int kBytes = 1024;  // of a matrix

// How many matrices of 8 bits the three neighbours of a row fill, and of bf16.
template <int F>
constexpr int kOfRow = (3 * F + 63) / 64;
int of_planes_row(int planes) { return (3 * planes + 31) / 32; }

// [outputs / 32][3][kOfRow][2, or what is left of 2] matrices of [16 fours of inputs][16 outputs][4].
template <int F>
size_t place(int tap, int input, int output) {
  const int block = output / 32 * 32, wide = F - block < 32 ? 1 : 2;
  const int from_left = tap % 3 * F + input, matrix = tap / 3 * kOfRow<F> + from_left / 64, i = from_left % 64;
  return size_t((block / 16 * 3 * kOfRow<F> + matrix * wide + (output - block) / 16) * kBytes) +
         size_t(i / 4 * 64 + output % 16 * 4 + i % 4);
}

// Sixteen positions of a board, from the one with this number on; 0 is its first cell.
struct Positions {
  const void* in;
  float* x;
  uint8_t* out;
  int number;
};

// visit(i): those of sixteen positions that are cells.
template <class Visit>
[[gnu::always_inline]] inline void each_cell(BoardShape shape, int number, const Visit& visit) {
  const int pitch = shape.width + 1, end = shape.height * pitch - number;
  for (int i = 0, column = number % pitch; i < 16 && i < end; ++i) {
    if (column == shape.width) {
      column = 0;
    } else {
      visit(i);
      ++column;
    }
  }
}

// A layer at 16 * N outputs, from `kFirst` on; F in all.
template <int F, int kFirst, int N, bool kIsSecond>
class Outputs {
 public:
  Outputs(const Int8Layer& layer, BoardShape shape)
      : shape_(shape),
        weights_(layer.weights + ptrdiff_t(kFirst / 16 * 3 * kOfRow<F> * kBytes)),
        steps_(_mm512_set1_ps(layer.steps)) {
    for (int n = 0; n < N; ++n) {
      slope_[n] = _mm512_loadu_ps(layer.slope + kFirst + 16 * n);
      shift_[n] = _mm512_loadu_ps(layer.shift + kFirst + 16 * n);
    }
  }

  // At sixteen positions, or twice sixteen.
  template <int M>
  [[gnu::always_inline]] void run(const Positions& positions, const Positions& next) {
    using Sums = Products<OfInt8, M, N>;
    Sums::clear_sums();
    const int8_t* weights = weights_;
    const auto *in = static_cast<const uint8_t*>(positions.in), *next_in = static_cast<const uint8_t*>(next.in);
    for (int row = -1; row <= 1; ++row) {
      const ptrdiff_t from = ptrdiff_t(row * (shape_.width + 1) - 1) * F;
      for (int i = 0; i < kOfRow<F>; ++i, weights += N * kBytes)
        Sums::add(in + from + 64 * i, next_in + from + 64 * i, F, weights, weights + kBytes);
    }
    Sums::store_sums(sums_, 16, N * 256, N * 64);
    write(sums_, positions);
    if constexpr (M > 1) write(sums_ + N * 256, next);
  }

 private:
  [[gnu::always_inline]] void write(const int* sums, const Positions& positions) const {
    each_cell(shape_, positions.number, [&](int i) {
      for (int n = 0; n < N; ++n) {
        const ptrdiff_t at = i * F + kFirst + 16 * n;
        const __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums + 16 * (N * i + n)));
        __m512 y = _mm512_fmadd_ps(sum, slope_[n], shift_[n]);
        if constexpr (kIsSecond) {
          y = relu(_mm512_add_ps(y, _mm512_loadu_ps(positions.x + at)));
          _mm512_storeu_ps(positions.x + at, y);
          y = _mm512_mul_ps(y, steps_);
        }
        store_steps(relu(y), positions.out + at);
      }
    });
  }

  BoardShape shape_;
  const int8_t* weights_;
  __m512 steps_, slope_[N], shift_[N];
  alignas(64) int sums_[2 * N * 256];
};

// run<2>(positions, next) for all positions of boards, and run<1> for what is left.
template <class Layer, class Input>
[[gnu::always_inline]] inline void over_positions(Layer&& layer, BoardShape shape, int boards, const Input* in,
                                                  int channels, int filters, float* x, uint8_t* out) {
  const int matrices = (shape.height * (shape.width + 1) + 15) / 16, all = boards * matrices;
  const auto positions_at = [&](int i) {
    const int number = i % matrices * 16;
    const ptrdiff_t at = ptrdiff_t(i / matrices * shape.padded() + shape.at(0, 0) + number);
    return Positions{in + at * channels, x + at * filters, out + at * filters, number};
  };
  for (int i = 0; i + 1 < all; i += 2) layer.template run<2>(positions_at(i), positions_at(i + 1));
  if (all % 2 == 1) layer.template run<1>(positions_at(all - 1), positions_at(all - 1));
}

template <int F, bool kIsSecond, int kFirst = 0>
void convolve_layer(const Int8Layer& layer, BoardShape shape, int boards, const uint8_t* in, float* x, uint8_t* out) {
  constexpr int kBlocks = F - kFirst < 32 ? 1 : 2;
  over_positions(Outputs<F, kFirst, kBlocks, kIsSecond>(layer, shape), shape, boards, in, F, F, x, out);
  if constexpr (kFirst + 32 < F) convolve_layer<F, kIsSecond, kFirst + 32>(layer, shape, boards, in, x, out);
}

template <int F>
void convolve(const Int8Layer& layer, BoardShape shape, int boards, const uint8_t* in, float* x, uint8_t* out) {
  (layer.steps == 0.f ? convolve_layer<F, false> : convolve_layer<F, true>)(layer, shape, boards, in, x, out);
}

// The first layer in the same way, of bf16.
template <int F, int kFirst, int N>
class FirstOutputs {
 public:
  FirstOutputs(const PlanesLayer& layer, BoardShape shape)
      : shape_(shape),
        planes_(layer.planes),
        weights_(layer.weights + ptrdiff_t(kFirst * 3 * 32 * of_planes_row(layer.planes))),
        steps_(_mm512_set1_ps(layer.steps)) {
    for (int n = 0; n < N; ++n) bias_[n] = _mm512_loadu_ps(layer.bias + kFirst + 16 * n);
  }

  template <int M>
  [[gnu::always_inline]] void run(const Positions& positions, const Positions& next) {
    using Sums = Products<OfBf16, M, N>;
    Sums::clear_sums();
    const uint16_t* weights = weights_;
    const auto *in = static_cast<const uint16_t*>(positions.in), *next_in = static_cast<const uint16_t*>(next.in);
    const int of_row = of_planes_row(planes_);
    for (int row = -1; row <= 1; ++row) {
      const ptrdiff_t from = ptrdiff_t(row * (shape_.width + 1) - 1) * planes_;
      for (int i = 0; i < of_row; ++i, weights += N * kBytes / 2)
        Sums::add(in + from + 32 * i, next_in + from + 32 * i, size_t(planes_) * 2, weights, weights + 32, N * 64);
    }
    Sums::store_sums(sums_, 16, N * 256, N * 64);
    write(sums_, positions);
    if constexpr (M > 1) write(sums_ + N * 256, next);
  }

 private:
  [[gnu::always_inline]] void write(const float* sums, const Positions& positions) const {
    each_cell(shape_, positions.number, [&](int i) {
      for (int n = 0; n < N; ++n) {
        const ptrdiff_t at = i * F + kFirst + 16 * n;
        const __m512 y = relu(_mm512_add_ps(_mm512_load_ps(sums + 16 * (N * i + n)), bias_[n]));
        _mm512_storeu_ps(positions.x + at, y);
        store_steps(_mm512_mul_ps(y, steps_), positions.out + at);
      }
    });
  }

  BoardShape shape_;
  int planes_;
  const uint16_t* weights_;
  __m512 steps_, bias_[N];
  alignas(64) float sums_[2 * N * 256];
};

template <int F, int kFirst = 0>
void first_layer(const PlanesLayer& layer, BoardShape shape, const uint16_t* in, float* x, uint8_t* out) {
  constexpr int kBlocks = F - kFirst < 32 ? 1 : 2;
  over_positions(FirstOutputs<F, kFirst, kBlocks>(layer, shape), shape, 1, in, layer.planes, F, x, out);
  if constexpr (kFirst + 32 < F) first_layer<F, kFirst + 32>(layer, shape, in, x, out);
}

void round(const float* x, size_t numbers, uint16_t* y) {
  for (size_t i = 0; i < numbers; i += 16) store_bf16(_mm512_loadu_ps(x + i), y + i);
}

struct Dense {
  const DenseLayer<uint16_t>& layer;
  const uint16_t* x;
  size_t x_stride;
  int rows;
  size_t y_stride;
};

// Sixteen rows, or twice sixteen, at 16 * N outputs from `first` on.
template <int M, int N, class Write>
[[gnu::always_inline]] inline void multiply_rows(const Dense& dense, int row, int first, const Write& write) {
  alignas(64) float sums[M * N * 256];
  using Sums = Products<OfBf16, M, N>;
  const uint16_t *x = dense.x + size_t(row) * dense.x_stride, *next = x + 16 * dense.x_stride;
  const uint16_t* weights = dense.layer.weights + size_t(first) * size_t(dense.layer.inputs);
  Sums::clear_sums();
  for (int i = 0; i < dense.layer.inputs; i += 32, weights += N * kBytes / 2)
    Sums::add(x + i, next + i, dense.x_stride * 2, weights, weights + 32, N * 64);
  Sums::store_sums(sums, 16, N * 256, N * 64);
  __m512 bias[N];
  for (int n = 0; n < N; ++n) bias[n] = _mm512_loadu_ps(dense.layer.bias + first + 16 * n);
  for (int i = 0; i < 16 * M && row + i < dense.rows; ++i)
    for (int n = 0; n < N; ++n)
      write(_mm512_add_ps(_mm512_load_ps(sums + 16 * (N * i + n)), bias[n]),
            size_t(row + i) * dense.y_stride + size_t(first + 16 * n));
}

template <int N, class Write>
[[gnu::always_inline]] inline void multiply_outputs(const Dense& dense, int first, const Write& write) {
  int row = 0;
  for (; row + 16 < dense.rows; row += 32) multiply_rows<2, N>(dense, row, first, write);
  if (row < dense.rows) multiply_rows<1, N>(dense, row, first, write);
}

template <class Write>
[[gnu::always_inline]] inline void multiply_all(const Dense& dense, const Write& write) {
  int first = 0;
  for (; first + 32 <= dense.layer.outputs; first += 32) multiply_outputs<2>(dense, first, write);
  if (first < dense.layer.outputs) multiply_outputs<1>(dense, first, write);
}

void features(const DenseLayer<uint16_t>& layer, const uint16_t* x, size_t x_stride, int rows, uint16_t* y,
              size_t y_stride) {
  multiply_all({layer, x, x_stride, rows, y_stride}, [&](__m512 sum, size_t at) { store_bf16(relu(sum), y + at); });
}

void multiply(const DenseLayer<uint16_t>& layer, const uint16_t* x, size_t x_stride, int rows, float* y,
              size_t y_stride) {
  multiply_all({layer, x, x_stride, rows, y_stride}, [&](__m512 sum, size_t at) { _mm512_storeu_ps(y + at, sum); });
}

template <int F>
constexpr Int8Loops kOf{size_t(F / 16 * 3 * kOfRow<F> * kBytes),
                        place<F>,
                        [](int planes) { return 32 * of_planes_row(planes); },
                        [] { configure_matrices(); },
                        [] { release_matrices(); },
                        convolve<F>,
                        first_layer<F>,
                        round,
                        {32, features, multiply}};

}  // namespace

const Int8Loops* int8_amx(int filters) {
  switch (filters) {
    case 16:
      return &kOf<16>;
    case 32:
      return &kOf<32>;
    case 48:
      return &kOf<48>;
    case 64:
      return &kOf<64>;
    case 96:
      return &kOf<96>;
    case 128:
      return &kOf<128>;
    default:
      return nullptr;
  }
}

}  // namespace shusaku

#else

namespace shusaku {
const Int8Loops* int8_amx(int) { return nullptr; }
}  // namespace shusaku

#endif
