#include "trainer/backend/cuda/tuning/plan_timer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/half.h"
#include "base/philox.h"
#include "base/status.h"

namespace millrace::trainer::cuda {
namespace {

constexpr int kWarmUpRuns = 2;
constexpr int kSamples = 5;
constexpr double kSampleMs = 1;
constexpr int kMostRuns = 20;
constexpr size_t kAlignment = 256;
constexpr size_t kPatternBytes = 1 << 20;

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The bytes of a product's tensors; each begins at a multiple of kAlignment.
struct Sizes {
  size_t x = 0;
  size_t w = 0;
  size_t y = 0;
  size_t bias = 0;
};

Sizes SizesOf(const ProductSpec& spec) {
  const auto bytes = [&](int64_t count, bool is_result) {
    return Aligned(static_cast<size_t>(count) * SizeOf(is_result ? spec.result : spec.type));
  };
  const auto [height, width] = spec.window.kernel;
  Sizes sizes;
  sizes.x = bytes(spec.rows * spec.height * spec.width * spec.channels,
                  spec.pass == ProductPass::kDataGradient);
  sizes.w = bytes(spec.filters * height * width * (spec.channels / spec.window.groups),
                  spec.pass == ProductPass::kWeightGradient);
  sizes.y = bytes(spec.rows * spec.out_height * spec.out_width * spec.filters,
                  spec.pass == ProductPass::kForward);
  if (spec.has_bias) sizes.bias = Aligned(static_cast<size_t>(spec.filters) * sizeof(float));
  return sizes;
}

// Numbers of `type` from -1 to 1.
std::vector<std::byte> Pattern(DType type) {
  std::vector<std::byte> bytes(kPatternBytes);
  const size_t size = SizeOf(type);
  RandomStream random({});
  for (size_t i = 0; i < bytes.size(); i += size) {
    const float value = 2 * random.NextFloat() - 1;
    const uint16_t bits = type == DType::kF16 ? ToHalf(value).bits : ToBFloat(value).bits;
    if (type == DType::kF32) {
      std::memcpy(&bytes[i], &value, size);
    } else {
      std::memcpy(&bytes[i], &bits, size);
    }
  }
  return bytes;
}

}  // namespace

absl::StatusOr<PlanTimer> PlanTimer::Make(Device& device, const ProductSpec& spec) {
  const Sizes sizes = SizesOf(spec);
  const size_t bytes = sizes.x + sizes.w + sizes.y + sizes.bias;
  PlanTimer timer(device);
  MILLRACE_ASSIGN_OR_RETURN(timer.memory_, device.Allocate(bytes));
  MILLRACE_RETURN_IF_ERROR(timer.Fill(spec, bytes));
  std::byte* const begin = timer.memory_.get();
  timer.tensors_.x = begin;
  timer.tensors_.w = begin + sizes.x;
  timer.tensors_.y = begin + sizes.x + sizes.w;
  if (spec.has_bias) {
    timer.tensors_.bias = reinterpret_cast<const float*>(begin + sizes.x + sizes.w + sizes.y);
  }
  // As networks add gradients.
  if (spec.has_addend) timer.tensors_.addend = timer.tensors_.x;
  return timer;
}

// The pattern, then what is there, until all is full. A tensor of float32 beside those of 16 bits
// has numbers too: pairs of the pattern's, none of them infinite or NaN.
absl::Status PlanTimer::Fill(const ProductSpec& spec, size_t bytes) {
  const std::vector<std::byte> pattern = Pattern(spec.type);
  std::byte* const begin = memory_.get();
  size_t done = std::min(bytes, pattern.size());
  MILLRACE_RETURN_IF_ERROR(device_->Copy(begin, pattern.data(), done));
  while (done < bytes) {
    const size_t next = std::min(done, bytes - done);
    MILLRACE_RETURN_IF_ERROR(device_->Copy(begin + done, begin, next));
    done += next;
  }
  return device_->Synchronize();
}

absl::StatusOr<double> PlanTimer::Time(const Product& product, int count) {
  return device_->Time([&]() -> absl::Status {
    for (int i = 0; i < count; ++i) {
      MILLRACE_RETURN_IF_ERROR(product.Run(device_->stream(), tensors_, workspace_.get()));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<double> PlanTimer::Measure(const Product& product) {
  if (product.workspace_bytes() > workspace_bytes_) {
    workspace_.reset();
    workspace_bytes_ = 0;
    MILLRACE_ASSIGN_OR_RETURN(workspace_, device_->Allocate(product.workspace_bytes()));
    workspace_bytes_ = product.workspace_bytes();
  }
  MILLRACE_RETURN_IF_ERROR(Time(product, kWarmUpRuns).status());
  MILLRACE_ASSIGN_OR_RETURN(const double once, Time(product, 1));
  const double runs = std::ceil(kSampleMs / std::max(once, kSampleMs / kMostRuns));
  std::array<double, kSamples> samples{};
  for (double& sample : samples) {
    MILLRACE_ASSIGN_OR_RETURN(sample, Time(product, static_cast<int>(runs)));
    sample /= runs;
  }
  std::ranges::nth_element(samples, samples.begin() + kSamples / 2);
  return samples[kSamples / 2];
}

}  // namespace millrace::trainer::cuda
