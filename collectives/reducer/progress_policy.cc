#include "collectives/reducer/progress_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace millrace::collectives {

ChosenPolicy ChooseDevicePolicy(const ReducerOptions& options) {
  const bool asked = options.policy != ProgressPolicy::kAuto;
  return {
      options.policy == ProgressPolicy::kInline ? ProgressPolicy::kInline : ProgressPolicy::kStream,
      asked ? "as asked for" : "gradients are in a device's memory"};
}

ChosenPolicy ChoosePolicy(const ReducerOptions& options, int cores, int local_ranks,
                          const std::optional<Capabilities>& between_hosts) {
  const bool one_thread_only =
      between_hosts.has_value() && (!between_hosts->any_thread || options.team != nullptr);
  if (options.policy == ProgressPolicy::kInline) return {ProgressPolicy::kInline, "as asked for"};
  if (options.caller_communicates) {
    return {ProgressPolicy::kInline, "ranks exchange sums amid the step"};
  }
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
