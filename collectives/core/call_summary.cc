#include "collectives/core/call_summary.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "collectives/core/reduce.h"

namespace millrace::collectives {
namespace {

bool Is(const CallSummary& call, Collective kind) {
  return call.kind == static_cast<uint8_t>(kind);
}

bool Match(const CallSummary& a, const CallSummary& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.count == b.count && a.op == b.op &&
         a.peer == b.peer;
}

}  // namespace

CallSummary Summarize(const Request& request, const absl::Status& arguments) {
  const bool receives = request.kind == Collective::kRecv;
  const ConstTensorView data = receives ? ConstTensorView(request.out) : request.in;
  CallSummary call;
  call.kind = static_cast<uint8_t>(request.kind);
  call.dtype = static_cast<uint8_t>(data.dtype);
  call.op = static_cast<uint8_t>(request.op);
  call.bad = !arguments.ok();
  call.peer = request.peer;
  const bool counted = arguments.ok() && request.kind != Collective::kBarrier;
  call.count = counted ? data.shape.num_elements() : 0;
  return call;
}

CallSummary SummarizeSplit(const absl::Status& arguments) {
  CallSummary call;
  call.kind = CallSummary::kSplit;
  call.bad = !arguments.ok();
  return call;
}

std::string_view KindName(const CallSummary& call) {
  if (call.kind == CallSummary::kSplit) return "Split";
  return Name(static_cast<Collective>(call.kind));
}

std::string Describe(const CallSummary& call) {
  std::string text(KindName(call));
  if (call.kind == CallSummary::kSplit || Is(call, Collective::kBarrier)) return text;
  const DType dtype = static_cast<DType>(call.dtype);
  absl::StrAppend(&text, "(", call.count, " x ",
                  IsTaken(dtype) ? ToAbsl(millrace::Name(dtype)) : "unknown type");
  if (Is(call, Collective::kBroadcast) || Is(call, Collective::kReduce)) {
    absl::StrAppend(&text, ", root ", call.peer);
  }
  if (Is(call, Collective::kAllReduce) || Is(call, Collective::kReduceScatter) ||
      Is(call, Collective::kReduce)) {
    absl::StrAppend(&text, ", ", ToAbsl(Name(static_cast<ReduceOp>(call.op))));
  }
  return text + ")";
}

absl::Status CompareCalls(std::span<const CallSummary> calls) {
  for (size_t r = 1; r < calls.size(); ++r) {
    if (!Match(calls[0], calls[r])) {
      return absl::InvalidArgumentError(absl::StrCat("the ranks' calls do not match: rank 0 ",
                                                     Describe(calls[0]), ", rank ", r, " ",
                                                     Describe(calls[r])));
    }
    if (calls[0].options != calls[r].options) {
      return absl::InvalidArgumentError(
          absl::StrCat("ranks 0 and ", r, " cut messages in other ways: their options differ"));
    }
  }
  return absl::OkStatus();
}

std::string TimeoutText(int rank, std::string_view name, std::chrono::nanoseconds timeout) {
  const double milliseconds = std::chrono::duration<double, std::milli>(timeout).count();
  return absl::StrFormat("rank %d: %s has not ended within %.0f ms", rank, ToAbsl(name),
                         milliseconds);
}

std::string MissingText(std::span<const int> missing) {
  if (missing.empty()) return "by now all ranks are there";
  return absl::StrCat(missing.size() == 1 ? "rank " : "ranks ", absl::StrJoin(missing, ", "),
                      " did not come");
}

}  // namespace millrace::collectives
