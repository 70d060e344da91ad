#ifndef MILLRACE_COLLECTIVES_CORE_CALL_SUMMARY_H_
#define MILLRACE_COLLECTIVES_CORE_CALL_SUMMARY_H_

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

// The facts of a collective call that the ranks compare. It travels as it is, in the byte order of
// the host.
struct CallSummary {
  static constexpr uint8_t kSplit = 255;  // the `kind` of a split

  uint8_t kind = 0;   // a Collective, or kSplit
  uint8_t dtype = 0;  // a DType
  uint8_t op = 0;     // a ReduceOp
  bool bad = false;   // true if the rank's arguments are not taken
  int32_t peer = 0;
  int64_t count = 0;     // elements of the input, or of the output of Recv; 0 when bad
  uint64_t options = 0;  // a hash of the options that the ranks must have set alike
  uint64_t unused = 0;
};
static_assert(sizeof(CallSummary) == 32);

// `arguments`: the outcome of the checks of `request`.
CallSummary Summarize(const Request& request, const absl::Status& arguments);
CallSummary SummarizeSplit(const absl::Status& arguments);

// "AllReduce", "Split", ...
std::string_view KindName(const CallSummary& call);

// "AllReduce(5 x float32, sum)".
std::string Describe(const CallSummary& call);

// By rank, none of them bad: INVALID_ARGUMENT that names the first two calls that do not match.
absl::Status CompareCalls(std::span<const CallSummary> calls);

// "rank 0: AllReduce has not ended within 200 ms".
std::string TimeoutText(int rank, std::string_view name, std::chrono::nanoseconds timeout);

// "ranks 2, 3 did not come"; that all did when it is empty.
std::string MissingText(std::span<const int> missing);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_CORE_CALL_SUMMARY_H_
