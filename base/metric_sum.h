#ifndef MILLRACE_BASE_METRIC_SUM_H_
#define MILLRACE_BASE_METRIC_SUM_H_

#include <cstdint>

#include "base/metrics.h"

namespace millrace {

// The sum of the counters of `family` over all values of its label; 0 where none was made. It
// refreshes nothing, so it is the count of counters that are kept up to date.
int64_t SumOf(const Metrics& metrics, const CounterFamily& family);

// The share of one of `parts` users of a registry, such as the replicas of a process, in a sum; the
// first one is part 0. The shares add up to the sum, and do not fall while it grows.
int64_t ShareOf(int64_t sum, int part, int parts);

}  // namespace millrace

#endif  // MILLRACE_BASE_METRIC_SUM_H_
