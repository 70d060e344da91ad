// The ranks' comparison of their calls and outcomes, which NCCL does not make: a record of fixed
// size per rank, gathered by all.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/core/reduce.h"
#include "collectives/nccl/on_device.h"

namespace millrace::collectives::nccl {
namespace {

// An outcome; a long text is cut.
struct Outcome {
  int32_t code = 0;
  char text[236] = {};  // ends with a zero
};

// A call of one rank.
struct Record {
  Collective kind = Collective::kBarrier;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  int32_t peer = 0;
  int64_t count = 0;
  Outcome arguments;
};

Outcome Encode(const absl::Status& status) {
  Outcome outcome;
  outcome.code = static_cast<int32_t>(status.code());
  const auto text = status.message().substr(0, sizeof(outcome.text) - 1);
  std::copy(text.begin(), text.end(), outcome.text);
  return outcome;
}

absl::Status Decode(const Outcome& outcome) {
  return absl::Status(static_cast<absl::StatusCode>(outcome.code), outcome.text);
}

template <typename T>
TensorView Bytes(T* data, size_t count) {
  return {data, DType::kU8, Shape{static_cast<int64_t>(count * sizeof(T))}};
}

template <typename T>
absl::StatusOr<std::vector<T>> Gather(Communicator& side, T own) {
  std::vector<T> all(side.size());
  Request request{Collective::kAllGather, Bytes(&own, 1), Bytes(all.data(), all.size())};
  request.agreed = true;
  MILLRACE_RETURN_IF_ERROR(Annotate(side.Run(request), "the network beside NCCL"));
  return all;
}

// Value-initialised, so that no byte that is sent is undefined.
Record MakeRecord(const Request& request, const absl::Status& arguments) {
  Record record{};
  record.kind = request.kind;
  record.op = request.op;
  record.peer = request.peer;
  record.arguments = Encode(arguments);
  if (!arguments.ok() || request.kind == Collective::kBarrier) return record;
  const bool receives = request.kind == Collective::kRecv;
  const ConstTensorView view = receives ? ConstTensorView(request.out) : request.in;
  record.dtype = view.dtype;
  record.count = view.shape.num_elements();
  return record;
}

bool Match(const Record& a, const Record& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.count == b.count && a.op == b.op &&
         a.peer == b.peer;
}

std::string Elements(const Record& record) {
  return absl::StrCat(record.count, " x ", ToAbsl(millrace::Name(record.dtype)));
}

std::string Describe(const Record& record) {
  std::string text(Name(record.kind));
  if (record.kind == Collective::kBarrier) return text;
  absl::StrAppend(&text, "(", Elements(record));
  if (record.kind == Collective::kBroadcast || record.kind == Collective::kReduce) {
    absl::StrAppend(&text, ", root ", record.peer);
  }
  if (record.kind == Collective::kAllReduce || record.kind == Collective::kReduceScatter ||
      record.kind == Collective::kReduce) {
    absl::StrAppend(&text, ", ", ToAbsl(Name(record.op)));
  }
  return text + ")";
}

}  // namespace

absl::Status AgreeOnCall(Communicator& side, const Request& request,
                         const absl::Status& arguments) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Record> all,
                            Gather(side, MakeRecord(request, arguments)));
  for (size_t r = 0; r < all.size(); ++r) {
    const absl::Status outcome = Decode(all[r].arguments);
    if (outcome.ok()) continue;
    return Annotate(outcome, absl::StrCat("rank ", r, ": ", ToAbsl(Name(all[r].kind))));
  }
  for (size_t r = 1; r < all.size(); ++r) {
    if (Match(all[0], all[r])) continue;
    return absl::InvalidArgumentError(absl::StrCat("the ranks' calls do not match: rank 0 ",
                                                   Describe(all[0]), ", rank ", r, " ",
                                                   Describe(all[r])));
  }
  return absl::OkStatus();
}

absl::Status AgreeOnMessage(Communicator& side, const Request& request) {
  const bool sends = request.kind == Collective::kSend;
  const Record own = MakeRecord(request, absl::OkStatus());
  Record sent = own;
  uint8_t match = 0;
  const auto say = [&](TensorView what, bool away) {
    return Annotate(away ? side.Send(what, request.peer) : side.Recv(what, request.peer),
                    "the network beside NCCL");
  };
  MILLRACE_RETURN_IF_ERROR(say(Bytes(&sent, 1), sends));
  if (!sends) match = sent.dtype == own.dtype && sent.count == own.count ? 1 : 0;
  MILLRACE_RETURN_IF_ERROR(say(Bytes(&match, 1), !sends));
  if (match != 0) return absl::OkStatus();
  if (sends) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", request.peer, " receives another size or element type than ",
                     Elements(own), ", which rank ", side.rank(), " sends"));
  }
  return absl::InvalidArgumentError(absl::StrCat("rank ", request.peer, " sends ", Elements(sent),
                                                 ", rank ", side.rank(), " receives ",
                                                 Elements(own)));
}

absl::Status AgreeOnOutcome(Communicator& side, const absl::Status& own) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Outcome> all, Gather(side, Encode(own)));
  absl::Status first;
  for (size_t r = 0; r < all.size(); ++r) {
    const absl::Status outcome = Decode(all[r]);
    // A rank for which a peer is gone rarely knows why.
    const bool tells_more = absl::IsUnavailable(first) && !absl::IsUnavailable(outcome);
    if (outcome.ok() || !(first.ok() || tells_more)) continue;
    first = MarkAgreed(Annotate(outcome, absl::StrCat("NCCL on rank ", r)));
  }
  return first;
}

}  // namespace millrace::collectives::nccl
