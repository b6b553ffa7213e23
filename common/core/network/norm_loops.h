// The loops of batch norm and ReLU over rows of [rows, width] numbers, each a pass over memory: templates over how
// eight or sixteen numbers are read and written, compiled once for float and once for bf16 by other flags.  So nothing
// here may come from a header whose functions another file could share with it.
#pragma once

#include <stddef.h>

namespace shusaku {

// Pointers of one type of numbers; `rows` of `width`, which is a multiple of `lanes`.
struct NormLoops {
  int lanes;
  // Of each column the sum, and the sum of squared distances from the mean.  The rows are read twice.
  void (*moments)(const void* x, size_t rows, int width, float* sums, float* distances);
  // y = ReLU(slope x + shift + skip); `skip` may be null.
  void (*forward)(const void* x, const void* skip, size_t rows, int width, const float* slope, const float* shift,
                  void* y);
  // Of each column the sums of g and of g (x - mean), g the gradient where y > 0.
  void (*sums)(const void* gradient, const void* y, const void* x, size_t rows, int width, const float* mean,
               float* of_g, float* of_product);
  // slope g + per_x x + shift; and g, if `skip_gradient` is not null.
  void (*backward)(const void* gradient, const void* y, const void* x, size_t rows, int width, const float* slope,
                   const float* per_x, const float* shift, void* x_gradient, void* skip_gradient);
};

extern const NormLoops* const kNormFloat;
extern const NormLoops* const kNormBf16;  // for AVX-512 BF16; null where it is not compiled

// `Numbers` has a type T in memory and V in registers, kLanes, zero, load, store, and load_positive: a number where y
// is above 0, else 0.  `Floats` are its kLanes floats in memory, with load, store and relu.
template <class Numbers>
struct NormLoopsOf {
  using T = typename Numbers::T;
  using V = typename Numbers::V;
  using Floats = typename Numbers::Floats;
  static constexpr int kLanes = Numbers::kLanes, kAtOnce = 4;

  // visit.run<N>(first): N registers from column `first` on, so that sums wait for no other.
  template <class Visit>
  [[gnu::always_inline]] static void each_block(int width, Visit visit) {
    int first = 0;
    for (; first + kAtOnce * kLanes <= width; first += kAtOnce * kLanes) visit.template run<kAtOnce>(first);
    for (; first < width; first += kLanes) visit.template run<1>(first);
  }

  struct Moments {
    const T* x;
    size_t rows;
    int width;
    float *sums, *distances;
    template <int N>
    [[gnu::always_inline]] void run(int first) {
      V sum[N], distance[N], mean[N];
      for (int i = 0; i < N; ++i) sum[i] = distance[i] = Numbers::zero();
      const T* p = x + first;
      for (size_t row = 0; row < rows; ++row, p += width)
        for (int i = 0; i < N; ++i) sum[i] += Numbers::load(p + i * kLanes);
      for (int i = 0; i < N; ++i) mean[i] = sum[i] / float(rows);
      p = x + first;
      for (size_t row = 0; row < rows; ++row, p += width)
        for (int i = 0; i < N; ++i) {
          const V gap = Numbers::load(p + i * kLanes) - mean[i];
          distance[i] += gap * gap;
        }
      for (int i = 0; i < N; ++i) {
        Floats::store(sum[i], sums + first + i * kLanes);
        Floats::store(distance[i], distances + first + i * kLanes);
      }
    }
  };
  static void moments(const void* x, size_t rows, int width, float* sums, float* distances) {
    each_block(width, Moments{static_cast<const T*>(x), rows, width, sums, distances});
  }

  template <bool kSkips>
  struct Forward {
    const T *x, *skip;
    size_t rows;
    int width;
    const float *slope, *shift;
    T* y;
    template <int N>
    [[gnu::always_inline]] void run(int first) {
      V own_slope[N], own_shift[N];
      for (int i = 0; i < N; ++i) {
        own_slope[i] = Floats::load(slope + first + i * kLanes);
        own_shift[i] = Floats::load(shift + first + i * kLanes);
      }
      size_t at = size_t(first);
      for (size_t row = 0; row < rows; ++row, at += size_t(width))
        for (int i = 0; i < N; ++i) {
          V v = Numbers::load(x + at + i * kLanes) * own_slope[i] + own_shift[i];
          if constexpr (kSkips) v += Numbers::load(skip + at + i * kLanes);
          Numbers::store(Floats::relu(v), y + at + i * kLanes);
        }
    }
  };
  static void forward(const void* x, const void* skip, size_t rows, int width, const float* slope, const float* shift,
                      void* y) {
    const auto *from = static_cast<const T*>(x), *other = static_cast<const T*>(skip);
    if (skip)
      each_block(width, Forward<true>{from, other, rows, width, slope, shift, static_cast<T*>(y)});
    else
      each_block(width, Forward<false>{from, other, rows, width, slope, shift, static_cast<T*>(y)});
  }

  struct Sums {
    const T *gradient, *y, *x;
    size_t rows;
    int width;
    const float* mean;
    float *of_g, *of_product;
    template <int N>
    [[gnu::always_inline]] void run(int first) {
      V g_sum[N], product_sum[N], own_mean[N];
      for (int i = 0; i < N; ++i) {
        g_sum[i] = product_sum[i] = Numbers::zero();
        own_mean[i] = Floats::load(mean + first + i * kLanes);
      }
      size_t at = size_t(first);
      for (size_t row = 0; row < rows; ++row, at += size_t(width))
        for (int i = 0; i < N; ++i) {
          const size_t here = at + size_t(i * kLanes);
          const V g = Numbers::load_positive(y + here, gradient + here);
          g_sum[i] += g;
          product_sum[i] += g * (Numbers::load(x + here) - own_mean[i]);
        }
      for (int i = 0; i < N; ++i) {
        Floats::store(g_sum[i], of_g + first + i * kLanes);
        Floats::store(product_sum[i], of_product + first + i * kLanes);
      }
    }
  };
  static void sums(const void* gradient, const void* y, const void* x, size_t rows, int width, const float* mean,
                   float* of_g, float* of_product) {
    each_block(width, Sums{static_cast<const T*>(gradient), static_cast<const T*>(y), static_cast<const T*>(x), rows,
                           width, mean, of_g, of_product});
  }

  template <bool kSkips>
  struct Backward {
    const T *gradient, *y, *x;
    size_t rows;
    int width;
    const float *slope, *per_x, *shift;
    T *x_gradient, *skip_gradient;
    template <int N>
    [[gnu::always_inline]] void run(int first) {
      V own_slope[N], own_per_x[N], own_shift[N];
      for (int i = 0; i < N; ++i) {
        own_slope[i] = Floats::load(slope + first + i * kLanes);
        own_per_x[i] = Floats::load(per_x + first + i * kLanes);
        own_shift[i] = Floats::load(shift + first + i * kLanes);
      }
      size_t at = size_t(first);
      for (size_t row = 0; row < rows; ++row, at += size_t(width))
        for (int i = 0; i < N; ++i) {
          const size_t here = at + size_t(i * kLanes);
          const V g = Numbers::load_positive(y + here, gradient + here);
          if constexpr (kSkips) Numbers::store(g, skip_gradient + here);
          Numbers::store(g * own_slope[i] + (Numbers::load(x + here) * own_per_x[i] + own_shift[i]), x_gradient + here);
        }
    }
  };
  static void backward(const void* gradient, const void* y, const void* x, size_t rows, int width, const float* slope,
                       const float* per_x, const float* shift, void* x_gradient, void* skip_gradient) {
    const auto *from = static_cast<const T*>(gradient), *out = static_cast<const T*>(y), *in = static_cast<const T*>(x);
    auto *to_x = static_cast<T*>(x_gradient), *to_skip = static_cast<T*>(skip_gradient);
    if (skip_gradient)
      each_block(width, Backward<true>{from, out, in, rows, width, slope, per_x, shift, to_x, to_skip});
    else
      each_block(width, Backward<false>{from, out, in, rows, width, slope, per_x, shift, to_x, to_skip});
  }

  static constexpr NormLoops kAll{kLanes, moments, forward, sums, backward};
};

}  // namespace shusaku
