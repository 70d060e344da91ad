#ifndef MILLRACE_CLI_EMULATE_MAX_FED_H_
#define MILLRACE_CLI_EMULATE_MAX_FED_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace::cli {

// MLPerf Storage's limit for ResNet-50: an accelerator below it is not fed.
inline constexpr double kFedUtilisation = 0.90;
inline constexpr int kMaxAccelerators = 4096;

// A number of accelerators and the result of trying it.
struct FeedTrial {
  int accelerators = 0;
  double utilisation = 0;
  double samples_per_second = 0;
};

struct MaxFed {
  int accelerators = 0;  // the most that were fed; 0: not even one
  bool or_more = false;  // true if kMaxAccelerators are fed; no more were tried
  std::vector<FeedTrial> trials;
  absl::Status status;  // status of the attempt that ended the search; `trials` has those before
};

// Searches for the most accelerators whose utilisation is at least kFedUtilisation. It begins at
// `first_guess`, goes up from a number that was fed and down from one that was not, in steps of 1,
// 2, 4, ..., and then bisects. Each number is tried once, none above kMaxAccelerators. An attempt
// that fails ends the search.
MaxFed FindMaxFed(double first_guess, const std::function<absl::StatusOr<FeedTrial>(int)>& attempt);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_EMULATE_MAX_FED_H_
