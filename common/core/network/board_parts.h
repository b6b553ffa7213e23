// The boards of a gradient step's convolution, shared out among threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "network/aligned_array.h"
#include "search/parallel_parts.h"

namespace shusaku {

struct ConvolutionSizes {
  int boards, height, width, inputs, outputs, threads;  // inputs and outputs are multiples of 16

  // Numbers of x, and of y, before those of a board.
  std::size_t inputs_before(int board) const { return numbers(board, inputs); }
  std::size_t outputs_before(int board) const { return numbers(board, outputs); }

 private:
  std::size_t numbers(int boards_of_them, int channels) const {
    return std::size_t(boards_of_them) * std::size_t(height * width) * std::size_t(channels);
  }
};

// Threads that share the boards: each has enough to do beside its start.
inline int parts_of(const ConvolutionSizes& sizes) {
  constexpr std::size_t kWork = 1 << 23;  // multiplications
  const std::size_t all = std::size_t(sizes.boards) * std::size_t(9 * sizes.height * sizes.width) *
                          std::size_t(sizes.inputs) * std::size_t(sizes.outputs);
  const int most = std::clamp(sizes.boards, 1, std::max(1, sizes.threads));
  return int(std::clamp<std::size_t>(all / kWork, 1, std::size_t(most)));
}

// `work(part, group, first, boards)` for each group of boards of each part, by a group that `make()` gives the part;
// see `run_parts`.
template <class Make, class Work>
void over_boards(const ConvolutionSizes& sizes, Make make, Work work) {
  const int parts = parts_of(sizes);
  run_parts(parts, [&](int part) {
    auto group = make();
    const int end = sizes.boards * (part + 1) / parts;
    for (int first = sizes.boards * part / parts; first < end; first += group.boards())
      work(part, group, first, std::min(group.boards(), end - first));
  });
}

// Sums of the kernels' gradients: of each part, and then of all in the first.
class PartialSums {
 public:
  PartialSums(const ConvolutionSizes& sizes, std::size_t numbers) : numbers_(numbers) {
    const int parts = parts_of(sizes);
    of_part_.reserve(std::size_t(parts));
    for (int part = 0; part < parts; ++part) of_part_.emplace_back(numbers);
  }
  float* of(int part) { return of_part_[std::size_t(part)].data(); }
  const float* all() {
    float* const sums = of(0);
    for (std::size_t part = 1; part < of_part_.size(); ++part)
      for (std::size_t i = 0; i < numbers_; ++i) sums[i] += of_part_[part][i];
    return sums;
  }

 private:
  std::size_t numbers_;
  std::vector<AlignedArray<float>> of_part_;
};

}  // namespace shusaku
