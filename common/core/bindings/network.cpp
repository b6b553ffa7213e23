// The network on a CPU, in Python: small towers in 8 bits, and the norms of a gradient step, whose tensors come as
// addresses.
#include <nanobind/stl/unique_ptr.h>

#include "bindings/arrays.h"
#include "network/int8_tower.h"
#include "network/norm_relu.h"

namespace shusaku {

using namespace nb::literals;

namespace {

using Address = std::uintptr_t;

#if defined(__x86_64__)
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
bool has_bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16") != 0; }
bool has_vnni() { return has_avx512() && __builtin_cpu_supports("avx512vnni") != 0; }
#else
bool has_bf16() { return false; }
bool has_vnni() { return false; }
#endif

const NormKernels* kernels_of(bool is_bf16) { return !is_bf16 ? kNormFloat : has_bf16() ? kNormBf16 : nullptr; }

NormRows rows_of(bool is_bf16, std::size_t rows, int channels, int threads) {
  const NormKernels* kernels = kernels_of(is_bf16);
  require(kernels != nullptr, "this processor has no bf16");
  const NormRows found(*kernels, rows, channels, is_bf16 ? 2 : 4, threads);
  require(found.fits(), std::to_string(rows) + " rows of " + std::to_string(channels) + " channels fill no registers");
  return found;
}

template <class T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr): torch names memory so
}

std::unique_ptr<Int8Tower> make_tower(int planes, int height, int width, int actions, int filters, int blocks,
                                      int policy_filters, int value_filters, int value_hidden, bool is_policy_by_cell) {
  const Int8Kernels* kernels = has_bf16() && has_vnni() ? int8_kernels(filters) : nullptr;
  if (kernels == nullptr) return nullptr;
  const TowerSizes sizes{planes, height,         width,         actions,      filters,
                         blocks, policy_filters, value_filters, value_hidden, is_policy_by_cell};
  return std::make_unique<Int8Tower>(*kernels, sizes);
}

void run_tower(Int8Tower& tower, In<std::uint16_t, 4> planes, std::size_t rows, Out<float, 2> logits,
               Out<float, 1> values) {
  const TowerSizes& s = tower.sizes();
  require(planes.shape(1) == std::size_t(s.height) && planes.shape(2) == std::size_t(s.width) &&
              planes.shape(3) == std::size_t(s.planes) && logits.shape(1) == std::size_t(s.actions),
          "the arrays are of another tower");
  require(rows <= planes.shape(0) && rows <= logits.shape(0) && rows <= values.shape(0),
          std::to_string(rows) + " rows of smaller arrays");
  const nb::gil_scoped_release nogil;
  tower.run(planes.data(), rows, logits.data(), values.data());
}

}  // namespace

void bind_network(nb::module_& m) {
  nb::class_<Int8Tower>(m, "Int8Tower")
      .def_static("make", &make_tower, "planes"_a, "height"_a, "width"_a, "actions"_a, "filters"_a, "blocks"_a,
                  "policy_filters"_a, "value_filters"_a, "value_hidden"_a, "is_policy_by_cell"_a)
      .def(
          "set_stem",
          [](Int8Tower& tower, In<float, 4> weights, In<float, 1> bias, float steps) {
            const TowerSizes& s = tower.sizes();
            require(weights.size() == std::size_t(s.filters * s.planes * 9) && bias.size() == std::size_t(s.filters),
                    "a stem of another tower");
            tower.set_stem(weights.data(), bias.data(), steps);
          },
          "weights"_a, "bias"_a, "steps"_a)
      .def(
          "set_layer",
          [](Int8Tower& tower, int layer, In<std::int8_t, 4> weights, In<float, 1> slope, In<float, 1> shift,
             float steps) {
            const auto n = std::size_t(tower.sizes().filters);
            require(layer >= 0 && layer < 2 * tower.sizes().blocks && weights.size() == 9 * n * n &&
                        slope.size() == n && shift.size() == n,
                    "a layer of another tower");
            tower.set_layer(layer, weights.data(), slope.data(), shift.data(), steps);
          },
          "layer"_a, "weights"_a, "slope"_a, "shift"_a, "steps"_a)
      .def(
          "set_policy",
          [](Int8Tower& tower, In<float, 4> features, In<float, 1> features_bias, In<float, 2> output,
             In<float, 1> output_bias) {
            const TowerSizes& s = tower.sizes();
            const int outputs = s.is_policy_by_cell ? s.cell_actions() : s.actions;
            const int inputs = s.is_policy_by_cell ? s.policy_filters : s.policy_filters * s.cells();
            require(features.size() == std::size_t(s.policy_filters * s.filters) &&
                        features_bias.size() == std::size_t(s.policy_filters) &&
                        output.size() == std::size_t(outputs) * std::size_t(inputs) &&
                        output_bias.size() == std::size_t(outputs),
                    "a policy head of another tower");
            tower.set_policy(features.data(), features_bias.data(), output.data(), output_bias.data());
          },
          "features"_a, "features_bias"_a, "output"_a, "output_bias"_a)
      .def(
          "set_value",
          [](Int8Tower& tower, In<float, 4> features, In<float, 1> features_bias, In<float, 2> hidden,
             In<float, 1> hidden_bias, In<float, 2> output, In<float, 1> output_bias) {
            const TowerSizes& s = tower.sizes();
            require(features.size() == std::size_t(s.value_filters * s.filters) &&
                        features_bias.size() == std::size_t(s.value_filters) &&
                        hidden.size() == std::size_t(s.value_hidden) * std::size_t(s.value_filters * s.cells()) &&
                        hidden_bias.size() == std::size_t(s.value_hidden) &&
                        output.size() == std::size_t(s.value_hidden) && output_bias.size() == 1,
                    "a value head of another tower");
            tower.set_value(features.data(), features_bias.data(), hidden.data(), hidden_bias.data(), output.data(),
                            output_bias.data());
          },
          "features"_a, "features_bias"_a, "hidden"_a, "hidden_bias"_a, "output"_a, "output_bias"_a)
      .def("run", &run_tower, "planes"_a.noconvert(), "rows"_a, "logits"_a.noconvert(), "values"_a.noconvert());
  m.def(
      "norm_relu_fits",
      [](bool is_bf16, std::size_t rows, int channels) {
        const NormKernels* kernels = kernels_of(is_bf16);
        return kernels != nullptr && NormRows(*kernels, rows, channels, is_bf16 ? 2 : 4, 1).fits();
      },
      "is_bf16"_a, "rows"_a, "channels"_a);
  m.def(
      "norm_relu_forward",
      [](bool is_bf16, std::size_t rows, int channels, int threads, Address x, Address skip, Address weight,
         Address bias, Address running_mean, Address running_variance, float momentum, float epsilon, Address y,
         Address mean, Address scale) {
        const NormRows own = rows_of(is_bf16, rows, channels, threads);
        const nb::gil_scoped_release nogil;
        const NormState state{at<const float>(weight),
                              at<const float>(bias),
                              at<float>(running_mean),
                              at<float>(running_variance),
                              momentum,
                              epsilon};
        norm_relu_forward(own, at<const void>(x), at<const void>(skip), state, at<void>(y), at<float>(mean),
                          at<float>(scale));
      },
      "is_bf16"_a, "rows"_a, "channels"_a, "threads"_a, "x"_a, "skip"_a, "weight"_a, "bias"_a, "running_mean"_a,
      "running_variance"_a, "momentum"_a, "epsilon"_a, "y"_a, "mean"_a, "scale"_a);
  m.def(
      "norm_relu_backward",
      [](bool is_bf16, std::size_t rows, int channels, int threads, Address gradient, Address y, Address x,
         Address weight, Address mean, Address scale, Address x_gradient, Address skip_gradient,
         Address weight_gradient, Address bias_gradient) {
        const NormRows own = rows_of(is_bf16, rows, channels, threads);
        const nb::gil_scoped_release nogil;
        norm_relu_backward(own, at<const void>(gradient), at<const void>(y), at<const void>(x), at<const float>(weight),
                           at<const float>(mean), at<const float>(scale), at<void>(x_gradient), at<void>(skip_gradient),
                           at<float>(weight_gradient), at<float>(bias_gradient));
      },
      "is_bf16"_a, "rows"_a, "channels"_a, "threads"_a, "gradient"_a, "y"_a, "x"_a, "weight"_a, "mean"_a, "scale"_a,
      "x_gradient"_a, "skip_gradient"_a, "weight_gradient"_a, "bias_gradient"_a);
}

}  // namespace shusaku
