#include "base/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;
constexpr double kLargestWhole = 9007199254740992;  // 2^53: doubles hold all whole numbers up to it

// `raw` in the unit that is shown.
double Shown(const MetricFamily& family, int64_t raw) {
  const auto value = static_cast<double>(raw);
  return family.unit == "seconds" ? value / kNanosecondsPerSecond : value;
}

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  if (std::trunc(value) == value && std::abs(value) < kLargestWhole) {
    return absl::StrCat(static_cast<int64_t>(value));
  }
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, end.ptr);
}

// `text` with `escaped` characters and line ends as the text format has them.
std::string Escaped(std::string_view text, std::string_view escaped) {
  std::string result;
  for (const char c : text) {
    if (escaped.find(c) != std::string_view::npos) result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result;
}

// `reason="data_crc"`; empty: the family has no label.
std::string LabelText(const MetricFamily& family, std::string_view value) {
  if (family.label.empty()) return "";
  return absl::StrCat(ToAbsl(family.label), "=\"", Escaped(value, "\\\""), "\"");
}

std::string SampleName(std::string_view name, std::string_view labels) {
  if (labels.empty()) return std::string(name);
  return absl::StrCat(ToAbsl(name), "{", ToAbsl(labels), "}");
}

using Samples = std::vector<MetricValues::Sample>;

void AddSamples(const Counter& counter, const MetricFamily& family, const std::string& labels,
                Samples& samples) {
  samples.push_back({SampleName(family.name, labels), Shown(family, counter.value())});
}

void AddSamples(const Gauge& gauge, const MetricFamily& family, const std::string& labels,
                Samples& samples) {
  samples.push_back({SampleName(family.name, labels), gauge.value()});
}

// Each bucket has the times of those before it too.
void AddSamples(const Histogram& histogram, const MetricFamily& family, const std::string& labels,
                Samples& samples) {
  const Histogram::Counts counts = histogram.counts();
  const std::string begin = absl::StrCat(labels, labels.empty() ? "" : ",", "le=\"");
  const std::string name(family.name);
  int64_t total = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    total += counts[i];
    const std::string bound =
        i < Histogram::kBounds.size() ? NumberText(Shown(family, Histogram::kBounds[i])) : "+Inf";
    samples.push_back({SampleName(name + "_bucket", absl::StrCat(begin, bound, "\"")),
                       static_cast<double>(total)});
  }
  samples.push_back({SampleName(name + "_sum", labels), Shown(family, histogram.sum())});
  samples.push_back({SampleName(name + "_count", labels), static_cast<double>(total)});
}

// Adds the values of all families of one type.
template <typename Families>
void AddFamilies(std::string_view type, const Families& families, std::vector<MetricValues>& all) {
  for (const auto& [name, made] : families) {
    const MetricFamily& family = *made.family;
    MetricValues& values =
        all.emplace_back(MetricValues{std::string(name), type, std::string(family.help), {}});
    for (const auto& [label, metric] : made.metrics) {
      AddSamples(*metric, family, LabelText(family, label), values.samples);
    }
  }
}

// Adds the highest values of gauges that show them.
template <typename Families>
void AddHighest(const Families& gauges, std::vector<MetricValues>& all) {
  for (const auto& [name, made] : gauges) {
    const GaugeFamily& family = *made.family;
    if (!family.shows_highest) continue;
    MetricValues& values = all.emplace_back();
    values.name = absl::StrCat(ToAbsl(name), "_max");
    values.type = "gauge";
    values.help = absl::StrCat("highest so far: ", ToAbsl(family.help));
    for (const auto& [label, gauge] : made.metrics) {
      values.samples.push_back({SampleName(values.name, LabelText(family, label)), gauge->max()});
    }
  }
}

}  // namespace

void Gauge::RaiseMax(double value) {
  double seen = max_.load(std::memory_order_relaxed);
  while (seen < value && !max_.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

void Gauge::Add(double amount) {
  RaiseMax(value_.fetch_add(amount, std::memory_order_relaxed) + amount);
}

void Gauge::Set(double value) {
  value_.store(value, std::memory_order_relaxed);
  RaiseMax(value);
}

void Histogram::Add(int64_t nanoseconds) {
  const auto* const bound = std::ranges::lower_bound(kBounds, nanoseconds);
  const auto bin = static_cast<size_t>(bound - kBounds.begin());
  counts_[bin].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(nanoseconds, std::memory_order_relaxed);
}

Histogram::Counts Histogram::counts() const {
  Counts counts;
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = counts_[i].load(std::memory_order_relaxed);
  return counts;
}

int64_t Histogram::count() const {
  int64_t total = 0;
  for (const int64_t count : counts()) total += count;
  return total;
}

template <typename Family, typename Metric>
Metric& Metrics::FindOrMake(ByName<Family, Metric>& families, const Family& family,
                            std::string_view label_value) {
  Made<Family, Metric>& made = families[family.name];
  made.family = &family;
  auto it = made.metrics.find(label_value);
  if (it == made.metrics.end()) {
    it = made.metrics.emplace(std::string(label_value), std::make_unique<Metric>()).first;
  }
  return *it->second;
}

Counter& Metrics::counter(const CounterFamily& family, std::string_view label_value) {
  const MutexLock lock(mu_);
  return FindOrMake(counters_, family, label_value);
}

Gauge& Metrics::gauge(const GaugeFamily& family, std::string_view label_value) {
  const MutexLock lock(mu_);
  return FindOrMake(gauges_, family, label_value);
}

Histogram& Metrics::histogram(const HistogramFamily& family, std::string_view label_value) {
  const MutexLock lock(mu_);
  return FindOrMake(histograms_, family, label_value);
}

std::map<std::string, int64_t> Metrics::CountersOf(const CounterFamily& family) const {
  const MutexLock lock(mu_);
  std::map<std::string, int64_t> values;
  const auto found = counters_.find(family.name);
  if (found == counters_.end()) return values;
  for (const auto& [label, counter] : found->second.metrics) values[label] = counter->value();
  return values;
}

int64_t Metrics::AddRefresh(std::function<void()> refresh) {
  const MutexLock lock(refresh_mu_);
  refreshes_[next_refresh_] = std::move(refresh);
  return next_refresh_++;
}

void Metrics::RemoveRefresh(int64_t number) {
  const MutexLock lock(refresh_mu_);
  refreshes_.erase(number);
}

std::vector<MetricValues> Metrics::Collect() const {
  std::vector<MetricValues> all;
  {
    const MutexLock lock(refresh_mu_);
    for (const auto& [number, refresh] : refreshes_) refresh();
  }
  {
    const MutexLock lock(mu_);
    AddFamilies("counter", counters_, all);
    AddFamilies("gauge", gauges_, all);
    AddFamilies("histogram", histograms_, all);
    AddHighest(gauges_, all);
  }
  std::ranges::sort(all, {}, &MetricValues::name);
  return all;
}

std::map<std::string, double> Metrics::Snapshot() const {
  std::map<std::string, double> values;
  for (const MetricValues& family : Collect()) {
    for (const MetricValues::Sample& sample : family.samples) values[sample.name] = sample.value;
  }
  return values;
}

std::string Metrics::PrometheusText() const {
  std::string text;
  for (const MetricValues& family : Collect()) {
    absl::StrAppend(&text, "# HELP ", family.name, " ", Escaped(family.help, "\\"), "\n", "# TYPE ",
                    family.name, " ", ToAbsl(family.type), "\n");
    for (const MetricValues::Sample& sample : family.samples) {
      absl::StrAppend(&text, sample.name, " ", NumberText(sample.value), "\n");
    }
  }
  return text;
}

}  // namespace millrace
