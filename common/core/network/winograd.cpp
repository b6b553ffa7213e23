// The loops of `winograd.h`, with eight floats in a register.
#include "network/winograd.h"

namespace shusaku {
namespace {

constexpr int kLanes = 8;
using F8 = float __attribute__((vector_size(32)));

inline F8 load(const float* p) {
  F8 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline void store(F8 v, float* p) { __builtin_memcpy(p, &v, sizeof v); }
inline F8 relu(F8 v) { return v <= 0.f ? F8{} : v; }  // what is no number stays so

// One dimension of the transforms: inputs B^T d, outputs A^T m, kernels G k, and back by A and G^T.
template <int R>
struct Transform;

template <>
struct Transform<3> {
  static void inputs(const F8* d, F8* t) {
    const F8 gap = d[3] - d[1];
    t[0] = 2.f * (d[0] - d[2]) + gap;
    t[1] = d[3] - d[2] - 2.f * d[1];
    t[2] = d[3] - 3.f * d[2] + 2.f * d[1];
    t[3] = gap;
    t[4] = d[4] - d[2] - 2.f * gap;
  }
  static void outputs(const F8* m, F8* y) {
    const F8 sum = m[1] + m[2];
    y[0] = m[0] + sum + m[3];
    y[1] = m[1] - m[2] + 2.f * m[3];
    y[2] = sum + 4.f * m[3] + m[4];
  }
  static void output_gradients(const F8* g, F8* m) {
    const F8 sum = g[0] + g[2];
    m[0] = g[0];
    m[1] = sum + g[1];
    m[2] = sum - g[1];
    m[3] = g[0] + 2.f * g[1] + 4.f * g[2];
    m[4] = g[2];
  }
  static void kernels(const F8* k, F8* u) {
    const F8 sum = k[0] + k[2];
    u[0] = 0.5f * k[0];
    u[1] = -0.5f * (sum + k[1]);
    u[2] = (1 / 6.f) * (k[1] - sum);
    u[3] = (1 / 6.f) * (k[0] + 2.f * k[1] + 4.f * k[2]);
    u[4] = k[2];
  }
  static void kernel_gradients(const F8* u, F8* k) {
    const F8 a = 0.5f * u[1], b = (1 / 6.f) * u[2], c = (1 / 6.f) * u[3];
    k[0] = 0.5f * u[0] - a - b + c;
    k[1] = b - a + 2.f * c;
    k[2] = 4.f * c - a - b + u[4];
  }
};

template <>
struct Transform<4> {
  static void inputs(const F8* d, F8* t) {
    const F8 a = d[4] - 4.f * d[2], b = d[3] - 4.f * d[1], c = d[4] - d[2], e = 2.f * (d[3] - d[1]);
    t[0] = 4.f * d[0] - 5.f * d[2] + d[4];
    t[1] = a + b;
    t[2] = a - b;
    t[3] = c + e;
    t[4] = c - e;
    t[5] = 4.f * d[1] - 5.f * d[3] + d[5];
  }
  static void outputs(const F8* m, F8* y) {
    const F8 a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], e = m[3] - m[4];
    y[0] = m[0] + a + c;
    y[1] = b + 2.f * e;
    y[2] = a + 4.f * c;
    y[3] = b + 8.f * e + m[5];
  }
  static void output_gradients(const F8* g, F8* m) {
    const F8 a = g[0] + g[2], b = g[1] + g[3], c = g[0] + 4.f * g[2], e = 2.f * g[1] + 8.f * g[3];
    m[0] = g[0];
    m[1] = a + b;
    m[2] = a - b;
    m[3] = c + e;
    m[4] = c - e;
    m[5] = g[3];
  }
  static void kernels(const F8* k, F8* u) {
    const F8 a = (-1 / 6.f) * (k[0] + k[2]), b = (1 / 6.f) * k[1], c = (1 / 24.f) * k[0] + (1 / 6.f) * k[2],
             e = (1 / 12.f) * k[1];
    u[0] = 0.25f * k[0];
    u[1] = a - b;
    u[2] = a + b;
    u[3] = c + e;
    u[4] = c - e;
    u[5] = k[2];
  }
  static void kernel_gradients(const F8* u, F8* k) {
    const F8 a = (1 / 6.f) * (u[1] + u[2]), c = u[3] + u[4];
    k[0] = 0.25f * u[0] - a + (1 / 24.f) * c;
    k[1] = (1 / 6.f) * (u[2] - u[1]) + (1 / 12.f) * (u[3] - u[4]);
    k[2] = (1 / 6.f) * c - a + u[5];
  }
};

// Both dimensions: [From, From] by `read(y, x)` -> [To, To] by `write(y, x, number)`.
template <int From, int To, class Along, class Read, class Write>
[[gnu::always_inline]] inline void transform_tile(Along along, Read read, Write write) {
  F8 half[From][To];  // [column][row of the result]
  for (int x = 0; x < From; ++x) {
    F8 in[From];
    for (int y = 0; y < From; ++y) in[y] = read(y, x);
    along(in, half[x]);
  }
  for (int y = 0; y < To; ++y) {
    F8 in[From], out[To];
    for (int x = 0; x < From; ++x) in[x] = half[x][y];
    along(in, out);
    for (int x = 0; x < To; ++x) write(y, x, out[x]);
  }
}

template <int R>
void transform_kernels(const float* kernels, KernelStrides strides, int given, int inputs, int outputs, float* packed) {
  constexpr int N = R + 2;
  const size_t of_point = size_t(inputs) * size_t(outputs);
  for (int o = 0; o < outputs; o += kLanes)
    for (int i = 0; i < given; ++i) {
      const float* const own = kernels + o * strides.output + i * strides.input;
      float* const to = packed + Packing<float>::place(inputs, outputs, i, o);
      transform_tile<3, N>(
          Transform<R>::kernels,
          [&](int y, int x) {
            F8 of_outputs;
            for (int lane = 0; lane < kLanes; ++lane)
              of_outputs[lane] = own[(y * 3 + x) * strides.tap + lane * strides.output];
            return of_outputs;
          },
          [&](int y, int x, F8 number) { store(number, to + size_t(y * N + x) * of_point); });
    }
}

template <int R>
void transform_kernel_gradients(const float* sums, int inputs, int outputs, float* kernels, KernelStrides strides) {
  constexpr int N = R + 2;
  const size_t of_point = size_t(inputs) * size_t(outputs);
  for (int o = 0; o < outputs; o += kLanes)
    for (int i = 0; i < inputs; ++i) {
      const float* const own = sums + size_t(i) * size_t(outputs) + o;
      float* const to = kernels + o * strides.output + i * strides.input;
      transform_tile<N, 3>(
          Transform<R>::kernel_gradients, [&](int y, int x) { return load(own + size_t(y * N + x) * of_point); },
          [&](int y, int x, F8 gradient) {
            for (int lane = 0; lane < kLanes; ++lane)
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

template <int R>
void transform_inputs(const WinogradBoard& shape, const float* board, int channels, float* numbers, size_t stride) {
  constexpr int N = R + 2;
  const size_t cell = size_t(channels), row = size_t(shape.pitch()) * cell;
  each_tile<R>(shape, [&](int first_row, int first_column, size_t tile) {
    const float* const from = board + size_t(first_row) * row + size_t(first_column) * cell;
    float* const to = numbers + tile * cell;
    for (int c = 0; c < channels; c += kLanes)
      transform_tile<N, N>(
          Transform<R>::inputs, [&](int y, int x) { return load(from + size_t(y) * row + size_t(x) * cell + c); },
          [&](int y, int x, F8 number) { store(number, to + size_t(y * N + x) * stride + c); });
  });
}

template <int R>
void transform_output_gradients(const WinogradBoard& shape, const float* board, int channels, float* numbers,
                                size_t stride) {
  constexpr int N = R + 2;
  const size_t cell = size_t(channels), row = size_t(shape.pitch()) * cell;
  each_tile<R>(shape, [&](int first_row, int first_column, size_t tile) {
    const float* const from = board + size_t(shape.at(first_row, first_column)) * cell;
    float* const to = numbers + tile * cell;
    for (int c = 0; c < channels; c += kLanes)
      transform_tile<R, N>(
          Transform<R>::output_gradients,
          [&](int y, int x) { return load(from + size_t(y) * row + size_t(x) * cell + c); },
          [&](int y, int x, F8 number) { store(number, to + size_t(y * N + x) * stride + c); });
  });
}

template <int R, bool kIsFinished>
void transform_outputs(const WinogradBoard& shape, const float* sums, size_t stride, int channels, const float* bias,
                       const float* skip, WinogradOutput out) {
  constexpr int N = R + 2;
  const size_t cell = size_t(channels), row = size_t(out.pitch) * cell;
  each_tile<R>(shape, [&](int first_row, int first_column, size_t tile) {
    const int rows = shape.height - first_row, columns = shape.width - first_column;
    const size_t first = size_t(first_row) * row + size_t(first_column) * cell;
    for (int c = 0; c < channels; c += kLanes)
      transform_tile<N, R>(
          Transform<R>::outputs,
          [&](int y, int x) { return load(sums + tile * cell + size_t(y * N + x) * stride + c); },
          [&](int y, int x, F8 sum) {
            if (y >= rows || x >= columns) return;
            const size_t at = first + size_t(y) * row + size_t(x) * cell + size_t(c);
            if constexpr (kIsFinished) {
              sum += load(bias + c);
              if (skip != nullptr) sum += load(skip + at);
              sum = relu(sum);
            }
            store(sum, out.first + at);
          });
  });
}

// Six rows of 16 outputs are 12 registers of sums; with two of weights and one of inputs AVX2 has no more.
constexpr int kRows = 6, kOutputs = 2 * kLanes;

// Rows and columns of one side of a product: number i of row r lies at x[r * row + i * next].
struct Side {
  const float* x;
  size_t row, next;
};

// y[r, o] = ReLU(start + sum of x[r, i] * weights[i, o]) of R rows and 16 outputs, with or without ReLU; `start` is
// null (zero), a bias [16], or y itself.
template <int R, bool kIsFeatures, bool kAdds>
[[gnu::always_inline]] inline void multiply_rows(Side side, int count, const float* weights, size_t weights_stride,
                                                 const float* bias, float* y, size_t y_stride) {
  F8 sums[R][2];
  for (int r = 0; r < R; ++r)
    for (int o = 0; o < 2; ++o)
      sums[r][o] = kAdds             ? load(y + size_t(r) * y_stride + size_t(kLanes * o))
                   : bias == nullptr ? F8{}
                                     : load(bias + kLanes * o);
  const float* x = side.x;
  for (int i = 0; i < count; ++i, weights += weights_stride, x += side.next) {
    const F8 first = load(weights), second = load(weights + kLanes);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const float number = x[size_t(r) * side.row];
      sums[r][0] += number * first;
      sums[r][1] += number * second;
    }
  }
  for (int r = 0; r < R; ++r)
    for (int o = 0; o < 2; ++o)
      store(kIsFeatures ? relu(sums[r][o]) : sums[r][o], y + size_t(r) * y_stride + size_t(kLanes * o));
}

template <bool kIsFeatures, bool kAdds>
[[gnu::always_inline]] inline void multiply_all(Side side, int rows, int count, const float* weights,
                                                size_t weights_stride, const float* bias, float* y, size_t y_stride) {
  for (int row = 0; row < rows;) {
    // What is left behind whole parts is halved: a part of one row reads as many weights as one of six.
    const int left = rows - row, part = left <= kRows ? left : left < 2 * kRows ? (left + 1) / 2 : kRows;
    const Side own{side.x + size_t(row) * side.row, side.row, side.next};
    float* const out = y + size_t(row) * y_stride;
    switch (part) {
      case 1:
        multiply_rows<1, kIsFeatures, kAdds>(own, count, weights, weights_stride, bias, out, y_stride);
        break;
      case 2:
        multiply_rows<2, kIsFeatures, kAdds>(own, count, weights, weights_stride, bias, out, y_stride);
        break;
      case 3:
        multiply_rows<3, kIsFeatures, kAdds>(own, count, weights, weights_stride, bias, out, y_stride);
        break;
      case 4:
        multiply_rows<4, kIsFeatures, kAdds>(own, count, weights, weights_stride, bias, out, y_stride);
        break;
      case 5:
        multiply_rows<5, kIsFeatures, kAdds>(own, count, weights, weights_stride, bias, out, y_stride);
        break;
      default:
        multiply_rows<6, kIsFeatures, kAdds>(own, count, weights, weights_stride, bias, out, y_stride);
    }
    row += part;
  }
}

template <bool kIsFeatures>
void dense(const DenseLayer<float>& layer, const float* x, size_t x_stride, int rows, float* y, size_t y_stride) {
  for (int o = 0; o < layer.outputs; o += kOutputs)
    multiply_all<kIsFeatures, false>({x, x_stride, 1}, rows, layer.inputs,
                                     layer.weights + size_t(o) * size_t(layer.inputs), kOutputs,
                                     layer.bias == nullptr ? nullptr : layer.bias + o, y + o, y_stride);
}

}  // namespace

void winograd_kernels(const WinogradBoard& shape, const float* kernels, KernelStrides strides, int given, int inputs,
                      int outputs, float* packed) {
  const auto transform = shape.tile == 3 ? transform_kernels<3> : transform_kernels<4>;
  transform(kernels, strides, given, inputs, outputs, packed);
}

void winograd_kernel_gradients(const WinogradBoard& shape, const float* sums, int inputs, int outputs, float* kernels,
                               KernelStrides strides) {
  const auto transform = shape.tile == 3 ? transform_kernel_gradients<3> : transform_kernel_gradients<4>;
  transform(sums, inputs, outputs, kernels, strides);
}

void winograd_inputs(const WinogradBoard& shape, const float* board, int channels, float* numbers, size_t stride) {
  const auto transform = shape.tile == 3 ? transform_inputs<3> : transform_inputs<4>;
  transform(shape, board, channels, numbers, stride);
}

void winograd_output_gradients(const WinogradBoard& shape, const float* board, int channels, float* numbers,
                               size_t stride) {
  const auto transform = shape.tile == 3 ? transform_output_gradients<3> : transform_output_gradients<4>;
  transform(shape, board, channels, numbers, stride);
}

void winograd_outputs(const WinogradBoard& shape, const float* sums, size_t stride, int channels, const float* bias,
                      const float* skip, WinogradOutput out) {
  const auto finished = shape.tile == 3 ? transform_outputs<3, true> : transform_outputs<4, true>;
  const auto alone = shape.tile == 3 ? transform_outputs<3, false> : transform_outputs<4, false>;
  (bias == nullptr ? alone : finished)(shape, sums, stride, channels, bias, skip, out);
}

void winograd_products(const WinogradBoard& shape, const float* packed, int inputs, int outputs, const float* numbers,
                       size_t stride, int rows, float* sums, size_t sums_stride) {
  for (int point = 0; point < shape.points(); ++point) {
    dense<false>({packed, nullptr, inputs, outputs}, numbers, size_t(inputs), rows, sums, size_t(outputs));
    packed += size_t(inputs) * size_t(outputs);
    numbers += stride;
    sums += sums_stride;
  }
}

void add_outer_products(const float* x, const float* y, int rows, int inputs, int outputs, float* sums) {
  for (int o = 0; o < outputs; o += kOutputs)
    multiply_all<false, true>({x, 1, size_t(inputs)}, inputs, rows, y + o, size_t(outputs), nullptr, sums + o,
                              size_t(outputs));
}

const DenseKernels<float> kFloatDense{dense<true>, dense<false>};

}  // namespace shusaku
