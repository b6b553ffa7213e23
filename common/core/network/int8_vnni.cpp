// The loops of `int8_loops.h` with AVX-512: VNNI adds four products of 8 bits to each of sixteen sums in one
// instruction, BF16 two of bf16.
#include "network/int8_loops.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BF16__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 says both of its own intrinsics
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "network/int8_stores.h"

namespace shusaku {
namespace {

constexpr int kLanes = 16;

// By assembler: of the intrinsics GCC 12 makes two copies of each sum beside each instruction, and they are what a
// processor that multiplies twice in a cycle waits for.
struct Int8Numbers {
  using Input = uint8_t;
  using Weight = int8_t;
  using Sum = __m512i;
  static Sum zero() { return _mm512_setzero_si512(); }
  static Sum add(Sum sum, __m512i inputs, __m512i weights) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(inputs), "v"(weights));
    return sum;
  }
};

struct Bf16Numbers {
  using Input = uint16_t;
  using Weight = uint16_t;
  using Sum = __m512;
  static Sum zero() { return _mm512_setzero_ps(); }
  static Sum add(Sum sum, __m512i inputs, __m512i weights) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(inputs), "v"(weights));
    return sum;
  }
};

// Adds the products of `inputs` numbers of R rows, `stride` apart, with their weights for 16 * O outputs, and returns
// the weights behind them.  Ten rows of 32 outputs are 20 registers of 32; from five on a Zen 5 multiplies as fast as
// it can, which begins two of these instructions a cycle, and ends one after five.
template <class Numbers, int R, int O>
[[gnu::always_inline]] inline const typename Numbers::Weight* add_products(const typename Numbers::Input* x,
                                                                           size_t stride, int inputs,
                                                                           const typename Numbers::Weight* weights,
                                                                           typename Numbers::Sum (&sums)[R][O]) {
  constexpr int kStep = Packing<typename Numbers::Weight>::kInputsAWord;
#pragma GCC unroll 2
  for (int i = 0; i < inputs; i += kStep, weights += kLanes * kStep * O) {
    __m512i own[O];
    for (int o = 0; o < O; ++o) own[o] = _mm512_load_si512(weights + kLanes * kStep * o);
#pragma GCC unroll 10
    for (int r = 0; r < R; ++r) {
      int bits;
      __builtin_memcpy(&bits, x + size_t(r) * stride + i, 4);
      const __m512i broadcast = _mm512_set1_epi32(bits);
      for (int o = 0; o < O; ++o) sums[r][o] = Numbers::add(sums[r][o], broadcast, own[o]);
    }
  }
  return weights;
}

// The sums of R cells of a row, of their nine neighbours each.
template <class Numbers, int R, int O>
[[gnu::always_inline]] inline void sum_neighbours(const typename Numbers::Input* in, int channels, int board_width,
                                                  const typename Numbers::Weight* weights,
                                                  typename Numbers::Sum (&sums)[R][O]) {
  for (int r = 0; r < R; ++r)
    for (int o = 0; o < O; ++o) sums[r][o] = Numbers::zero();
  for (int row = -1; row <= 1; ++row)
    for (int column = -1; column <= 1; ++column)
      weights = add_products<Numbers>(in + ptrdiff_t(row * (board_width + 1) + column) * channels, size_t(channels),
                                      channels, weights, sums);
}

// How many of what is left are computed at once, of 20 at most in equal parts: 13 are 7 and 6.
inline int part_of(int left) { return left <= 10 ? left : left <= 20 ? (left + 1) / 2 : 10; }

// visit.run<R>(at): R things from `at` on, until there are `count`.
template <class Visit>
[[gnu::always_inline]] inline void in_parts(int count, const Visit& visit) {
  for (int at = 0; at < count;) {
    const int part = part_of(count - at);
    switch (part) {
      case 1:
        visit.template run<1>(at);
        break;
      case 2:
        visit.template run<2>(at);
        break;
      case 3:
        visit.template run<3>(at);
        break;
      case 4:
        visit.template run<4>(at);
        break;
      case 5:
        visit.template run<5>(at);
        break;
      case 6:
        visit.template run<6>(at);
        break;
      case 7:
        visit.template run<7>(at);
        break;
      case 8:
        visit.template run<8>(at);
        break;
      case 9:
        visit.template run<9>(at);
        break;
      default:
        visit.template run<10>(at);
    }
    at += part;
  }
}

template <int F, bool kIsSecond>
struct ConvolveRow {
  const Int8Layer& layer;
  int width;
  const uint8_t* in;
  float* x;
  uint8_t* out;

  template <int C, int O>
  [[gnu::always_inline]] void outputs(int column, int first) const {
    __m512i sums[C][O];
    sum_neighbours<Int8Numbers>(in + column * F, F, width, layer.weights + first * F * 9, sums);
#pragma GCC unroll 2
    for (int o = 0; o < O; ++o) {
      const int channel = first + kLanes * o;
      const __m512 slope = _mm512_loadu_ps(layer.slope + channel), shift = _mm512_loadu_ps(layer.shift + channel);
#pragma GCC unroll 10
      for (int c = 0; c < C; ++c) {
        const ptrdiff_t at = (column + c) * F + channel;
        __m512 y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[c][o]), slope, shift);
        if constexpr (kIsSecond) {
          y = relu(_mm512_add_ps(y, _mm512_loadu_ps(x + at)));
          _mm512_storeu_ps(x + at, y);
          y = _mm512_mul_ps(y, _mm512_set1_ps(layer.steps));
        }
        store_steps(relu(y), out + at);
      }
    }
  }
  template <int C>
  void run(int column) const {
    for (int first = 0; first + 32 <= F; first += 32) outputs<C, 2>(column, first);
    if constexpr (F % 32 != 0) outputs<C, 1>(column, F / 32 * 32);
  }
};

template <int F, bool kIsSecond>
void convolve_rows(const Int8Layer& layer, BoardShape shape, const uint8_t* in, float* x, uint8_t* out) {
  for (int row = 0; row < shape.height; ++row) {
    const ptrdiff_t at = ptrdiff_t(shape.at(row, 0)) * F;
    in_parts(shape.width, ConvolveRow<F, kIsSecond>{layer, shape.width, in + at, x + at, out + at});
  }
}

template <int F>
void convolve(const Int8Layer& layer, BoardShape shape, int boards, const uint8_t* in, float* x, uint8_t* out) {
  const ptrdiff_t board = ptrdiff_t(shape.padded()) * F;
  for (int b = 0; b < boards; ++b, in += board, x += board, out += board)
    (layer.steps == 0.f ? convolve_rows<F, false> : convolve_rows<F, true>)(layer, shape, in, x, out);
}

template <int F>
size_t place(int tap, int input, int output) {
  return Packing<int8_t>::place(9 * F, F, tap * F + input, output);
}

template <int F>
struct FirstLayerRow {
  const PlanesLayer& layer;
  int width;
  const uint16_t* in;
  float* x;
  uint8_t* out;

  template <int C, int O>
  [[gnu::always_inline]] void outputs(int column, int first) const {
    __m512 sums[C][O];
    sum_neighbours<Bf16Numbers>(in + column * layer.planes, layer.planes, width,
                                layer.weights + first * layer.planes * 9, sums);
    for (int o = 0; o < O; ++o) {
      const int channel = first + kLanes * o;
      const __m512 bias = _mm512_loadu_ps(layer.bias + channel);
      for (int c = 0; c < C; ++c) {
        const ptrdiff_t at = (column + c) * F + channel;
        const __m512 y = relu(_mm512_add_ps(sums[c][o], bias));
        _mm512_storeu_ps(x + at, y);
        store_steps(_mm512_mul_ps(y, _mm512_set1_ps(layer.steps)), out + at);
      }
    }
  }
  template <int C>
  void run(int column) const {
    for (int first = 0; first + 32 <= F; first += 32) outputs<C, 2>(column, first);
    if constexpr (F % 32 != 0) outputs<C, 1>(column, F / 32 * 32);
  }
};

template <int F>
void first_layer(const PlanesLayer& layer, BoardShape shape, const uint16_t* in, float* x, uint8_t* out) {
  for (int row = 0; row < shape.height; ++row) {
    const ptrdiff_t at = shape.at(row, 0);
    in_parts(shape.width, FirstLayerRow<F>{layer, shape.width, in + at * layer.planes, x + at * F, out + at * F});
  }
}

void round(const float* x, size_t numbers, uint16_t* y) {
  for (size_t i = 0; i < numbers; i += kLanes) store_bf16(_mm512_loadu_ps(x + i), y + i);
}

template <int O, bool kIsFeatures>
struct MultiplyRows {
  const uint16_t* x;
  size_t x_stride;
  int inputs;
  const uint16_t* weights;
  const float* bias;
  void* y;
  size_t y_stride;

  template <int R>
  void run(int row) const {
    __m512 sums[R][O];
    for (int r = 0; r < R; ++r)
      for (int o = 0; o < O; ++o) sums[r][o] = _mm512_loadu_ps(bias + kLanes * o);
    add_products<Bf16Numbers>(x + size_t(row) * x_stride, x_stride, inputs, weights, sums);
    for (int r = 0; r < R; ++r)
      for (int o = 0; o < O; ++o) {
        const size_t at = size_t(row + r) * y_stride + size_t(kLanes * o);
        if constexpr (kIsFeatures)
          store_bf16(relu(sums[r][o]), static_cast<uint16_t*>(y) + at);
        else
          _mm512_storeu_ps(static_cast<float*>(y) + at, sums[r][o]);
      }
  }
};

template <class Y, bool kIsFeatures>
void multiply_all(const DenseLayer<uint16_t>& layer, const uint16_t* x, size_t x_stride, int rows, Y* y,
                  size_t y_stride) {
  int o = 0;
  for (; o + 32 <= layer.outputs; o += 32)
    in_parts(rows,
             MultiplyRows<2, kIsFeatures>{x, x_stride, layer.inputs, layer.weights + size_t(o) * size_t(layer.inputs),
                                          layer.bias + o, y + o, y_stride});
  if (o < layer.outputs)
    in_parts(rows,
             MultiplyRows<1, kIsFeatures>{x, x_stride, layer.inputs, layer.weights + size_t(o) * size_t(layer.inputs),
                                          layer.bias + o, y + o, y_stride});
}

void features(const DenseLayer<uint16_t>& layer, const uint16_t* x, size_t x_stride, int rows, uint16_t* y,
              size_t y_stride) {
  multiply_all<uint16_t, true>(layer, x, x_stride, rows, y, y_stride);
}

void multiply(const DenseLayer<uint16_t>& layer, const uint16_t* x, size_t x_stride, int rows, float* y,
              size_t y_stride) {
  multiply_all<float, false>(layer, x, x_stride, rows, y, y_stride);
}

template <int F>
constexpr Int8Loops kOf{size_t(9 * F * F),
                        place<F>,
                        [](int planes) { return 3 * planes; },
                        [] {},
                        [] {},
                        convolve<F>,
                        first_layer<F>,
                        round,
                        {Packing<uint16_t>::kInputsAWord, features, multiply}};

}  // namespace

const Int8Loops* int8_vnni(int filters) {
  switch (filters) {
    case 16:
      return &kOf<16>;
    case 32:
      return &kOf<32>;
    case 48:
      return &kOf<48>;
    case 64:
      return &kOf<64>;
    default:
      return nullptr;
  }
}

}  // namespace shusaku

#else

namespace shusaku {
const Int8Loops* int8_vnni(int) { return nullptr; }
}  // namespace shusaku

#endif
