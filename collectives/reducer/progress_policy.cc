#include "collectives/reducer/progress_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace millrace::collectives {

ChosenPolicy ChoosePolicy(const ReducerOptions& options, int cores, int local_ranks,
                          std::string_view cross) {
  if (cross == "nccl") {
    const bool asked = options.policy != ProgressPolicy::kAuto;
    return {options.policy == ProgressPolicy::kInline ? ProgressPolicy::kInline
                                                      : ProgressPolicy::kStream,
            asked ? "as asked for" : "gradients are in a device's memory"};
  }
  const bool one_thread_only = cross == "mpi" || (!cross.empty() && options.team != nullptr);
  if (options.policy == ProgressPolicy::kInline) return {ProgressPolicy::kInline, "as asked for"};
  if (options.policy == ProgressPolicy::kThread && !one_thread_only) {
    return {ProgressPolicy::kThread, "as asked for"};
  }
  if (one_thread_only) return {ProgressPolicy::kInline, "hosts exchange on one thread"};
  const int computing = std::max(0, options.compute_threads);
  const bool spare = static_cast<int64_t>(local_ranks) * (computing + 1) <= cores;
  return {spare ? ProgressPolicy::kThread : ProgressPolicy::kInline,
          absl::StrCat(local_ranks, local_ranks == 1 ? " rank, " : " ranks, ", computing,
                       computing == 1 ? " computing thread each, " : " computing threads each, ",
                       cores, cores == 1 ? " core" : " cores")};
}

}  // namespace millrace::collectives
