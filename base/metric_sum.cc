#include "base/metric_sum.h"

namespace millrace {

int64_t SumOf(const Metrics& metrics, const CounterFamily& family) {
  int64_t sum = 0;
  for (const auto& [label, count] : metrics.CountersOf(family)) sum += count;
  return sum;
}

int64_t ShareOf(int64_t sum, int part, int parts) { return (sum + parts - 1 - part) / parts; }

}  // namespace millrace
