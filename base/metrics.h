#ifndef MILLRACE_BASE_METRICS_H_
#define MILLRACE_BASE_METRICS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"

namespace millrace {

// A count that only grows. Thread-safe.
class Counter {
 public:
  void Add(int64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};  // any thread -> snapshot, relaxed: a count orders nothing
};

// A value that goes up and down, with the highest it ever had. Thread-safe.
class Gauge {
 public:
  void Add(int64_t amount);
  void Set(int64_t value);
  int64_t value() const { return value_.load(std::memory_order_relaxed); }
  int64_t max() const { return max_.load(std::memory_order_relaxed); }

 private:
  void RaiseMax(int64_t value);
  std::atomic<int64_t> value_{0};  // any thread -> snapshot, relaxed
  std::atomic<int64_t> max_{0};    // any thread -> snapshot, relaxed
};

// Named counters and gauges of one Context. Names follow Prometheus: base units,
// "_total", "_seconds", "_bytes". A returned reference lives as long as the registry. Thread-safe.
class Metrics {
 public:
  Counter& counter(std::string_view name);
  Gauge& gauge(std::string_view name);

  // Every name and its value now; gauges also as "<name>_max".
  std::map<std::string, int64_t> Snapshot() const;

 private:
  mutable Mutex mu_;
  std::map<std::string, std::unique_ptr<Counter>, std::less<>> counters_ MILLRACE_GUARDED_BY(mu_);
  std::map<std::string, std::unique_ptr<Gauge>, std::less<>> gauges_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // MILLRACE_BASE_METRICS_H_
