#ifndef MILLRACE_CLI_METRICS_PROCESS_METRICS_H_
#define MILLRACE_CLI_METRICS_PROCESS_METRICS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/host_use.h"
#include "base/metrics.h"

namespace millrace::cli {

// Adds what this process has read and how often its threads were switched to a registry, whenever
// that is looked at. There is one for each registry. Thread-compatible.
class ProcessMetrics {
 public:
  // `read` tells the use so far (tests).
  explicit ProcessMetrics(
      std::shared_ptr<Metrics> metrics,
      std::function<HostUse()> read = [] { return ReadHostUse(); })
      : metrics_(std::move(metrics)),
        read_(std::move(read)),
        refresh_(metrics_->AddRefresh([this] { Update(read_()); })) {}
  ~ProcessMetrics() { metrics_->RemoveRefresh(refresh_); }
  ProcessMetrics(const ProcessMetrics&) = delete;
  ProcessMetrics& operator=(const ProcessMetrics&) = delete;

 private:
  // Called by one thread at a time.
  void Update(const HostUse& now);

  const std::shared_ptr<Metrics> metrics_;
  const std::function<HostUse()> read_;
  HostUse counted_;  // as far as the metrics have it
  const int64_t refresh_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_METRICS_PROCESS_METRICS_H_
