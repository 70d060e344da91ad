#ifndef MILLRACE_CLI_BENCH_COLLECTIVES_H_
#define MILLRACE_CLI_BENCH_COLLECTIVES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "collectives/communicator.h"

// How fast the ranks of a group move data, in the manner and the words of nccl-tests, so that its
// figures and ours can be laid side by side.

namespace millrace::cli {

struct CollectiveBenchOptions {
  collectives::Collective kind = collectives::Collective::kAllReduce;
  collectives::ReduceOp op = collectives::ReduceOp::kSum;
  int root = 0;
  DType dtype = DType::kF32;
  uint64_t min_bytes = 8;
  uint64_t max_bytes = uint64_t{128} << 20;
  uint64_t factor = 2;  // from one size to the next; > 1
  int warmup = 5;
  int repeats = 20;   // > 0
  bool check = true;  // true if results are compared with the expected ones
};

// One size. Bandwidths are those of nccl-tests: `algorithm` is the size by the time, `bus` is what
// the busiest link carries if the algorithm is the best there is.
struct CollectiveBenchRow {
  uint64_t bytes = 0;  // nccl-tests' size: the larger side of the call
  uint64_t count = 0;  // elements
  double seconds = 0;  // the median call of the slowest rank
  double algorithm_bytes_per_second = 0;
  double bus_bytes_per_second = 0;
  int64_t num_wrong = -1;  // elements of all ranks that are not the exact result; -1: not checked
};

// algbw * this = busbw.
double BusFactor(collectives::Collective kind, int num_ranks);

// "allreduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all", "send-recv".
std::vector<std::string> CollectiveNames();
absl::StatusOr<collectives::Collective> CollectiveOf(std::string_view name);
absl::StatusOr<collectives::ReduceOp> ReduceOpOf(std::string_view name);
absl::StatusOr<DType> ElementTypeOf(std::string_view name);

// The sum of all sizes, for estimates of the time that is left.
uint64_t BytesOfAllSizes(const CollectiveBenchOptions& options);

// Runs all sizes. Collective, with the same options on every rank. `print` gets each row, on every
// rank the same. Sizes are rounded down to whole elements and blocks, and left out where nothing is
// left.
//   INVALID_ARGUMENT    options that make no sense, or leave no size, on every rank
//   RESOURCE_EXHAUSTED  no memory for max_bytes
absl::Status BenchCollective(collectives::Communicator& communicator,
                             const CollectiveBenchOptions& options,
                             const std::function<void(const CollectiveBenchRow&)>& print);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_BENCH_COLLECTIVES_H_
