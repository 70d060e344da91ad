#ifndef MILLRACE_PIPELINE_PERFORMANCE_H_
#define MILLRACE_PIPELINE_PERFORMANCE_H_

#include <cstdint>

#include "base/context.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"

// The speed and the memory of a plan: its block `performance` and its prefetch. None of it changes
// a result, and none is part of the plan's fingerprint. Options that open the plan come before it,
// and it before the defaults; a context of the program's own is as the program made it.

namespace millrace::pipeline {

// 0: the plan does not say.
struct Performance {
  int threads = 0;
  int memory_budget_mib = 0;
  int io_threads = 0;
  int read_ahead_runs = 0;
  int run_us = 0;
  int prefetch_batches = 0;

  friend bool operator==(const Performance&, const Performance&) = default;
};
Performance PerformanceOf(const Plan& plan);

// Returns `options` with what they leave open as the plan says.
ContextOptions WithPerformanceOf(const Plan& plan, ContextOptions options);
OpenOptions WithPerformanceOf(const Plan& plan, OpenOptions options);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PERFORMANCE_H_
