// Sums by channel: gradients of biases.

#include <cstdint>

#include "absl/status/status.h"
#include "trainer/backend/cuda/kernels/columns.cuh"
#include "trainer/backend/cuda/kernels/entries.h"
#include "trainer/backend/cuda/kernels/values.cuh"

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {
namespace {

template <typename T, int kPack>
struct PlainSums {
  using Args = ColumnSumsArgs;
  static constexpr int kSize = kPack;
  static constexpr int kSums = 1;
  static constexpr int kRecords = 1;
  static constexpr int kAhead = 4;
  static constexpr int kBlocks = 3;
  using Loaded = Pack<T, kSize>;

  const ColumnSumsArgs& args;

  __device__ PlainSums(const ColumnSumsArgs& all, const ColumnThread<kSize>&, const ColumnShape&)
      : args(all) {}
  __device__ Loaded Read(int64_t offset, int64_t) const {
    return LoadPack<kSize>(static_cast<const T*>(args.from) + offset);
  }
  __device__ bool Add(const Loaded& loaded, int64_t, float (&sums)[kSums][kSize]) const {
    float values[kSize];
    UnpackTo(loaded, values);
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) sums[0][i] += values[i];
    return true;
  }
};

struct PlainFinish {
  using Args = ColumnSumsArgs;
  static constexpr int kSums = 1;
  static constexpr int kRecords = 1;

  const ColumnSumsArgs& args;

  __device__ PlainFinish(const ColumnSumsArgs& all, const ColumnShape&, const Partials&, int64_t)
      : args(all) {}
  template <int kNumbers>
  __device__ void Add(const float (&record)[kRecords], float, double (&sums)[kNumbers]) const {
    sums[0] += record[0];
  }
  __device__ void End(int64_t channel, double, const double* sums) const {
    const double factor = args.factor == nullptr ? 1 : *args.factor;
    args.sums[channel] = static_cast<float>(sums[0] * factor);
  }
};

}  // namespace

absl::Status SumColumnsOf(void* stream, const ColumnSumsArgs& args) {
  const bool vectors = AllowVectors({args.from}, SizeOf(args.type), {args.channels});
  return WithPacks(args.type, vectors, [&]<typename T, int kSize>() {
    return LaunchSums<PlainSums<T, kSize>, PlainFinish>(stream, "column_sums", args.pixels,
                                                        args.channels, args, args.scratch);
  });
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD
