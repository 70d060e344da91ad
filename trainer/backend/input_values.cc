#include "trainer/backend/input_values.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/half.h"

namespace millrace::trainer {
namespace {

// (value - mean) / stddev as value * scale + shift, by channel.
void Normalize(const ModelInput& input, std::span<const uint8_t> from, std::span<float> to) {
  const size_t channels = input.mean.size();
  std::vector<float> scale;
  std::vector<float> shift;
  for (size_t c = 0; c < channels; ++c) {
    scale.push_back(static_cast<float>(1 / input.stddev[c]));
    shift.push_back(static_cast<float>(-input.mean[c] / input.stddev[c]));
  }
  for (size_t begin = 0; begin < from.size(); begin += channels) {
    for (size_t c = 0; c < channels; ++c) {
      to[begin + c] = scale[c] * static_cast<float>(from[begin + c]) + shift[c];
    }
  }
}

template <typename T>
void Convert(std::span<const T> from, std::span<float> to) {
  std::ranges::transform(from, to.begin(), [](T value) {
    if constexpr (std::is_arithmetic_v<T>) {
      return static_cast<float>(value);
    } else {
      return ToFloat(value);
    }
  });
}

}  // namespace

void ReadInput(const ModelInput& input, const ConstTensorView& field, std::span<float> to) {
  switch (input.dtype) {
    case DType::kU8:
      return Normalize(input, field.as<uint8_t>(), to);
    case DType::kF16:
      return Convert(field.as<Half>(), to);
    case DType::kBF16:
      return Convert(field.as<BFloat>(), to);
    case DType::kI32:
      return Convert(field.as<int32_t>(), to);
    case DType::kI64:
      return Convert(field.as<int64_t>(), to);
    default:
      return Convert(field.as<float>(), to);
  }
}

}  // namespace millrace::trainer
