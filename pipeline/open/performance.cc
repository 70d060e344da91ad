#include "pipeline/performance.h"

#include "pipeline/plan/message.h"

namespace millrace::pipeline {
namespace {

template <typename Number>
void FillIn(Number said, Number& option) {
  if (option == 0) option = said;
}

}  // namespace

Performance PerformanceOf(const Plan& plan) {
  const proto::Pipeline& pipeline = plan.message().pipeline;
  const proto::Performance& said = pipeline.performance();
  Performance performance{.threads = static_cast<int>(said.threads()),
                          .memory_budget_mib = static_cast<int>(said.memory_budget_mib()),
                          .io_threads = static_cast<int>(said.io_threads()),
                          .read_ahead_runs = static_cast<int>(said.read_ahead_runs()),
                          .run_us = static_cast<int>(said.run_us())};
  for (const proto::Stage& stage : pipeline.stage()) {
    if (!stage.has_prefetch()) continue;
    performance.prefetch_batches = static_cast<int>(stage.prefetch().batches());
  }
  return performance;
}

ContextOptions WithPerformanceOf(const Plan& plan, ContextOptions options) {
  const Performance said = PerformanceOf(plan);
  FillIn(said.threads, options.threads);
  FillIn(int64_t{said.memory_budget_mib} << 20, options.memory_budget_bytes);
  FillIn(said.io_threads, options.io_threads);
  return options;
}

OpenOptions WithPerformanceOf(const Plan& plan, OpenOptions options) {
  const Performance said = PerformanceOf(plan);
  FillIn(said.threads, options.cpu_budget);
  FillIn(said.read_ahead_runs, options.read_ahead_runs);
  FillIn(said.run_us, options.run_us);
  FillIn(said.prefetch_batches, options.prefetch_batches);
  return options;
}

}  // namespace millrace::pipeline
