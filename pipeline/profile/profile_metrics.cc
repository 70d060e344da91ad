#include "pipeline/profile/profile_metrics.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/metric_table.h"

namespace millrace::pipeline {
namespace {

// Adds the rise of a number. Times that are worked out from samples may fall a little: they count
// again when they are higher than ever.
void Raise(int64_t now, int64_t& counted, Metrics& metrics, const CounterFamily& family,
           std::string_view label = {}) {
  if (now <= counted) return;
  metrics.counter(family, label).Add(now - counted);
  counted = now;
}

}  // namespace

void ProfileMetrics::Update(const PipelineProfile& now) {
  const MutexLock lock(mu_);
  if (now.begins_ns() < counted_.begins_ns()) return;
  if (now.begins_ns() > counted_.begins_ns()) counted_ = {};
  counted_.now_ns = now.now_ns;
  counted_.elapsed_ns = now.elapsed_ns;
  for (size_t i = 0; i < kNumWaitCauses; ++i) {
    Raise(now.wait_ns[i], counted_.wait_ns[i], metrics_, metric::kWaitCauseSeconds,
          WaitCauseName(static_cast<WaitCause>(i)));
  }
  for (size_t i = 0; i < kNumItemKinds; ++i) {
    Raise(now.items[i].busy_ns, counted_.items[i].busy_ns, metrics_, metric::kWorkerSeconds,
          ItemKindName(static_cast<ItemKind>(i)));
  }
  counted_.ops.resize(now.ops.size());
  for (size_t i = 0; i < now.ops.size(); ++i) {
    Raise(now.ops[i].busy_ns, counted_.ops[i].busy_ns, metrics_, metric::kStageSeconds,
          now.ops[i].stage);
  }
  Raise(now.hand_over.calls, counted_.hand_over.calls, metrics_, metric::kHandOvers);
  Raise(now.hand_over.ns, counted_.hand_over.ns, metrics_, metric::kHandOverSeconds);
  Raise(now.reads.groups, counted_.reads.groups, metrics_, metric::kReadGroups);
  Raise(now.reads.ns, counted_.reads.ns, metrics_, metric::kReadGroupSeconds);
  Raise(now.reads.requests, counted_.reads.requests, metrics_, metric::kReadRequests);
}

}  // namespace millrace::pipeline
