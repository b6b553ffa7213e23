// A 3x3 convolution of a gradient step on a CPU with a matrix unit, forward and backward, of bf16.
//
// Boards are [boards, height, width, channels] (torch: channels_last), kernels and their gradients floats; kernels are
// rounded to bf16, and sums are floats.  The gradient of the inputs is a convolution with the turned kernels; that of
// the kernels, at each tap, the product of the gradients with the inputs that far away, over all cells.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "network/aligned_array.h"
#include "network/amx_loops.h"
#include "network/board_parts.h"

namespace shusaku {

// Boards between zeros, as `amx_loops.h` lays them out.
class AmxBoards {
 public:
  AmxBoards(const AmxBoard& shape, int channels)
      : shape_(shape),
        channels_(std::size_t(channels)),
        numbers_((std::size_t(shape.lead() + shape.tail()) + 32 * std::size_t(matrices())) * channels_) {}

  // Blocks of 32 positions that hold all boards.
  int matrices() const { return (shape_.boards_at_once() * shape_.positions() + 31) / 32; }
  // Pairs of positions, from the first zero to the end, and as many from the position behind it.
  int pairs() const { return (shape_.lead() + shape_.tail()) / 2 + 16 * matrices() - 1; }
  const std::uint16_t* begin() const { return numbers_.data(); }
  const std::uint16_t* first() const { return numbers_.data() + std::size_t(shape_.lead()) * channels_; }

  void lay_out(const std::uint16_t* boards, int count) {
    const std::size_t row = std::size_t(shape_.width) * channels_;
    std::uint16_t* const to = numbers_.data() + std::size_t(shape_.lead()) * channels_;
    for (int board = 0; board < count; ++board)
      for (int y = 0; y < shape_.height; ++y, boards += row)
        std::copy_n(boards, row, to + std::size_t(board * shape_.positions() + y * shape_.pitch()) * channels_);
    const std::size_t end = std::size_t(count * shape_.positions()) * channels_,
                      filled = std::size_t(filled_ * shape_.positions()) * channels_;
    if (end < filled) std::fill(to + end, to + filled, std::uint16_t(0));
    filled_ = count;
  }

 private:
  AmxBoard shape_;
  std::size_t channels_;
  int filled_ = 0;  // boards
  AlignedArray<std::uint16_t> numbers_;
};

// The memory for boards that are convolved at once; of one thread.
class AmxGroup {
 public:
  AmxGroup(const AmxLoops& loops, const ConvolutionSizes& sizes)
      : loops_(loops),
        shape_{sizes.height, sizes.width},
        inputs_(sizes.inputs),
        outputs_(sizes.outputs),
        cells_(std::size_t(16 * shape_.row_blocks()), -1),
        x_(shape_, inputs_) {
    for (int y = 0; y < shape_.height; ++y)
      for (int x = 0; x < shape_.width; ++x) cells_[std::size_t(y * shape_.pitch() + x)] = y * shape_.width + x;
    loops_.configure();
  }
  AmxGroup(const AmxGroup&) = delete;
  AmxGroup& operator=(const AmxGroup&) = delete;
  ~AmxGroup() { loops_.release(); }

  int boards() const { return shape_.boards_at_once(); }

  // y [boards, H, W, outputs], the convolution of x [boards, H, W, inputs] by packed kernels.
  void forward(const std::uint16_t* x, int boards, const std::uint16_t* packed, std::uint16_t* y) {
    x_.lay_out(x, boards);
    loops_.convolve(shape_, x_.first(), boards, packed, inputs_, outputs_, cells_.data(), false, y);
  }

 protected:
  const AmxLoops& loops_;
  AmxBoard shape_;
  int inputs_, outputs_;
  std::vector<int> cells_;
  AmxBoards x_;
};

// And for their gradients.
class AmxGradients : AmxGroup {
 public:
  AmxGradients(const AmxLoops& loops, const ConvolutionSizes& sizes)
      : AmxGroup(loops, sizes),
        gradient_(shape_, outputs_),
        even_(of_pairs()),
        odd_(of_pairs()),
        transposed_(std::size_t(x_.matrices()) * kMatrixNumbers * std::size_t(outputs_ / 16)) {}

  using AmxGroup::boards;

  // Adds to the kernels' gradients, as `AmxLoops::add_products` says, and writes those of x, or adds them to what is
  // there, by packed turned kernels, if it is not null.
  void backward(const std::uint16_t* y_gradient, const std::uint16_t* x, int boards, const std::uint16_t* turned,
                bool adds, std::uint16_t* x_gradient, float* sums) {
    gradient_.lay_out(y_gradient, boards);
    if (x_gradient != nullptr)
      loops_.convolve(shape_, gradient_.first(), boards, turned, outputs_, inputs_, cells_.data(), adds, x_gradient);
    x_.lay_out(x, boards);
    loops_.interleave(x_.begin(), inputs_, x_.pairs(), even_.data());
    loops_.interleave(x_.begin() + inputs_, inputs_, x_.pairs(), odd_.data());
    loops_.transpose(gradient_.first(), outputs_, x_.matrices(), transposed_.data());
    loops_.add_products(shape_, transposed_.data(), x_.matrices(), even_.data(), odd_.data(), x_.pairs(), inputs_,
                        outputs_, sums);
  }

 private:
  std::size_t of_pairs() const { return 2 * std::size_t(x_.pairs()) * std::size_t(inputs_); }

  AmxBoards gradient_;
  AlignedArray<std::uint16_t> even_, odd_, transposed_;
};

inline AlignedArray<std::uint16_t> packed_kernels(const AmxLoops& loops, const ConstKernels& kernels, int inputs,
                                                  int outputs) {
  AlignedArray<std::uint16_t> packed(std::size_t(3 * row_matrices(inputs) * (outputs / 16)) * kMatrixNumbers);
  loops.pack_kernels(kernels.first, kernels.strides, inputs, outputs, packed.data());
  return packed;
}

// y = the convolution of x.
inline void amx_convolution_forward(const AmxLoops& loops, const ConvolutionSizes& sizes, const std::uint16_t* x,
                                    const ConstKernels& kernels, std::uint16_t* y) {
  const AlignedArray<std::uint16_t> packed = packed_kernels(loops, kernels, sizes.inputs, sizes.outputs);
  const auto make = [&] { return AmxGroup(loops, sizes); };
  over_boards(sizes, make, [&](int, AmxGroup& group, int first, int boards) {
    group.forward(x + sizes.inputs_before(first), boards, packed.data(), y + sizes.outputs_before(first));
  });
}

// From the gradient of y to those of the kernels and of x, which may be null; `adds`: to what is there.
inline void amx_convolution_backward(const AmxLoops& loops, const ConvolutionSizes& sizes,
                                     const std::uint16_t* y_gradient, const std::uint16_t* x,
                                     const ConstKernels& kernels, bool adds, std::uint16_t* x_gradient,
                                     float* kernel_gradients, KernelStrides gradient_strides) {
  const AlignedArray<std::uint16_t> turned = packed_kernels(loops, kernels.turned(), sizes.outputs, sizes.inputs);
  PartialSums sums(sizes, std::size_t(9 * sizes.inputs * sizes.outputs));
  const auto make = [&] { return AmxGradients(loops, sizes); };
  over_boards(sizes, make, [&](int part, AmxGradients& group, int first, int boards) {
    const std::size_t of_x = sizes.inputs_before(first);
    group.backward(y_gradient + sizes.outputs_before(first), x + of_x, boards, turned.data(), adds,
                   x_gradient == nullptr ? nullptr : x_gradient + of_x, sums.of(part));
  });
  const float* sum = sums.all();
  for (int tap = 0; tap < 9; ++tap)
    for (int output = 0; output < sizes.outputs; output += 16)
      for (int input = 0; input < sizes.inputs; input += 16)
        for (int o = 0; o < 16; ++o)
          for (int i = 0; i < 16; ++i, ++sum)
            kernel_gradients[(output + o) * gradient_strides.output + (input + i) * gradient_strides.input +
                             tap * gradient_strides.tap] = *sum;
}

}  // namespace shusaku
