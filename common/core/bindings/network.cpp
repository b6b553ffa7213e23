// The network on a CPU, in Python: small towers in floats and in 8 bits, and the convolutions and norms of a gradient
// step, whose tensors come as addresses.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "bindings/arrays.h"
#include "network/amx_convolution.h"
#include "network/convolution_step.h"
#include "network/float_tower.h"
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
bool has_avx512() { return false; }
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

// [boards, height, width, inputs, outputs, threads], and strides of [output, input, tap].
using Sizes = std::tuple<int, int, int, int, int, int>;
using Strides = std::tuple<std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t>;

#if defined(__x86_64__) && defined(__linux__)
// What the processor has of a matrix unit (Intel's manual of instructions, CPUID, leaf 7: AMX).
enum : int { kAmxBf16 = 22, kAmxTile = 24, kAmxInt8 = 25 };
bool has_matrix_unit(int feature) {
  unsigned a = 0, b = 0, c = 0, bits = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &bits) != 0 && (bits >> feature & 1) != 0;
}
// Linux saves the unit's registers, 8 KiB, for a process that asks for it (Documentation/arch/x86/xstate.rst).
bool has_amx() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  static const bool is_permitted = has_bf16() && kAmx != nullptr && has_matrix_unit(kAmxTile) &&
                                   has_matrix_unit(kAmxBf16) &&
                                   syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return is_permitted;
}
bool has_amx_int8() { return has_amx() && has_matrix_unit(kAmxInt8); }
#else
bool has_amx() { return false; }
bool has_amx_int8() { return false; }
#endif

// How the core convolves in a gradient step.
constexpr const char *kByAmx = "amx", *kByWinograd16 = "winograd_16", *kByWinograd8 = "winograd_8";

std::vector<std::string> convolution_ways(bool is_bf16) {
  std::vector<std::string> ways;
  if (is_bf16 && has_amx()) ways.emplace_back(kByAmx);
  if (has_avx512() && kWinograd512 != nullptr) ways.emplace_back(kByWinograd16);
  ways.emplace_back(kByWinograd8);
  return ways;
}

void require_way(bool is_bf16, const std::string& way) {
  const std::vector<std::string> ways = convolution_ways(is_bf16);
  require(std::find(ways.begin(), ways.end(), way) != ways.end(),
          way + ": not on this processor" + (is_bf16 ? ", of bf16" : ", of floats"));
}
const WinogradLoops& loops_of(const std::string& way) { return way == kByWinograd16 ? *kWinograd512 : kWinograd; }

ConvolutionSizes checked_sizes(const Sizes& sizes) {
  const auto [boards, height, width, inputs, outputs, threads] = sizes;
  require(boards >= 0 && height > 0 && width > 0 && inputs > 0 && outputs > 0 && inputs % 16 == 0 && outputs % 16 == 0,
          std::to_string(inputs) + " inputs and " + std::to_string(outputs) + " outputs, not multiples of 16");
  return {boards, height, width, inputs, outputs, threads};
}
KernelStrides strides_of(const Strides& strides) {
  return {std::get<0>(strides), std::get<1>(strides), std::get<2>(strides)};
}

template <class T>
void convolve(const WinogradLoops& loops, const ConvolutionSizes& sizes, Address x, Address kernels,
              const Strides& strides, Address y) {
  convolution_forward(loops, sizes, at<const T>(x), at<const float>(kernels), strides_of(strides), false, at<T>(y));
}

template <class T>
void convolve_back(const WinogradLoops& loops, const ConvolutionSizes& sizes, Address y_gradient, Address x,
                   Address kernels, const Strides& strides, bool adds, Address x_gradient, Address kernel_gradients,
                   const Strides& gradient_strides) {
  convolution_backward(loops, sizes, at<const T>(y_gradient), at<const T>(x), at<const float>(kernels),
                       strides_of(strides), adds, at<T>(x_gradient), at<float>(kernel_gradients),
                       strides_of(gradient_strides));
}

// How the core convolves in 8 bits, the fastest way first.
constexpr const char* kByVnni = "vnni";

std::vector<std::string> int8_ways() {
  std::vector<std::string> ways;
  if (has_vnni() && has_amx_int8()) ways.emplace_back(kByAmx);
  if (has_bf16() && has_vnni()) ways.emplace_back(kByVnni);
  return ways;
}

std::unique_ptr<Int8Tower> make_tower(const std::string& way, int planes, int height, int width, int actions,
                                      int filters, int blocks, int policy_filters, int value_filters, int value_hidden,
                                      bool is_policy_by_cell) {
  const std::vector<std::string> ways = int8_ways();
  if (std::find(ways.begin(), ways.end(), way) == ways.end()) return nullptr;
  const Int8Kernels* kernels = way == kByAmx ? int8_amx(filters) : int8_vnni(filters);
  if (kernels == nullptr) return nullptr;
  const TowerSizes sizes{planes, height,         width,         actions,      filters,
                         blocks, policy_filters, value_filters, value_hidden, is_policy_by_cell};
  return std::make_unique<Int8Tower>(*kernels, sizes);
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
  int8_tower
      .def_static("make", &make_tower, "way"_a, "planes"_a, "height"_a, "width"_a, "actions"_a, "filters"_a, "blocks"_a,
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
          "layer"_a, "weights"_a, "slope"_a, "shift"_a, "steps"_a);
  bind_heads(int8_tower);
  int8_tower.def("run", &run_int8_tower, "planes"_a.noconvert(), "rows"_a, "logits"_a.noconvert(),
                 "values"_a.noconvert());
  nb::class_<FloatTower> float_tower(m, "FloatTower");
  float_tower
      .def(
          "__init__",
          [](FloatTower* self, int planes, int height, int width, int actions, int filters, int blocks,
             int policy_filters, int value_filters, int value_hidden, bool is_policy_by_cell) {
            require(filters > 0 && filters % 16 == 0, std::to_string(filters) + " filters, not a multiple of 16");
            new (self) FloatTower({planes, height, width, actions, filters, blocks, policy_filters, value_filters,
                                   value_hidden, is_policy_by_cell});
          },
          "planes"_a, "height"_a, "width"_a, "actions"_a, "filters"_a, "blocks"_a, "policy_filters"_a,
          "value_filters"_a, "value_hidden"_a, "is_policy_by_cell"_a)
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
          amx_convolution_forward(*kAmx, own, at<const std::uint16_t>(x), at<const float>(kernels), strides_of(strides),
                                  at<std::uint16_t>(y));
        else
          (is_bf16 ? convolve<std::uint16_t> : convolve<float>)(loops_of(way), own, x, kernels, strides, y);
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
                                   at<const float>(kernels), strides_of(strides), adds, at<std::uint16_t>(x_gradient),
                                   at<float>(kernel_gradients), strides_of(gradient_strides));
          return;
        }
        const auto run = is_bf16 ? convolve_back<std::uint16_t> : convolve_back<float>;
        run(loops_of(way), own, y_gradient, x, kernels, strides, adds, x_gradient, kernel_gradients, gradient_strides);
      },
      "is_bf16"_a, "sizes"_a, "y_gradient"_a, "x"_a, "kernels"_a, "strides"_a, "adds"_a, "x_gradient"_a,
      "kernel_gradients"_a, "gradient_strides"_a, "way"_a);
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
