#include "cli/metrics/process_metrics.h"

#include <optional>

#include "base/metric_table.h"

namespace millrace::cli {
namespace {

// Adds what a count has grown by since `counted`. One that is not known makes no metric.
void Raise(std::optional<int64_t> now, std::optional<int64_t>& counted, Metrics& metrics,
           const CounterFamily& family) {
  if (!now.has_value()) return;
  metrics.counter(family).Add(*now - counted.value_or(0));
  counted = now;
}

}  // namespace

void ProcessMetrics::Update(const HostUse& now) {
  Raise(now.device_read_bytes, counted_.device_read_bytes, *metrics_, metric::kStorageReadBytes);
  Raise(now.call_read_bytes, counted_.call_read_bytes, *metrics_, metric::kCallReadBytes);
  metrics_->counter(metric::kContextSwitches, "voluntary")
      .Add(now.voluntary_switches - counted_.voluntary_switches);
  metrics_->counter(metric::kContextSwitches, "involuntary")
      .Add(now.involuntary_switches - counted_.involuntary_switches);
  counted_.voluntary_switches = now.voluntary_switches;
  counted_.involuntary_switches = now.involuntary_switches;
}

}  // namespace millrace::cli
