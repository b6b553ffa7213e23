// The network on a CPU, in Python: small towers in floats and in 8 bits, and the convolutions and norms of a gradient
// step, whose tensors come as addresses.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/arrays.h"
#include "network/amx_convolution.h"
#include "network/float_tower.h"
#include "network/int8_tower.h"
#include "network/norm_relu.h"
#include "network/ways.h"
#include "network/winograd_convolution.h"

namespace shusaku {

using namespace nb::literals;

namespace {

using Address = std::uintptr_t;

NormRows rows_of(bool is_bf16, std::size_t rows, int channels, int threads) {
  const NormLoops* const loops = norm_loops(is_bf16);
  require(loops != nullptr, "this processor has no bf16");
  const NormRows found(*loops, rows, channels, is_bf16 ? 2 : 4, threads);
  require(found.fits(), std::to_string(rows) + " rows of " + std::to_string(channels) + " channels fill no registers");
  return found;
}

template <class T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr): torch names memory so
}

// [boards, height, width, inputs, outputs, threads], and strides of [output, input, tap].
using Sizes = std::tuple<int, int, int, int, int, int>;
using Strides = std::tuple<std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t>;

void require_way(bool is_bf16, const std::string& way) {
  const std::vector<std::string> ways = convolution_ways(is_bf16);
  require(std::find(ways.begin(), ways.end(), way) != ways.end(),
          way + ": not on this processor" + (is_bf16 ? ", of bf16" : ", of floats"));
}

ConvolutionSizes checked_sizes(const Sizes& sizes) {
  const auto [boards, height, width, inputs, outputs, threads] = sizes;
  require(boards >= 0 && height > 0 && width > 0,
          std::to_string(boards) + " boards of " + std::to_string(height) + " x " + std::to_string(width) + " cells");
  require(inputs > 0 && outputs > 0 && inputs % 16 == 0 && outputs % 16 == 0,
          std::to_string(inputs) + " inputs and " + std::to_string(outputs) + " outputs, not multiples of 16");
  return {boards, height, width, inputs, outputs, threads};
}
KernelStrides strides_of(const Strides& strides) {
  return {std::get<0>(strides), std::get<1>(strides), std::get<2>(strides)};
}
ConstKernels kernels_at(Address address, const Strides& strides) {
  return {at<const float>(address), strides_of(strides)};
}

template <class T>
void convolve(const std::string& way, const ConvolutionSizes& sizes, Address x, const ConstKernels& kernels,
              Address y) {
  winograd_convolution_forward(winograd_loops(way), sizes, at<const T>(x), kernels, false, at<T>(y));
}

template <class T>
void convolve_back(const std::string& way, const ConvolutionSizes& sizes, Address y_gradient, Address x,
                   const ConstKernels& kernels, bool adds, Address x_gradient, Address kernel_gradients,
                   const Strides& gradient_strides) {
  winograd_convolution_backward(winograd_loops(way), sizes, at<const T>(y_gradient), at<const T>(x), kernels, adds,
                                at<T>(x_gradient), at<float>(kernel_gradients), strides_of(gradient_strides));
}

// The fields of TowerSizes.
using Tower = std::tuple<int, int, int, int, int, int, int, int, int, bool>;

TowerSizes sizes_of(const Tower& tower) {
  const TowerSizes s = std::apply([](auto... sizes) { return TowerSizes{sizes...}; }, tower);
  require(s.planes > 0 && s.height > 0 && s.width > 0 && s.actions > 0 && s.filters > 0 && s.blocks >= 0 &&
              s.policy_filters > 0 && s.value_filters > 0 && s.value_hidden > 0,
          "a size of a tower is below 1");
  return s;
}

std::unique_ptr<Int8Tower> make_int8_tower(const std::string& way, const Tower& tower) {
  const TowerSizes sizes = sizes_of(tower);
  const std::vector<std::string> ways = int8_ways();
  if (std::find(ways.begin(), ways.end(), way) == ways.end()) return nullptr;
  const Int8Loops* const loops = int8_loops(way, sizes.filters);
  return loops == nullptr ? nullptr : std::make_unique<Int8Tower>(*loops, sizes);
}

// Checks what all towers read and write.
template <class T>
void require_rows(const TowerSizes& s, const In<T, 4>& planes, std::size_t rows, const Out<float, 2>& logits,
                  const Out<float, 1>& values) {
  require(planes.shape(1) == std::size_t(s.height) && planes.shape(2) == std::size_t(s.width) &&
              planes.shape(3) == std::size_t(s.planes) && logits.shape(1) == std::size_t(s.actions),
          "the arrays are of another tower");
  require(rows <= planes.shape(0) && rows <= logits.shape(0) && rows <= values.shape(0),
          std::to_string(rows) + " rows of smaller arrays");
}

void run_int8_tower(Int8Tower& tower, In<std::uint16_t, 4> planes, std::size_t rows, Out<float, 2> logits,
                    Out<float, 1> values) {
  require_rows(tower.sizes(), planes, rows, logits, values);
  const nb::gil_scoped_release nogil;
  tower.run(planes.data(), rows, logits.data(), values.data());
}

void run_float_tower(FloatTower& tower, In<float, 4> planes, std::size_t rows, Out<float, 2> logits,
                     Out<float, 1> values, std::optional<Out<float, 3>> ownership,
                     std::optional<Out<float, 1>> scores) {
  const TowerSizes& s = tower.sizes();
  require_rows(s, planes, rows, logits, values);
  require(!ownership || (tower.has_ownership() && rows <= ownership->shape(0) &&
                         ownership->shape(1) == std::size_t(s.height) && ownership->shape(2) == std::size_t(s.width)),
          "ownership of another tower");
  require(!scores || (tower.has_score() && rows <= scores->shape(0)), "scores of another tower");
  const nb::gil_scoped_release nogil;
  tower.run(planes.data(), rows, logits.data(), values.data(),
            {ownership ? ownership->data() : nullptr, scores ? scores->data() : nullptr});
}

template <class Tower>
void set_policy(Tower& tower, In<float, 4> features, In<float, 1> features_bias, In<float, 2> output,
                In<float, 1> output_bias) {
  const TowerSizes& s = tower.sizes();
  const int outputs = s.is_policy_by_cell ? s.cell_actions() : s.actions;
  const int inputs = s.is_policy_by_cell ? s.policy_filters : s.policy_filters * s.cells();
  require(features.size() == std::size_t(s.policy_filters * s.filters) &&
              features_bias.size() == std::size_t(s.policy_filters) &&
              output.size() == std::size_t(outputs) * std::size_t(inputs) && output_bias.size() == std::size_t(outputs),
          "a policy head of another tower");
  tower.heads().policy().set(features.data(), features_bias.data(), output.data(), output_bias.data());
}

// `head()`: the one to set, asked for only if the sizes are right.
template <class Head>
void set_number_head(Head head, const TowerSizes& s, const char* name, In<float, 4> features,
                     In<float, 1> features_bias, In<float, 2> hidden, In<float, 1> hidden_bias, In<float, 2> output,
                     In<float, 1> output_bias) {
  require(features.size() == std::size_t(s.value_filters * s.filters) &&
              features_bias.size() == std::size_t(s.value_filters) &&
              hidden.size() == std::size_t(s.value_hidden) * std::size_t(s.value_filters * s.cells()) &&
              hidden_bias.size() == std::size_t(s.value_hidden) && output.size() == std::size_t(s.value_hidden) &&
              output_bias.size() == 1,
          "a " + std::string(name) + " head of another tower");
  head().set(features.data(), features_bias.data(), hidden.data(), hidden_bias.data(), output.data(),
             output_bias.data());
}

// What the towers of all kinds of numbers have alike.
template <class Tower>
void bind_heads(nb::class_<Tower>& tower) {
  tower.def("set_policy", &set_policy<Tower>, "features"_a, "features_bias"_a, "output"_a, "output_bias"_a)
      .def(
          "set_value",
          [](Tower& tower, In<float, 4> features, In<float, 1> features_bias, In<float, 2> hidden,
             In<float, 1> hidden_bias, In<float, 2> output, In<float, 1> output_bias) {
            set_number_head([&]() -> auto& { return tower.heads().value(); }, tower.sizes(), "value", features,
                            features_bias, hidden, hidden_bias, output, output_bias);
          },
          "features"_a, "features_bias"_a, "hidden"_a, "hidden_bias"_a, "output"_a, "output_bias"_a);
}

}  // namespace

void bind_network(nb::module_& m) {
  nb::class_<Int8Tower> int8_tower(m, "Int8Tower");
  int8_tower.def_static("make", &make_int8_tower, "way"_a, "sizes"_a)
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
          "layer"_a, "weights"_a, "slope"_a, "shift"_a, "steps"_a);
  bind_heads(int8_tower);
  int8_tower.def("run", &run_int8_tower, "planes"_a.noconvert(), "rows"_a, "logits"_a.noconvert(),
                 "values"_a.noconvert());
  nb::class_<FloatTower> float_tower(m, "FloatTower");
  float_tower
      .def(
          "__init__",
          [](FloatTower* self, const Tower& tower) {
            const TowerSizes sizes = sizes_of(tower);
            require(sizes.filters % 16 == 0, std::to_string(sizes.filters) + " filters, not a multiple of 16");
            new (self) FloatTower(sizes);
          },
          "sizes"_a)
      .def(
          "set_layer",
          [](FloatTower& tower, int layer, In<float, 4> weights, In<float, 1> bias) {
            const TowerSizes& s = tower.sizes();
            require(layer >= 0 && layer <= 2 * s.blocks &&
                        weights.size() == std::size_t(9 * (layer == 0 ? s.planes : s.filters) * s.filters) &&
                        bias.size() == std::size_t(s.filters),
                    "a layer of another tower");
            tower.set_layer(layer, weights.data(), bias.data());
          },
          "layer"_a, "weights"_a, "bias"_a);
  bind_heads(float_tower);
  float_tower
      .def(
          "set_ownership",
          [](FloatTower& tower, In<float, 4> weights, In<float, 1> bias) {
            require(weights.size() == std::size_t(tower.sizes().filters) && bias.size() == 1,
                    "an ownership head of another tower");
            tower.set_ownership(weights.data(), bias.data());
          },
          "weights"_a, "bias"_a)
      .def(
          "set_score",
          [](FloatTower& tower, In<float, 4> features, In<float, 1> features_bias, In<float, 2> hidden,
             In<float, 1> hidden_bias, In<float, 2> output, In<float, 1> output_bias) {
            set_number_head([&]() -> auto& { return tower.score(); }, tower.sizes(), "score", features, features_bias,
                            hidden, hidden_bias, output, output_bias);
          },
          "features"_a, "features_bias"_a, "hidden"_a, "hidden_bias"_a, "output"_a, "output_bias"_a)
      .def("run", &run_float_tower, "planes"_a.noconvert(), "rows"_a, "logits"_a.noconvert(), "values"_a.noconvert(),
           "ownership"_a.noconvert().none() = nb::none(), "scores"_a.noconvert().none() = nb::none());
  m.def("int8_ways", &int8_ways);
  m.def("convolution_ways", &convolution_ways, "is_bf16"_a);
  m.def(
      "convolution_forward",
      [](bool is_bf16, const Sizes& sizes, Address x, Address kernels, const Strides& strides, Address y,
         const std::string& way) {
        require_way(is_bf16, way);
        const ConvolutionSizes own = checked_sizes(sizes);
        const nb::gil_scoped_release nogil;
        if (way == kByAmx)
          amx_convolution_forward(*kAmx, own, at<const std::uint16_t>(x), kernels_at(kernels, strides),
                                  at<std::uint16_t>(y));
        else
          (is_bf16 ? convolve<std::uint16_t> : convolve<float>)(way, own, x, kernels_at(kernels, strides), y);
      },
      "is_bf16"_a, "sizes"_a, "x"_a, "kernels"_a, "strides"_a, "y"_a, "way"_a);
  m.def(
      "convolution_backward",
      [](bool is_bf16, const Sizes& sizes, Address y_gradient, Address x, Address kernels, const Strides& strides,
         bool adds, Address x_gradient, Address kernel_gradients, const Strides& gradient_strides,
         const std::string& way) {
        require_way(is_bf16, way);
        const ConvolutionSizes own = checked_sizes(sizes);
        const nb::gil_scoped_release nogil;
        if (way == kByAmx) {
          amx_convolution_backward(*kAmx, own, at<const std::uint16_t>(y_gradient), at<const std::uint16_t>(x),
                                   kernels_at(kernels, strides), adds, at<std::uint16_t>(x_gradient),
                                   at<float>(kernel_gradients), strides_of(gradient_strides));
          return;
        }
        const auto run = is_bf16 ? convolve_back<std::uint16_t> : convolve_back<float>;
        run(way, own, y_gradient, x, kernels_at(kernels, strides), adds, x_gradient, kernel_gradients,
            gradient_strides);
      },
      "is_bf16"_a, "sizes"_a, "y_gradient"_a, "x"_a, "kernels"_a, "strides"_a, "adds"_a, "x_gradient"_a,
      "kernel_gradients"_a, "gradient_strides"_a, "way"_a);
  m.def(
      "norm_relu_fits",
      [](bool is_bf16, std::size_t rows, int channels) {
        const NormLoops* const loops = norm_loops(is_bf16);
        return loops != nullptr && NormRows(*loops, rows, channels, is_bf16 ? 2 : 4, 1).fits();
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
