#ifndef MILLRACE_BASE_METRICS_H_
#define MILLRACE_BASE_METRICS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"

namespace millrace {

// A name of metrics. Those of Millrace are in base/metric_table.h; programs may have their own. A
// family outlives the registries that it is used with. Two families of one registry have different
// names.
struct MetricFamily {
  std::string_view name;  // by Prometheus' conventions: "millrace_batches_total"
  // The unit of the values that are shown: "batches", "bytes". Counters and histograms of "seconds"
  // are given nanoseconds.
  std::string_view unit;
  std::string_view help;  // what it counts, as a noun phrase
  std::string_view label =
      {};  // the label that tells its metrics apart; empty: there is one metric
};
struct CounterFamily : MetricFamily {};
struct GaugeFamily : MetricFamily {
  bool shows_highest = false;  // true if the highest value so far is shown too, as "<name>_max"
};
struct HistogramFamily : MetricFamily {};

// A count that only grows. Thread-safe.
class Counter {
 public:
  void Add(int64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};  // any thread -> snapshot, relaxed: a count orders nothing
};

// A value that goes up and down, with the highest it ever had, or 0. Thread-safe.
class Gauge {
 public:
  void Add(double amount);
  void Set(double value);
  double value() const { return value_.load(std::memory_order_relaxed); }
  double max() const { return max_.load(std::memory_order_relaxed); }

 private:
  void RaiseMax(double value);
  std::atomic<double> value_{0};  // any thread -> snapshot, relaxed
  std::atomic<double> max_{0};    // any thread -> snapshot, relaxed
};

// Times in nanoseconds, counted in bins from 10 microseconds to 50 seconds. Thread-safe.
class Histogram {
 public:
  // The longest time of each bin but the last, which has all longer ones.
  static constexpr std::array<int64_t, 21> kBounds = {
      10'000,         25'000,         50'000,        100'000,       250'000,       500'000,
      1'000'000,      2'500'000,      5'000'000,     10'000'000,    25'000'000,    50'000'000,
      100'000'000,    250'000'000,    500'000'000,   1'000'000'000, 2'500'000'000, 5'000'000'000,
      10'000'000'000, 25'000'000'000, 50'000'000'000};
  using Counts = std::array<int64_t, kBounds.size() + 1>;

  void Add(int64_t nanoseconds);
  // The number of times in each bin.
  Counts counts() const;
  int64_t count() const;
  // All times together.
  int64_t sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<int64_t>, kBounds.size() + 1>
      counts_{};                 // any thread -> snapshot, relaxed
  std::atomic<int64_t> sum_{0};  // any thread -> snapshot, relaxed
};

// The values of one name in a snapshot.
struct MetricValues {
  std::string name;
  std::string_view type;  // "counter", "gauge" or "histogram"
  std::string help;
  struct Sample {
    // The name with its label: `millrace_records_damaged_total{reason="data_crc"}`; a histogram's
    // samples are "<name>_bucket", "_sum" and "_count".
    std::string name;
    double value = 0;
  };
  std::vector<Sample> samples;
};

// The metrics of one Context, or of several. Thread-safe.
class Metrics {
 public:
  // Return the metric of `family` with this value of its label, which is UTF-8; it is made when it
  // is asked for first. A returned reference lives as long as the registry. To look it up takes a
  // mutex.
  Counter& counter(const CounterFamily& family, std::string_view label_value = {});
  Gauge& gauge(const GaugeFamily& family, std::string_view label_value = {});
  Histogram& histogram(const HistogramFamily& family, std::string_view label_value = {});

  // The counters of `family` that were made, by the value of its label.
  std::map<std::string, int64_t> CountersOf(const CounterFamily& family) const;

  // Calls `refresh` before each look at all values, so that it can bring its metrics up to date. It
  // must not look itself. Returns the number for RemoveRefresh.
  int64_t AddRefresh(std::function<void()> refresh) MILLRACE_EXCLUDES(refresh_mu_);
  // Waits for a call that is under way; there is none afterwards.
  void RemoveRefresh(int64_t number) MILLRACE_EXCLUDES(refresh_mu_);

  // All values now, by name.
  std::vector<MetricValues> Collect() const;
  // The same by the names of the samples.
  std::map<std::string, double> Snapshot() const;
  // The same in Prometheus' text format, version 0.0.4: lines of "# HELP", "# TYPE", and samples.
  std::string PrometheusText() const;

 private:
  // The metrics of one family, by the value of its label.
  template <typename Family, typename Metric>
  struct Made {
    const Family* family = nullptr;
    std::map<std::string, std::unique_ptr<Metric>, std::less<>> metrics;
  };
  template <typename Family, typename Metric>
  using ByName = std::map<std::string_view, Made<Family, Metric>>;

  template <typename Family, typename Metric>
  static Metric& FindOrMake(ByName<Family, Metric>& families, const Family& family,
                            std::string_view label_value);

  mutable Mutex refresh_mu_;  // taken before mu_
  int64_t next_refresh_ MILLRACE_GUARDED_BY(refresh_mu_) = 0;
  std::map<int64_t, std::function<void()>> refreshes_ MILLRACE_GUARDED_BY(refresh_mu_);

  mutable Mutex mu_;
  ByName<CounterFamily, Counter> counters_ MILLRACE_GUARDED_BY(mu_);
  ByName<GaugeFamily, Gauge> gauges_ MILLRACE_GUARDED_BY(mu_);
  ByName<HistogramFamily, Histogram> histograms_ MILLRACE_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // MILLRACE_BASE_METRICS_H_
