#include "capi/loader/options.h"

#include "base/status.h"
#include "capi/call/sized.h"

namespace millrace::capi {

absl::StatusOr<pipeline::OpenOptions> OpenOptionsOf(const mr_open_options* given) {
  mr_open_options taken;
  MILLRACE_RETURN_IF_ERROR(Take(given, "mr_open_options", taken));
  pipeline::OpenOptions options;
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
  return options;
}

}  // namespace millrace::capi
