// Losses, in float64. A block takes a row at a time, and leaves the sums of its rows; a second
// kernel adds them up. The number of blocks follows from the number of rows alone.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "trainer/backend/cuda/kernels/entries.h"
#include "trainer/backend/cuda/kernels/indices.cuh"
#include "trainer/backend/cuda/kernels/numbers.cuh"
#include "trainer/backend/cuda/kernels/values.cuh"

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {
namespace {

constexpr int64_t kMaxLossBlocks = 1024;
constexpr unsigned kWarp = 32;
constexpr int64_t kWarpValues = 1024;  // the longest row of which one warp makes a block
constexpr int kTop = 5;

struct Add {
  __device__ double operator()(double a, double b) const { return a + b; }
};
struct Larger {
  __device__ double operator()(double a, double b) const { return a > b ? a : b; }
};
struct Smaller {
  __device__ double operator()(double a, double b) const { return a < b ? a : b; }
};

// The result of `op` over the numbers of all threads of the block, for each of them.
template <typename Op>
__device__ double OverBlock(double mine, Op op) {
  for (unsigned distance = kWarp / 2; distance > 0; distance /= 2) {
    mine = op(mine, __shfl_xor_sync(0xFFFFFFFFu, mine, static_cast<int>(distance)));
  }
  if (blockDim.x == kWarp) return mine;
  __shared__ double warps[kThreads / kWarp];
  __syncthreads();  // all have read the numbers of the call before
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = mine;
  __syncthreads();
  double result = warps[0];
  for (unsigned warp = 1; warp < kThreads / kWarp; ++warp) result = op(result, warps[warp]);
  return result;
}

// One row: its values, its target, and the gradient if one is wanted.
template <typename T>
struct LossRow {
  const LossArgs& args;
  const T* output;
  const float* wanted = nullptr;  // null: there is a label
  int64_t label = 0;
  double scale;
  T* gradient = nullptr;

  __device__ LossRow(const LossArgs& all, int64_t row)
      : args(all),
        output(static_cast<const T*>(all.output) + row * all.values),
        scale(all.weight * all.batch.step->gradient_scale) {
    if (args.kind != LossKind::kGivenGradient) {
      if (args.target_type == DType::kF32) {
        wanted = static_cast<const float*>(args.target) + row * args.values;
      } else if (args.target_type == DType::kI64) {
        label = static_cast<const int64_t*>(args.target)[row];
      } else {
        label = static_cast<const int32_t*>(args.target)[row];
      }
    }
    if (args.gradient != nullptr) {
      gradient = static_cast<T*>(args.gradient) + row * args.values;
    }
  }
  __device__ double Target(int64_t k) const {
    if (wanted != nullptr) return wanted[k];
    return k == label ? 1 : 0;
  }
  __device__ double Output(int64_t k) const { return AsFloat(output[k]); }
  // Stores d loss / d output.
  __device__ void Give(int64_t k, double derivative) const {
    if (gradient == nullptr) return;
    float value[1] = {static_cast<float>(derivative * scale)};
    StoreOrAdd(value, args.accumulates, gradient + k);
  }
  // Stores a derivative of zero, whatever the scale.
  __device__ void GiveZero(int64_t k) const {
    const float zero[1] = {};
    if (gradient != nullptr && !args.accumulates) Store(zero, gradient + k);
  }
  // Calls `visit` with each of this thread's values.
  template <typename Visit>
  __device__ void ForEach(const Visit& visit) const {
    for (int64_t k = threadIdx.x; k < args.values; k += blockDim.x) visit(k);
  }
};

// The first of the largest targets.
template <typename T>
__device__ int64_t ClassOf(const LossRow<T>& row) {
  if (row.wanted == nullptr) return row.label;
  double largest = -HUGE_VAL;
  row.ForEach([&](int64_t k) { largest = Larger()(row.Target(k), largest); });
  largest = OverBlock(largest, Larger());
  auto first = static_cast<double>(row.args.values);
  row.ForEach([&](int64_t k) {
    if (row.Target(k) == largest) first = Smaller()(static_cast<double>(k), first);
  });
  return static_cast<int64_t>(OverBlock(first, Smaller()));
}

// Counts the row if its target's class has the largest output, or one of the largest few. Of equals
// the first counts.
template <typename T>
__device__ void CountClass(const LossRow<T>& row, int64_t wanted, LossSums& sums) {
  double before = 0;
  row.ForEach([&](int64_t k) {
    if (k == wanted) return;
    const bool is_less = row.Output(k) < row.Output(wanted);  // also false for a NaN
    if (!is_less && !(row.Output(k) == row.Output(wanted) && k > wanted)) before += 1;
  });
  before = OverBlock(before, Add());
  sums.correct += before == 0 ? 1 : 0;
  sums.in_top5 += before < kTop ? 1 : 0;
}

template <typename T>
__device__ double Softmax(const LossRow<T>& row, LossSums& sums) {
  const auto count = static_cast<double>(row.args.values);
  double top = -HUGE_VAL;
  row.ForEach([&](int64_t k) { top = Larger()(row.Output(k), top); });
  top = OverBlock(top, Larger());
  double sum = 0;
  row.ForEach([&](int64_t k) { sum += Exp(row.Output(k) - top); });
  const double log_sum = top + Log(OverBlock(sum, Add()));
  const double kept = 1 - row.args.smoothing;
  const double spread = row.args.smoothing / count;
  double expected = 0;  // mean of the logits by the target
  row.ForEach([&](int64_t k) {
    const double logit = row.Output(k);
    const double target = kept * row.Target(k) + spread;
    if (target != 0) expected += target * logit;
    if (row.gradient != nullptr) row.Give(k, Exp(logit - log_sum) - target);
  });
  expected = OverBlock(expected, Add());
  const int64_t wanted = ClassOf(row);
  if (wanted < 0 || wanted >= row.args.values) return NAN;  // no class; and nothing to count
  CountClass(row, wanted, sums);
  return log_sum - expected;
}

// -(t log s + (1 - t) log(1 - s)) = max(x, 0) - t x + log(1 + exp(-|x|)).
template <typename T>
__device__ double SigmoidLoss(const LossRow<T>& row, LossSums& sums) {
  const auto count = static_cast<double>(row.args.values);
  double sum = 0;
  double wrong = 0;
  row.ForEach([&](int64_t k) {
    const double x = row.Output(k);
    const double target = row.wanted == nullptr ? static_cast<double>(row.label) : row.Target(k);
    const double size = x < 0 ? -x : x;
    sum += (x > 0 ? x : 0) - target * x + LogOf1Plus(Exp(-size));
    if ((x > 0) != (target > 0.5)) wrong += 1;
    row.Give(k, (1 / (1 + Exp(-x)) - target) / count);
  });
  sum = OverBlock(sum, Add());
  sums.correct += OverBlock(wrong, Add()) == 0 ? 1 : 0;
  return sum / count;
}

template <typename T>
__device__ double ErrorLoss(const LossRow<T>& row, LossSums& sums) {
  const bool is_squared = row.args.kind == LossKind::kMeanSquaredError;
  const auto count = static_cast<double>(row.args.values);
  double sum = 0;
  double absolute = 0;
  row.ForEach([&](int64_t k) {
    const double difference = row.Output(k) - row.Target(k);
    const double size = difference < 0 ? -difference : difference;
    const double sign = difference > 0 ? 1 : (difference < 0 ? -1 : 0);
    absolute += size;
    sum += is_squared ? difference * difference : size;
    row.Give(k, (is_squared ? 2 * difference : sign) / count);
  });
  sum = OverBlock(sum, Add());
  sums.error += OverBlock(absolute, Add()) / count;
  return sum / count;
}

template <typename T>
__device__ double LossOf(const LossRow<T>& row, LossSums& sums) {
  switch (row.args.kind) {
    case LossKind::kSoftmaxCrossEntropy:
      return Softmax(row, sums);
    case LossKind::kSigmoidCrossEntropy:
      return SigmoidLoss(row, sums);
    case LossKind::kMeanSquaredError:
    case LossKind::kMeanAbsoluteError:
      return ErrorLoss(row, sums);
    case LossKind::kGivenGradient:
      break;
  }
  row.ForEach([&](int64_t k) { row.GiveZero(k); });
  return 0;
}

template <typename T>
__global__ void LossKernel(LossArgs args, LossSums* partials) {
  LossSums sums;
  for (int64_t i = blockIdx.x; i < args.batch.rows; i += gridDim.x) {
    const LossRow<T> row(args, i);
    if (args.batch.valid[i] == 0) {
      row.ForEach([&](int64_t k) { row.GiveZero(k); });
      continue;
    }
    sums.valid += 1;
    sums.loss += args.weight * LossOf(row, sums);
  }
  if (threadIdx.x == 0) partials[blockIdx.x] = sums;
}

__global__ void AddLosses(const LossSums* partials, int64_t count, LossSums* to) {
  double sums[5] = {};
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    sums[0] += partials[i].loss;
    sums[1] += partials[i].error;
    sums[2] += static_cast<double>(partials[i].correct);
    sums[3] += static_cast<double>(partials[i].in_top5);
    sums[4] += static_cast<double>(partials[i].valid);
  }
  for (double& sum : sums) sum = OverBlock(sum, Add());
  if (threadIdx.x > 0) return;
  to->loss += sums[0];
  to->error += sums[1];
  to->correct += static_cast<int64_t>(sums[2]);
  to->in_top5 += static_cast<int64_t>(sums[3]);
  to->valid += static_cast<int64_t>(sums[4]);
}

Grid LossGrid(const char* name, int64_t blocks, int64_t values) {
  return {.name = name,
          .blocks = static_cast<unsigned>(blocks),
          .threads = values <= kWarpValues ? kWarp : kThreads,
          .has_barriers = true};
}

}  // namespace

size_t LossScratchBytes() { return kMaxLossBlocks * sizeof(LossSums); }

absl::Status ComputeLosses(void* stream, const LossArgs& args) {
  const int64_t blocks = std::min(args.batch.rows, kMaxLossBlocks);
  auto* const partials = static_cast<LossSums*>(args.scratch);
  return WithType(args.type, [&]<typename T>() {
    absl::Status status =
        Launch(stream, LossGrid("loss", blocks, args.values), LossKernel<T>, args, partials);
    if (!status.ok()) return status;
    return Launch(stream, LossGrid("loss (sums)", 1, blocks), AddLosses,
                  static_cast<const LossSums*>(partials), blocks, args.sums);
  });
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD
