#include "tests/trainer/backend/cuda/norm_pool_cases.h"

#include <cstdint>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/trainer/backend/cuda/host_kernels.h"

namespace millrace::trainer::cuda {
namespace {

// Places of a case's memory.
enum Slot : size_t {
  kValid,
  kX,
  kDx,
  kWeights,
  kBias,
  kSums,
  kMoments,
  kMean,
  kVariance,
  kWeightsGradient,
  kBiasGradient,
  kScratch,
  kOutput,
  kPlaces,
  kGradient
};

// Three images of 9 x 11 pixels, the second of which is padding.
constexpr int64_t kRows = 3;
constexpr int64_t kHeight = 9;
constexpr int64_t kWidth = 11;

PoolArgs PoolOf(DType type, int64_t channels, bool overlaps) {
  PoolArgs pool = {.type = type,
                   .rows = kRows,
                   .height = kHeight,
                   .width = kWidth,
                   .out_height = 5,
                   .out_width = 6,
                   .channels = channels,
                   .window = {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1, 1, 1}}};
  if (overlaps) return pool;
  pool.window = {.kernel = {2, 2}, .stride = {2, 2}};
  pool.out_height = 4;
  pool.out_width = 5;
  return pool;
}

std::vector<KernelTensor> MemoryOf(const PoolArgs& pool) {
  const auto channels = static_cast<size_t>(pool.channels);
  const auto in = static_cast<size_t>(kRows * kHeight * kWidth) * channels;
  const auto out = static_cast<size_t>(kRows * pool.out_height * pool.out_width) * channels;
  std::vector<KernelTensor> memory;
  memory.emplace_back(DType::kU8, std::vector<double>{1, 0, 1});
  memory.emplace_back(pool.type, DrawnValues(in, 1));
  memory.emplace_back(pool.type, DrawnValues(in, 2));
  memory.emplace_back(DType::kF32, DrawnValues(channels, 3));
  memory.emplace_back(DType::kF32, DrawnValues(channels, 4));
  memory.emplace_back(DType::kF64, 1 + 2 * channels);
  memory.emplace_back(DType::kF32, 4 * channels);
  for (int i = 0; i < 4; ++i) memory.emplace_back(DType::kF32, channels);
  memory.emplace_back(DType::kU8,
                      HostKernels().scratch_bytes(kRows * kHeight * kWidth, pool.channels));
  memory.emplace_back(pool.type, out);
  memory.emplace_back(DType::kU8, out);
  memory.emplace_back(pool.type, DrawnValues(out, 5));
  return memory;
}

NormPoolArgs ArgsOf(const PoolArgs& pool, std::span<void* const> at) {
  const auto floats = [&](size_t i) { return static_cast<float*>(at[i]); };
  const NormArgs norm = {.type = pool.type,
                         .batch = {.rows = kRows, .valid = static_cast<const uint8_t*>(at[kValid])},
                         .row_pixels = kHeight * kWidth,
                         .channels = pool.channels,
                         .epsilon = 1e-5,
                         .weights = floats(kWeights),
                         .bias = floats(kBias),
                         .sums = static_cast<double*>(at[kSums]),
                         .moments = floats(kMoments),
                         .scratch = at[kScratch],
                         .x = at[kX],
                         .has_relu = true,
                         .mean = floats(kMean),
                         .variance = floats(kVariance),
                         .dx = at[kDx],
                         .weights_gradient = floats(kWeightsGradient),
                         .bias_gradient = floats(kBiasGradient)};
  NormPoolArgs args{norm, pool};
  args.pool.to = at[kOutput];
  args.pool.places = static_cast<uint8_t*>(at[kPlaces]);
  return args;
}

absl::Status Run(const Kernels& kernels, void* stream, NormPoolArgs args, const void* gradient) {
  MILLRACE_RETURN_IF_ERROR(kernels.norm_measure(stream, args));
  MILLRACE_RETURN_IF_ERROR(kernels.norm_moments(stream, args));
  MILLRACE_RETURN_IF_ERROR(kernels.norm_pool(stream, args));
  args.pool.to = nullptr;
  args.pool.from = gradient;
  MILLRACE_RETURN_IF_ERROR(kernels.norm_pool_backward_sums(stream, args));
  MILLRACE_RETURN_IF_ERROR(kernels.norm_pool_backward_combine(stream, args));
  args.accumulates_dx = true;
  return kernels.norm_pool_backward_combine(stream, args);
}

}  // namespace

void AddNormPools(std::vector<KernelCase>& cases) {
  for (const DType type : kFloatTypes) {
    for (const int64_t channels : {1, 5, 64}) {
      for (const bool overlaps : {false, true}) {
        const PoolArgs pool = PoolOf(type, channels, overlaps);
        KernelCase made = {
            .name = absl::StrCat("norm and pool ", ToAbsl(Name(type)), " ", channels,
                                 overlaps ? ", overlapping" : ""),
            .memory = MemoryOf(pool),
            .run = [=](const Kernels& kernels, void* stream, std::span<void* const> at) {
              return Run(kernels, stream, ArgsOf(pool, at), at[kGradient]);
            }};
        cases.push_back(std::move(made));
      }
    }
  }
}

}  // namespace millrace::trainer::cuda
