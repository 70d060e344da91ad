#include "tests/trainer/backend/cuda/fold_cases.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/backend/cuda/folding.h"

namespace millrace::trainer::cuda {
namespace {

using Places = std::span<void* const>;

KernelCase ImageCase(DType from, DType to, int64_t channels) {
  constexpr int64_t kRows = 2;
  constexpr int64_t kHeight = 6;
  constexpr int64_t kWidth = 10;
  constexpr int64_t kPixels = kRows * kHeight * kWidth;
  const auto count = static_cast<size_t>(channels);
  return {
      .name = absl::StrCat("fold ", ToAbsl(Name(from)), " of ", channels, " to ", ToAbsl(Name(to))),
      .memory = {{from, DrawnValues(static_cast<size_t>(kPixels * channels), 1, 0, 200)},
                 {to, static_cast<size_t>(kPixels / 4 * kFoldedChannels)},
                 {DType::kF32, DrawnValues(count, 2)},
                 {DType::kF32, DrawnValues(count, 3)}},
      .run = [=](const Kernels& kernels, void* stream, Places at) {
        return kernels.fold(stream, {.from = at[0],
                                     .from_type = from,
                                     .to = at[1],
                                     .to_type = to,
                                     .rows = kRows,
                                     .height = kHeight,
                                     .width = kWidth,
                                     .channels = channels,
                                     .scale = static_cast<const float*>(at[2]),
                                     .shift = static_cast<const float*>(at[3])});
      }};
}

// Weights that are folded, and folded ones that become a gradient.
KernelCase WeightsCase(DType from, DType to) {
  constexpr int64_t kFilters = 5;
  constexpr int64_t kChannels = 3;
  const Window window = {.kernel = {7, 4}, .stride = {2, 2}, .padding = {3, 3, 2, 1}};
  const auto count = static_cast<size_t>(kFilters * 7 * 4 * kChannels);
  const auto folded = static_cast<size_t>(kFilters * FoldedTaps(window, 0) * FoldedTaps(window, 1) *
                                          kFoldedChannels);
  return {.name = absl::StrCat("fold weights ", ToAbsl(Name(from)), " to ", ToAbsl(Name(to))),
          .memory = {{from, DrawnValues(count, 1)},
                     {to, folded},
                     {from, DrawnValues(folded, 2)},
                     {to, count},
                     {DType::kF32, std::vector<double>{0.7}}},
          .run = [=](const Kernels& kernels, void* stream, Places at) {
            FoldWeightsArgs args = {.from = at[0],
                                    .from_type = from,
                                    .to = at[1],
                                    .to_type = to,
                                    .filters = kFilters,
                                    .channels = kChannels,
                                    .window = window};
            const absl::Status status = kernels.fold_weights(stream, args);
            if (!status.ok()) return status;
            args.from = at[2];
            args.to = at[3];
            args.factor = static_cast<const float*>(at[4]);
            return kernels.unfold_weights(stream, args);
          }};
}

}  // namespace

std::vector<KernelCase> FoldKernelCases() {
  std::vector<KernelCase> cases;
  for (const DType from : {DType::kU8, DType::kF32}) {
    for (const int64_t channels : {1, 2, 3, 4}) {
      cases.push_back(ImageCase(from, DType::kBF16, channels));
      cases.push_back(ImageCase(from, DType::kF16, channels));
    }
  }
  for (const DType from : kFloatTypes) {
    for (const DType to : kFloatTypes) cases.push_back(WeightsCase(from, to));
  }
  return cases;
}

}  // namespace millrace::trainer::cuda
