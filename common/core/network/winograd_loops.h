// The loops of `winograd.h` by the type of a register, V: a vector of floats.  What is here belongs to the file that
// includes it, and is compiled for the processors which that is for.
#pragma once

#include "network/winograd.h"

namespace shusaku {
namespace {  // NOLINT(misc-anonymous-namespace-in-header): no code of one width may be taken for the other

template <class V>
constexpr int kLanes = int(sizeof(V) / sizeof(float));

template <class V>
inline V load(const float* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V>
inline void store(V v, float* p) {
  __builtin_memcpy(p, &v, sizeof v);
}
template <class V>
inline V relu(V v) {
  return v <= 0.f ? V{} : v;  // what is no number stays so
}

// One dimension of the transforms: inputs B^T d, outputs A^T m, kernels G k, and back by A and G^T.
template <class V, int R>
struct Transform;

template <class V>
struct Transform<V, 3> {
  static void inputs(const V* d, V* t) {
    const V gap = d[3] - d[1];
    t[0] = 2.f * (d[0] - d[2]) + gap;
    t[1] = d[3] - d[2] - 2.f * d[1];
    t[2] = d[3] - 3.f * d[2] + 2.f * d[1];
    t[3] = gap;
    t[4] = d[4] - d[2] - 2.f * gap;
  }
  static void outputs(const V* m, V* y) {
    const V sum = m[1] + m[2];
    y[0] = m[0] + sum + m[3];
    y[1] = m[1] - m[2] + 2.f * m[3];
    y[2] = sum + 4.f * m[3] + m[4];
  }
  static void output_gradients(const V* g, V* m) {
    const V sum = g[0] + g[2];
    m[0] = g[0];
    m[1] = sum + g[1];
    m[2] = sum - g[1];
    m[3] = g[0] + 2.f * g[1] + 4.f * g[2];
    m[4] = g[2];
  }
  static void kernels(const V* k, V* u) {
    const V sum = k[0] + k[2];
    u[0] = 0.5f * k[0];
    u[1] = -0.5f * (sum + k[1]);
    u[2] = (1 / 6.f) * (k[1] - sum);
    u[3] = (1 / 6.f) * (k[0] + 2.f * k[1] + 4.f * k[2]);
    u[4] = k[2];
  }
  static void kernel_gradients(const V* u, V* k) {
    const V a = 0.5f * u[1], b = (1 / 6.f) * u[2], c = (1 / 6.f) * u[3];
    k[0] = 0.5f * u[0] - a - b + c;
    k[1] = b - a + 2.f * c;
    k[2] = 4.f * c - a - b + u[4];
  }
};

template <class V>
struct Transform<V, 4> {
  static void inputs(const V* d, V* t) {
    const V a = d[4] - 4.f * d[2], b = d[3] - 4.f * d[1], c = d[4] - d[2], e = 2.f * (d[3] - d[1]);
    t[0] = 4.f * d[0] - 5.f * d[2] + d[4];
    t[1] = a + b;
    t[2] = a - b;
    t[3] = c + e;
    t[4] = c - e;
    t[5] = 4.f * d[1] - 5.f * d[3] + d[5];
  }
  static void outputs(const V* m, V* y) {
    const V a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], e = m[3] - m[4];
    y[0] = m[0] + a + c;
    y[1] = b + 2.f * e;
    y[2] = a + 4.f * c;
    y[3] = b + 8.f * e + m[5];
  }
  static void output_gradients(const V* g, V* m) {
    const V a = g[0] + g[2], b = g[1] + g[3], c = g[0] + 4.f * g[2], e = 2.f * g[1] + 8.f * g[3];
    m[0] = g[0];
    m[1] = a + b;
    m[2] = a - b;
    m[3] = c + e;
    m[4] = c - e;
    m[5] = g[3];
  }
  static void kernels(const V* k, V* u) {
    const V a = (-1 / 6.f) * (k[0] + k[2]), b = (1 / 6.f) * k[1], c = (1 / 24.f) * k[0] + (1 / 6.f) * k[2],
            e = (1 / 12.f) * k[1];
    u[0] = 0.25f * k[0];
    u[1] = a - b;
    u[2] = a + b;
    u[3] = c + e;
    u[4] = c - e;
    u[5] = k[2];
  }
  static void kernel_gradients(const V* u, V* k) {
    const V a = (1 / 6.f) * (u[1] + u[2]), c = u[3] + u[4];
    k[0] = 0.25f * u[0] - a + (1 / 24.f) * c;
    k[1] = (1 / 6.f) * (u[2] - u[1]) + (1 / 12.f) * (u[3] - u[4]);
    k[2] = (1 / 6.f) * c - a + u[5];
  }
};

// Both dimensions: [From, From] by `read(y, x)` -> [To, To] by `write(y, x, number)`.
template <class V, int From, int To, class Along, class Read, class Write>
[[gnu::always_inline]] inline void transform_tile(Along along, Read read, Write write) {
  V half[From][To];  // [column][row of the result]
  for (int x = 0; x < From; ++x) {
    V in[From];
    for (int y = 0; y < From; ++y) in[y] = read(y, x);
    along(in, half[x]);
  }
  for (int y = 0; y < To; ++y) {
    V in[From], out[To];
    for (int x = 0; x < From; ++x) in[x] = half[x][y];
    along(in, out);
    for (int x = 0; x < To; ++x) write(y, x, out[x]);
  }
}

template <class V, int R>
void transform_kernels(const float* kernels, KernelStrides strides, int given, int inputs, int outputs, float* packed) {
  constexpr int N = R + 2;
  const size_t of_point = size_t(inputs) * size_t(outputs);
  for (int o = 0; o < outputs; o += kLanes<V>)
    for (int i = 0; i < given; ++i) {
      const float* const own = kernels + o * strides.output + i * strides.input;
      float* const to = packed + Packing<float>::place(inputs, outputs, i, o);
      transform_tile<V, 3, N>(
          Transform<V, R>::kernels,
          [&](int y, int x) {
            V of_outputs;
            for (int lane = 0; lane < kLanes<V>; ++lane)
              of_outputs[lane] = own[(y * 3 + x) * strides.tap + lane * strides.output];
            return of_outputs;
          },
          [&](int y, int x, V number) { store(number, to + size_t(y * N + x) * of_point); });
    }
}

template <class V, int R>
void transform_kernel_gradients(const float* sums, int inputs, int outputs, float* kernels, KernelStrides strides) {
  constexpr int N = R + 2;
  const size_t of_point = size_t(inputs) * size_t(outputs);
  for (int o = 0; o < outputs; o += kLanes<V>)
    for (int i = 0; i < inputs; ++i) {
      const float* const own = sums + size_t(i) * size_t(outputs) + o;
      float* const to = kernels + o * strides.output + i * strides.input;
      transform_tile<V, N, 3>(
          Transform<V, R>::kernel_gradients, [&](int y, int x) { return load<V>(own + size_t(y * N + x) * of_point); },
          [&](int y, int x, V gradient) {
            for (int lane = 0; lane < kLanes<V>; ++lane)
              to[(y * 3 + x) * strides.tap + lane * strides.output] = gradient[lane];
          });
    }
}

// `visit(cell, tile)` of each tile: the first of its outputs, in cells of the padded board, and its number.
template <int R, class Visit>
[[gnu::always_inline]] inline void each_tile(const WinogradBoard& shape, Visit visit) {
  size_t tile = 0;
  for (int row = 0; row < shape.tile_rows(); ++row)
    for (int column = 0; column < shape.tile_columns(); ++column) visit(row * R, column * R, tile++);
}

template <class V, int R>
void transform_inputs(const WinogradBoard& shape, const float* board, int channels, float* numbers, size_t stride) {
  constexpr int N = R + 2;
  const size_t cell = size_t(channels), row = size_t(shape.pitch()) * cell;
  each_tile<R>(shape, [&](int first_row, int first_column, size_t tile) {
    const float* const from = board + size_t(first_row) * row + size_t(first_column) * cell;
    float* const to = numbers + tile * cell;
    for (int c = 0; c < channels; c += kLanes<V>)
      transform_tile<V, N, N>(
          Transform<V, R>::inputs, [&](int y, int x) { return load<V>(from + size_t(y) * row + size_t(x) * cell + c); },
          [&](int y, int x, V number) { store(number, to + size_t(y * N + x) * stride + c); });
  });
}

template <class V, int R>
void transform_output_gradients(const WinogradBoard& shape, const float* board, int channels, float* numbers,
                                size_t stride) {
  constexpr int N = R + 2;
  const size_t cell = size_t(channels), row = size_t(shape.pitch()) * cell;
  each_tile<R>(shape, [&](int first_row, int first_column, size_t tile) {
    const float* const from = board + size_t(shape.at(first_row, first_column)) * cell;
    float* const to = numbers + tile * cell;
    for (int c = 0; c < channels; c += kLanes<V>)
      transform_tile<V, R, N>(
          Transform<V, R>::output_gradients,
          [&](int y, int x) { return load<V>(from + size_t(y) * row + size_t(x) * cell + c); },
          [&](int y, int x, V number) { store(number, to + size_t(y * N + x) * stride + c); });
  });
}

template <class V, int R, bool kIsFinished>
void transform_outputs(const WinogradBoard& shape, const float* sums, size_t stride, int channels, const float* bias,
                       const float* skip, WinogradOutput out) {
  constexpr int N = R + 2;
  const size_t cell = size_t(channels), row = size_t(out.pitch) * cell;
  each_tile<R>(shape, [&](int first_row, int first_column, size_t tile) {
    const int rows = shape.height - first_row, columns = shape.width - first_column;
    const size_t first = size_t(first_row) * row + size_t(first_column) * cell;
    for (int c = 0; c < channels; c += kLanes<V>)
      transform_tile<V, N, R>(
          Transform<V, R>::outputs,
          [&](int y, int x) { return load<V>(sums + tile * cell + size_t(y * N + x) * stride + c); },
          [&](int y, int x, V sum) {
            if (y >= rows || x >= columns) return;
            const size_t at = first + size_t(y) * row + size_t(x) * cell + size_t(c);
            if constexpr (kIsFinished) {
              sum += load<V>(bias + c);
              if (skip != nullptr) sum += load<V>(skip + at);
              sum = relu(sum);
            }
            store(sum, out.first + at);
          });
  });
}

// What one part of a product has in registers: rows times vectors of outputs, beside the vectors of weights and one
// input. AVX2 has 16 registers, AVX-512 has 32.
template <class V>
constexpr int kRows = kLanes<V> == 8 ? 6 : 12;
constexpr int kVectors = 2;

// Rows and columns of one side of a product: number i of row r lies at x[r * row + i * next].
struct Side {
  const float* x;
  size_t row, next;
};

// The other side: the weights of input i and vector o of outputs lie at first[i * next + o * vector].
struct Weights {
  const float* first;
  size_t next, vector;
};

// y[r, o] = ReLU(start + sum of x[r, i] * weights[i, o]) of R rows and O vectors of outputs, with or without ReLU;
// `start` is null (zero), a bias, or y itself.
template <class V, int R, int O, bool kIsFeatures, bool kAdds>
[[gnu::always_inline]] inline void multiply_rows(Side side, int count, Weights weights, const float* bias, float* y,
                                                 size_t y_stride) {
  V sums[R][O];
  for (int r = 0; r < R; ++r)
    for (int o = 0; o < O; ++o)
      sums[r][o] = kAdds             ? load<V>(y + size_t(r) * y_stride + size_t(kLanes<V> * o))
                   : bias == nullptr ? V{}
                                     : load<V>(bias + kLanes<V> * o);
  const float* x = side.x;
  const float* own = weights.first;
  for (int i = 0; i < count; ++i, own += weights.next, x += side.next) {
    V of_input[O];
    for (int o = 0; o < O; ++o) of_input[o] = load<V>(own + size_t(o) * weights.vector);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const float number = x[size_t(r) * side.row];
      for (int o = 0; o < O; ++o) sums[r][o] += number * of_input[o];
    }
  }
  for (int r = 0; r < R; ++r)
    for (int o = 0; o < O; ++o)
      store(kIsFeatures ? relu(sums[r][o]) : sums[r][o], y + size_t(r) * y_stride + size_t(kLanes<V> * o));
}

// Of so many rows, at most R.
template <class V, int O, bool kIsFeatures, bool kAdds, int R = kRows<V>>
[[gnu::always_inline]] inline void multiply_part(int rows, Side side, int count, Weights weights, const float* bias,
                                                 float* y, size_t y_stride) {
  if (R == 1 || rows == R)
    multiply_rows<V, R, O, kIsFeatures, kAdds>(side, count, weights, bias, y, y_stride);
  else if constexpr (R > 1)
    multiply_part<V, O, kIsFeatures, kAdds, R - 1>(rows, side, count, weights, bias, y, y_stride);
}

template <class V, int O, bool kIsFeatures, bool kAdds>
void multiply_all(Side side, int rows, int count, Weights weights, const float* bias, float* y, size_t y_stride) {
  constexpr int kMost = kRows<V>;
  for (int row = 0; row < rows;) {
    // What is left behind whole parts is halved: a part of one row reads as many weights as a whole one.
    const int left = rows - row, part = left <= kMost ? left : left < 2 * kMost ? (left + 1) / 2 : kMost;
    multiply_part<V, O, kIsFeatures, kAdds>(part, {side.x + size_t(row) * side.row, side.row, side.next}, count,
                                            weights, bias, y + size_t(row) * y_stride, y_stride);
    row += part;
  }
}

// All outputs, a multiple of 16: `visit.template operator()<O>(o)` for O vectors of them from `o` on.
template <class V, class Visit>
[[gnu::always_inline]] inline void each_outputs(int outputs, Visit visit) {
  int o = 0;
  for (; o + kVectors * kLanes<V> <= outputs; o += kVectors * kLanes<V>) visit.template operator()<kVectors>(o);
  if constexpr (kLanes<V> == 16)
    if (o < outputs) visit.template operator()<1>(o);
}

template <class V, bool kIsFeatures>
void dense(const DenseLayer<float>& layer, const float* x, size_t x_stride, int rows, float* y, size_t y_stride) {
  constexpr int kBlock = Packing<float>::kWide;
  const size_t of_block = size_t(kBlock) * size_t(layer.inputs);
  each_outputs<V>(layer.outputs, [&]<int O>(int o) {
    const Weights weights{layer.weights + size_t(o) * size_t(layer.inputs), kBlock,
                          kLanes<V> < kBlock ? size_t(kLanes<V>) : of_block};
    multiply_all<V, O, kIsFeatures, false>({x, x_stride, 1}, rows, layer.inputs, weights,
                                           layer.bias == nullptr ? nullptr : layer.bias + o, y + o, y_stride);
  });
}

// The functions of `winograd.h`.
template <class V>
struct WinogradLoopsOf {
  static void kernels(const WinogradBoard& shape, const float* kernels, KernelStrides strides, int given, int inputs,
                      int outputs, float* packed) {
    const auto transform = shape.tile == 3 ? transform_kernels<V, 3> : transform_kernels<V, 4>;
    transform(kernels, strides, given, inputs, outputs, packed);
  }

  static void kernel_gradients(const WinogradBoard& shape, const float* sums, int inputs, int outputs, float* kernels,
                               KernelStrides strides) {
    const auto transform = shape.tile == 3 ? transform_kernel_gradients<V, 3> : transform_kernel_gradients<V, 4>;
    transform(sums, inputs, outputs, kernels, strides);
  }

  static void inputs(const WinogradBoard& shape, const float* board, int channels, float* numbers, size_t stride) {
    const auto transform = shape.tile == 3 ? transform_inputs<V, 3> : transform_inputs<V, 4>;
    transform(shape, board, channels, numbers, stride);
  }

  static void output_gradients(const WinogradBoard& shape, const float* board, int channels, float* numbers,
                               size_t stride) {
    const auto transform = shape.tile == 3 ? transform_output_gradients<V, 3> : transform_output_gradients<V, 4>;
    transform(shape, board, channels, numbers, stride);
  }

  static void outputs(const WinogradBoard& shape, const float* sums, size_t stride, int channels, const float* bias,
                      const float* skip, WinogradOutput out) {
    const auto finished = shape.tile == 3 ? transform_outputs<V, 3, true> : transform_outputs<V, 4, true>;
    const auto alone = shape.tile == 3 ? transform_outputs<V, 3, false> : transform_outputs<V, 4, false>;
    (bias == nullptr ? alone : finished)(shape, sums, stride, channels, bias, skip, out);
  }

  static void products(const WinogradBoard& shape, const float* packed, int inputs, int outputs, const float* numbers,
                       size_t stride, int rows, float* sums, size_t sums_stride) {
    for (int point = 0; point < shape.points(); ++point) {
      dense<V, false>({packed, nullptr, inputs, outputs}, numbers, size_t(inputs), rows, sums, size_t(outputs));
      packed += size_t(inputs) * size_t(outputs);
      numbers += stride;
      sums += sums_stride;
    }
  }

  static void add_outer_products(const float* x, const float* y, int rows, int inputs, int outputs, float* sums) {
    each_outputs<V>(outputs, [&]<int O>(int o) {
      multiply_all<V, O, false, true>({x, 1, size_t(inputs)}, inputs, rows, {y + o, size_t(outputs), size_t(kLanes<V>)},
                                      nullptr, sums + o, size_t(outputs));
    });
  }

  static constexpr WinogradLoops kAll{.transform_kernels = kernels,
                                      .transform_inputs = inputs,
                                      .multiply = products,
                                      .transform_outputs = outputs,
                                      .transform_output_gradients = output_gradients,
                                      .add_outer_products = add_outer_products,
                                      .transform_kernel_gradients = kernel_gradients};
};

}  // namespace
}  // namespace shusaku
