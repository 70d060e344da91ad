// Conversions between types and numbers of channels: the batch's fields to values, with the
// normalisation of bytes; weights to those of products and back.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "trainer/backend/cuda/kernels/entries.h"
#include "trainer/backend/cuda/kernels/indices.cuh"
#include "trainer/backend/cuda/kernels/values.cuh"

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {
namespace {

// How threads read and write.
enum class Reach {
  kSingle,  // one value of `to`
  kPixel,   // four of a pixel of `to`, which may have more channels than `from`
  kWhole,   // four, which lie in `from` as in `to`
};
constexpr int64_t kGroup = 4;

template <typename From, int kSize, bool kIsWhole>
__device__ inline void LoadChannels(const ConvertArgs& args, int64_t pixel, int64_t channel,
                                    float (&values)[kSize]) {
  const From* const from = static_cast<const From*>(args.from) + pixel * args.from_channels;
  if constexpr (kIsWhole) {
    Load(from + channel, values);
  } else {
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) {
      values[i] = channel + i < args.from_channels ? AsFloat(from[channel + i]) : 0;
    }
  }
}

template <typename From, typename To, int kSize, bool kIsWhole>
__global__ void ConvertKernel(ConvertArgs args, int64_t groups) {
  const float factor = args.factor == nullptr ? 1 : *args.factor;
  for (int64_t i = FirstIndex(); i < groups; i += IndexStep()) {
    int64_t pixel = i;
    const int64_t channel = TakeLast(pixel, args.to_channels / kSize) * kSize;
    float values[kSize];
    LoadChannels<From, kSize, kIsWhole>(args, pixel, channel, values);
    MILLRACE_UNROLL
    for (int k = 0; k < kSize; ++k) {
      if (channel + k >= args.from_channels) continue;
      if (args.scale != nullptr) values[k] *= args.scale[channel + k];
      if (args.shift != nullptr) values[k] += args.shift[channel + k];
      if (args.factor != nullptr) values[k] *= factor;
    }
    Store(values, static_cast<To*>(args.to) + pixel * args.to_channels + channel);
  }
}

template <typename From, typename To, int kSize, bool kIsWhole>
absl::Status LaunchConvert(void* stream, const ConvertArgs& args) {
  const int64_t groups = args.pixels * (args.to_channels / kSize);
  if (groups == 0) return absl::OkStatus();
  return Launch(stream, {.name = "convert", .blocks = BlocksFor(groups), .threads = kThreads},
                ConvertKernel<From, To, kSize, kIsWhole>, args, groups);
}

// Integers are labels or small fields: they have no groups.
template <typename From, typename To>
absl::Status ConvertBy(void* stream, const ConvertArgs& args, Reach reach) {
  if constexpr (sizeof(From) < 4 || std::is_same_v<From, float>) {
    if (reach == Reach::kWhole) return LaunchConvert<From, To, kGroup, true>(stream, args);
    if (reach == Reach::kPixel) return LaunchConvert<From, To, kGroup, false>(stream, args);
  }
  return LaunchConvert<From, To, 1, false>(stream, args);
}

template <typename F>
absl::Status WithSource(DType type, const F& f) {
  switch (type) {
    case DType::kU8:
      return f.template operator()<uint8_t>();
    case DType::kI32:
      return f.template operator()<int32_t>();
    case DType::kI64:
      return f.template operator()<int64_t>();
    default:
      return WithType(type, f);
  }
}

// Without numbers by channel, all values of tensors of as many channels are those of one pixel.
ConvertArgs Flattened(ConvertArgs args) {
  const bool is_plain =
      args.from_channels == args.to_channels && args.scale == nullptr && args.shift == nullptr;
  const int64_t count = args.pixels * args.from_channels;
  if (!is_plain || count % kGroup != 0) return args;
  args.from_channels = args.to_channels = kGroup;
  args.pixels = count / kGroup;
  return args;
}

Reach ReachOf(const ConvertArgs& args) {
  const auto is_aligned = [](const void* memory, DType type) {
    return reinterpret_cast<uintptr_t>(memory) % (SizeOf(type) * kGroup) == 0;
  };
  if (args.to_channels % kGroup != 0 || !is_aligned(args.to, args.to_type)) return Reach::kSingle;
  const bool is_whole =
      args.from_channels == args.to_channels && is_aligned(args.from, args.from_type);
  return is_whole ? Reach::kWhole : Reach::kPixel;
}

}  // namespace

absl::Status ConvertValues(void* stream, const ConvertArgs& args) {
  const ConvertArgs flat = Flattened(args);
  const Reach reach = ReachOf(flat);
  return WithSource(flat.from_type, [&]<typename From>() {
    return WithType(flat.to_type,
                    [&]<typename To>() { return ConvertBy<From, To>(stream, flat, reach); });
  });
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD
