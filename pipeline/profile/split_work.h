#ifndef MILLRACE_PIPELINE_PROFILE_SPLIT_WORK_H_
#define MILLRACE_PIPELINE_PROFILE_SPLIT_WORK_H_

#include <cstdint>
#include <span>

#include "pipeline/profile.h"

namespace millrace::pipeline {

// Gives each op its part of the time of all work, as the samples say. Parts are rounded down. Ops
// without a sample among them have none.
void SplitWork(int64_t work_ns, std::span<OpProfile> ops);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PROFILE_SPLIT_WORK_H_
