// A 3x3 convolution of a gradient step on a CPU, forward and backward, by Winograd's minimal filtering.
//
// Boards are [boards, height, width, channels] of floats or of bf16 (torch: channels_last), kernels and their gradients
// of floats, and all is computed in floats.  Backward is the derivative of what is computed forward: the gradient of a
// kernel's numbers at a point is the product of the inputs' and the sums' gradients there, over all tiles.  The
// gradient of the inputs is a convolution with the turned kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "network/aligned_array.h"
#include "network/board_parts.h"
#include "network/number_types.h"
#include "network/winograd.h"

namespace shusaku {

// The memory for boards whose tiles are multiplied at once; of one thread.
class WinogradGroup {
 public:
  WinogradGroup(const WinogradLoops& loops, const WinogradBoard& shape, int inputs, int outputs)
      : loops_(loops),
        shape_(shape),
        inputs_(inputs),
        outputs_(outputs),
        boards_(shape.at_once()),
        padded_(std::size_t(shape.padded() * std::max(inputs, outputs))),
        finished_(board(outputs)),
        numbers_(at_points(inputs)),
        sums_(at_points(outputs)) {}

  int boards() const { return boards_; }

  // y [boards, H, W, outputs], the convolution of x [boards, H, W, inputs] by packed kernels, or, if `adds`, y + it.
  template <class T>
  void forward(const T* x, int boards, const float* packed, bool adds, T* y) {
    transform_inputs(x, boards);
    loops_.multiply(shape_, packed, inputs_, outputs_, numbers_.data(), of(inputs_), boards * shape_.tiles(),
                    sums_.data(), of(outputs_));
    for (int b = 0; b < boards; ++b, y += board(outputs_)) finish(b, adds, y);
  }

  // Adds to the gradients of the kernels' numbers, [points, inputs, outputs].
  template <class T>
  void add_kernel_gradients(const T* x, const T* y_gradient, int boards, float* gradients) {
    transform_inputs(x, boards);
    for (int b = 0; b < boards; ++b) {
      lay_out(y_gradient + std::size_t(b) * board(outputs_), outputs_);
      loops_.transform_output_gradients(shape_, padded_.data(), outputs_,
                                        sums_.data() + std::size_t(b * shape_.tiles() * outputs_), of(outputs_));
    }
    for (std::size_t point = 0; point < std::size_t(shape_.points()); ++point)
      loops_.add_outer_products(numbers_.data() + point * of(inputs_), sums_.data() + point * of(outputs_),
                                boards * shape_.tiles(), inputs_, outputs_, gradients + point * of_point());
  }

 private:
  std::size_t of(int channels) const { return std::size_t(boards_ * shape_.tiles() * channels); }
  std::size_t at_points(int channels) const { return std::size_t(shape_.points()) * of(channels); }
  std::size_t of_point() const { return std::size_t(inputs_) * std::size_t(outputs_); }
  std::size_t board(int channels) const { return std::size_t(shape_.height * shape_.width * channels); }

  template <class T>
  void transform_inputs(const T* x, int boards) {
    for (int b = 0; b < boards; ++b) {
      lay_out(x + std::size_t(b) * board(inputs_), inputs_);
      loops_.transform_inputs(shape_, padded_.data(), inputs_,
                              numbers_.data() + std::size_t(b * shape_.tiles() * inputs_), of(inputs_));
    }
  }

  // A board within zeros.
  template <class T>
  void lay_out(const T* board, int channels) {
    if (channels != laid_out_) std::fill_n(padded_.data(), std::size_t(shape_.padded() * channels), 0.f);
    laid_out_ = channels;
    const std::size_t row = std::size_t(shape_.width * channels);
    for (int y = 0; y < shape_.height; ++y, board += row)
      read_numbers(board, row, padded_.data() + std::size_t(shape_.at(y, 0) * channels));
  }

  void finish(int b, float* y) {
    loops_.transform_outputs(shape_, sums_.data() + std::size_t(b * shape_.tiles() * outputs_), of(outputs_), outputs_,
                             nullptr, nullptr, {y, shape_.width});
  }
  template <class T>
  void finish(int b, bool adds, T* y) {
    if constexpr (std::is_same_v<T, float>)
      if (!adds) return finish(b, y);
    finish(b, finished_.data());
    if (adds) add_numbers(y, board(outputs_), finished_.data());
    write_numbers(finished_.data(), board(outputs_), y);
  }

  const WinogradLoops& loops_;
  WinogradBoard shape_;
  int inputs_, outputs_, boards_;
  int laid_out_ = 0;  // channels of the board that lies in `padded_`
  AlignedArray<float> padded_, finished_, numbers_, sums_;
};

// y = the convolution of x, or, if `adds`, y + it.
template <class T>
void winograd_convolution_forward(const WinogradLoops& loops, const ConvolutionSizes& sizes, const T* x,
                                  const ConstKernels& kernels, bool adds, T* y) {
  const WinogradBoard shape = WinogradBoard::of(sizes.height, sizes.width);
  AlignedArray<float> packed(std::size_t(shape.points() * sizes.inputs * sizes.outputs));
  loops.transform_kernels(shape, kernels.first, kernels.strides, sizes.inputs, sizes.inputs, sizes.outputs,
                          packed.data());
  const auto make = [&] { return WinogradGroup(loops, shape, sizes.inputs, sizes.outputs); };
  over_boards(sizes, make, [&](int, WinogradGroup& group, int first, int boards) {
    group.forward(x + sizes.inputs_before(first), boards, packed.data(), adds, y + sizes.outputs_before(first));
  });
}

// From the gradient of y to those of the kernels and of x, which may be null; `adds`: to what is there.
template <class T>
void winograd_convolution_backward(const WinogradLoops& loops, const ConvolutionSizes& sizes, const T* y_gradient,
                                   const T* x, const ConstKernels& kernels, bool adds, T* x_gradient,
                                   float* kernel_gradients, KernelStrides gradient_strides) {
  if (x_gradient != nullptr) {
    ConvolutionSizes back = sizes;
    std::swap(back.inputs, back.outputs);
    winograd_convolution_forward(loops, back, y_gradient, kernels.turned(), adds, x_gradient);
  }
  const WinogradBoard shape = WinogradBoard::of(sizes.height, sizes.width);
  PartialSums sums(sizes, std::size_t(shape.points() * sizes.inputs * sizes.outputs));
  const auto make = [&] { return WinogradGroup(loops, shape, sizes.inputs, sizes.outputs); };
  over_boards(sizes, make, [&](int part, WinogradGroup& group, int first, int boards) {
    group.add_kernel_gradients(x + sizes.inputs_before(first), y_gradient + sizes.outputs_before(first), boards,
                               sums.of(part));
  });
  loops.transform_kernel_gradients(shape, sums.all(), sizes.inputs, sizes.outputs, kernel_gradients, gradient_strides);
}

}  // namespace shusaku
