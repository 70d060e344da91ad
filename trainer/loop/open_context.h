#ifndef MILLRACE_TRAINER_LOOP_OPEN_CONTEXT_H_
#define MILLRACE_TRAINER_LOOP_OPEN_CONTEXT_H_

#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/context.h"
#include "base/metrics.h"
#include "trainer/job/job.h"

namespace millrace::trainer {

// Makes the context of a job's pipelines on one rank. `warn` receives the log's warnings and
// errors; may be empty. `metrics` receives the metrics; may be null.
absl::StatusOr<std::shared_ptr<Context>> OpenContext(
    const Job& job, const CoreSplit& cores, std::function<void(std::string_view line)> warn,
    std::shared_ptr<Metrics> metrics = nullptr);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_OPEN_CONTEXT_H_
