#include "trainer/backend/cuda/tensors.h"

#include <algorithm>
#include <cstddef>

namespace millrace::trainer::cuda {
namespace {

// A filter of a convolution: `channels` planes of `pixels` elements.
struct FilterSize {
  size_t channels = 1;
  size_t pixels = 1;
};

// Of others than convolutions 1 by 1, which is in either order the same.
FilterSize FilterSizeOf(const Parameter& parameter) {
  if (parameter.shape.rank() != 4) return {};
  return {static_cast<size_t>(parameter.shape[1]),
          static_cast<size_t>(parameter.shape[2] * parameter.shape[3])};
}

// Each `rows` by `columns` matrix of `from`, transposed.
void Transpose(size_t rows, size_t columns, std::span<const float> from, std::span<float> to) {
  if (rows == 1 || columns == 1) {
    std::ranges::copy(from, to.begin());
    return;
  }
  for (size_t begin = 0; begin < from.size(); begin += rows * columns) {
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; ++c) {
        to[begin + c * rows + r] = from[begin + r * columns + c];
      }
    }
  }
}

}  // namespace

void ToDeviceOrder(const Parameter& parameter, std::span<const float> from, std::span<float> to) {
  const FilterSize size = FilterSizeOf(parameter);
  Transpose(size.channels, size.pixels, from, to);
}

void FromDeviceOrder(const Parameter& parameter, std::span<const float> from, std::span<float> to) {
  const FilterSize size = FilterSizeOf(parameter);
  Transpose(size.pixels, size.channels, from, to);
}

}  // namespace millrace::trainer::cuda
