#include "capi/loader/options.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "capi/call/cancel.h"
#include "capi/call/guard.h"
#include "capi/call/sized.h"
#include "capi/loader/http_options.h"
#include "capi/ops/ops.h"
#include "capi/source/source.h"

namespace millrace::capi {

namespace {

absl::Status AddMemory(const mr_open_options& taken, pipeline::OpenOptions& options) {
  if (taken.num_memory == 0) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(CheckGiven(
      "mr_open_options",
      {{"memory_names", taken.memory_names != nullptr}, {"memory", taken.memory != nullptr}}));
  for (size_t i = 0; i < taken.num_memory; ++i) {
    MILLRACE_RETURN_IF_ERROR(
        CheckGiven("mr_open_options", {{"a name of memory_names", taken.memory_names[i] != nullptr},
                                       {"a handle of memory", taken.memory[i] != nullptr}}));
    if (options.memory.emplace(taken.memory_names[i], taken.memory[i]->records).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("mr_open_options: memory for the stage ",
                                                   taken.memory_names[i], " is given twice"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<pipeline::OpenOptions> OpenOptionsOf(const mr_open_options* given) {
  mr_open_options taken;
  MILLRACE_RETURN_IF_ERROR(Take(given, "mr_open_options", taken));
  pipeline::OpenOptions options;
  MILLRACE_ASSIGN_OR_RETURN(options.http, HttpOptionsOf(taken.http));
  options.rank = taken.rank;
  if (taken.world != 0) options.world = taken.world;
  if (taken.token != nullptr) {
    options.resume_token.assign(static_cast<const char*>(taken.token), taken.token_bytes);
  } else if (taken.token_bytes != 0) {
    return absl::InvalidArgumentError("mr_open_options: token is NULL, and token_bytes is not 0");
  }
  if (taken.quarantine_file != nullptr) options.quarantine_file = taken.quarantine_file;
  options.force_resume = taken.force_resume != 0;
  options.prefetch_batches = taken.prefetch_batches;
  options.cpu_budget = taken.cpu_budget;
  options.adapt = taken.no_adapt == 0;
  if (taken.index_folder != nullptr) options.index_folder = taken.index_folder;
  if (taken.index_progress != nullptr) {
    options.index_progress = [call = taken.index_progress, user = taken.index_user](
                                 int64_t done, int64_t total) { call(user, done, total); };
  }
  options.cancels = CancelsOf(taken.cancel);
  if (taken.push != nullptr) options.push = taken.push->source;
  if (taken.ops != nullptr) options.ops = taken.ops->table;
  if (taken.pinned != 0) options.pinned_for = taken.pinned_device;
  MILLRACE_RETURN_IF_ERROR(AddMemory(taken, options));
  return options;
}

}  // namespace millrace::capi
