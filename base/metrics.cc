#include "base/metrics.h"

namespace millrace {
namespace {

template <typename T>
T& FindOrMake(std::map<std::string, std::unique_ptr<T>, std::less<>>& map, std::string_view name) {
  auto it = map.find(name);
  if (it == map.end()) it = map.emplace(std::string(name), std::make_unique<T>()).first;
  return *it->second;
}

}  // namespace

void Gauge::RaiseMax(int64_t value) {
  int64_t seen = max_.load(std::memory_order_relaxed);
  while (seen < value && !max_.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

void Gauge::Add(int64_t amount) {
  RaiseMax(value_.fetch_add(amount, std::memory_order_relaxed) + amount);
}

void Gauge::Set(int64_t value) {
  value_.store(value, std::memory_order_relaxed);
  RaiseMax(value);
}

Counter& Metrics::counter(std::string_view name) {
  MutexLock lock(mu_);
  return FindOrMake(counters_, name);
}

Gauge& Metrics::gauge(std::string_view name) {
  MutexLock lock(mu_);
  return FindOrMake(gauges_, name);
}

std::map<std::string, int64_t> Metrics::Snapshot() const {
  MutexLock lock(mu_);
  std::map<std::string, int64_t> values;
  for (const auto& [name, counter] : counters_) values[name] = counter->value();
  for (const auto& [name, gauge] : gauges_) {
    values[name] = gauge->value();
    values[name + "_max"] = gauge->max();
  }
  return values;
}

}  // namespace millrace
