// Send and Recv: a summary, unless the ranks are known to agree, then the data in pieces, two on
// their way at a time. The receiver takes the data in any case, so that the pair stays usable.

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/core/reduce.h"
#include "collectives/messages/algorithms.h"

namespace millrace::collectives {
namespace {

std::span<std::byte> AsBytes(CallSummary& summary) {
  return std::as_writable_bytes(std::span(&summary, 1));
}

// Receives and drops the sender's data after a mismatch. An invalid summary announces no data.
Task Discard(const OperationContext& context, const CallSummary& sent) {
  const DType dtype = static_cast<DType>(sent.dtype);
  if (sent.count < 0 || !IsTaken(dtype)) co_return absl::OkStatus();
  std::vector<std::byte> memory;
  Exchange exchange(context.channel);
  for (size_t left = static_cast<size_t>(sent.count) * SizeOf(dtype); left > 0;) {
    const size_t bytes = std::min(left, context.options.piece_bytes);
    memory.resize(bytes);
    exchange.Receive(memory, context.request.peer);
    co_await exchange.Ended();
    left -= bytes;
  }
  co_return absl::OkStatus();
}

}  // namespace

Task RunSend(const OperationContext& context) {
  const Request& request = context.request;
  const std::span data(static_cast<const std::byte*>(request.in.data), request.in.size_bytes());
  CallSummary mine = Summarize(request, absl::OkStatus());
  Exchange even(context.channel);
  Exchange odd(context.channel);
  const std::array<Exchange*, 2> exchanges = {&even, &odd};
  if (!request.agreed) even.Send(AsBytes(mine), request.peer);
  const size_t step = context.options.piece_bytes;
  for (size_t at = 0, i = 1; at < data.size(); at += step, ++i) {
    co_await exchanges[i % 2]->Ended();
    exchanges[i % 2]->Send(data.subspan(at, std::min(step, data.size() - at)), request.peer);
  }
  co_await even.Ended();
  co_await odd.Ended();
  co_return absl::OkStatus();
}

Task RunReceive(const OperationContext& context) {
  const Request& request = context.request;
  const std::span data(static_cast<std::byte*>(request.out.data), request.out.size_bytes());
  const CallSummary mine = Summarize(request, absl::OkStatus());
  Exchange even(context.channel);
  Exchange odd(context.channel);
  const std::array<Exchange*, 2> exchanges = {&even, &odd};
  if (!request.agreed) {
    CallSummary sent;
    even.Receive(AsBytes(sent), request.peer);
    co_await even.Ended();
    if (sent.count != mine.count || sent.dtype != mine.dtype) {
      MILLRACE_CO_RETURN_IF_ERROR(co_await Discard(context, sent));
      co_return absl::InvalidArgumentError(
          absl::StrCat("rank ", request.peer, " calls ", Describe(sent), ", rank ",
                       context.channel.rank(), " ", Describe(mine)));
    }
  }
  const size_t step = context.options.piece_bytes;
  for (size_t at = 0, i = 1; at < data.size(); at += step, ++i) {
    co_await exchanges[i % 2]->Ended();
    exchanges[i % 2]->Receive(data.subspan(at, std::min(step, data.size() - at)), request.peer);
  }
  co_await even.Ended();
  co_await odd.Ended();
  co_return absl::OkStatus();
}

}  // namespace millrace::collectives
