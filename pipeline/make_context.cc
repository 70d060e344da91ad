#include <algorithm>

#include "base/host.h"
#include "base/status.h"
#include "pipeline/pipeline.h"
#include "readers/record_source.h"

namespace millrace::pipeline {

// Reads wait for a device rather than for a core, so there are more I/O threads than workers.
absl::StatusOr<std::shared_ptr<Context>> MakeContext(ContextOptions options) {
  if (options.io == nullptr) {
    const int workers = options.threads > 0 ? options.threads : ReadCores().usable;
    MILLRACE_ASSIGN_OR_RETURN(options.io, readers::MakePreadEngine(std::clamp(2 * workers, 4, 64)));
  }
  return Context::Make(std::move(options));
}

}  // namespace millrace::pipeline
