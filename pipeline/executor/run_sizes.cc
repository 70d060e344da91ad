#include "pipeline/executor/run_sizes.h"

#include <algorithm>

#include "pipeline/executor/work_item.h"

namespace millrace::pipeline {
namespace {

constexpr int64_t kMaxRunRows = 1024;
constexpr int64_t kFirstRunRows = 32;  // before a cost was measured

}  // namespace

RunSizes::RunSizes(const Options& options)
    : fixed_rows_(options.fixed_rows),
      preferred_rows_(options.preferred_rows),
      run_ns_(options.run_ns == 0 ? kRunNanoseconds : options.run_ns) {}

int64_t RunSizes::RowsAtCost(int64_t cost_ns) const {
  if (fixed_rows_ > 0) return std::min(fixed_rows_, kMaxRunRows);
  const int64_t rows = cost_ns == 0 ? kFirstRunRows : run_ns_ / cost_ns;
  return std::clamp(rows, std::min(preferred_rows_, kMaxRunRows), kMaxRunRows);
}

int64_t RunSizes::RowsPerPlan() const {
  const int64_t rows = RowsPerRun();
  const int64_t cost = rows * row_ns();
  const int64_t runs =
      cost == 0 ? kMostRuns : std::clamp<int64_t>(kTaskNanoseconds / cost, 1, kMostRuns);
  return std::min(runs * rows, kMaxRunRows);
}

void RunSizes::Cost::Learn(int64_t nanoseconds, int64_t rows) {
  const int64_t cost = std::max<int64_t>(1, nanoseconds / rows);
  const int64_t mean = mean_ns();
  mean_ns_.store(mean == 0 ? cost : std::max<int64_t>(1, mean + (cost - mean) / 8),
                 std::memory_order_relaxed);
}

}  // namespace millrace::pipeline
