#ifndef MILLRACE_COLLECTIVES_MESSAGES_ALGORITHMS_H_
#define MILLRACE_COLLECTIVES_MESSAGES_ALGORITHMS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "collectives/core/call_summary.h"
#include "collectives/messages/exchange.h"
#include "collectives/messages/task.h"
#include "collectives/messages/transport_communicator.h"

// The collective operations over messages. ALGORITHMS.md has the steps and bytes of each.
//
// Every reduction is made in ascending order of the ranks, by one rank per element (or by every
// rank from the same data), so that all backends have the same bits. Ranks exchange directly, all
// pieces of a round at once: a ring sends the same bytes in P - 1 dependent steps, and its sums
// begin at another rank for each share.

namespace millrace::collectives {

// Memory that operations pass on to the next one: fresh pages cost more than the sums in them.
class ScratchPool {
 public:
  using Memory = std::vector<std::byte>;

  // Sets `memory` to `bytes` bytes or more; RESOURCE_EXHAUSTED without memory.
  absl::Status Take(size_t bytes, Memory* memory);
  void Return(Memory memory);

 private:
  static constexpr size_t kKept = 2;  // as many operations usually overlap

  std::vector<Memory> kept_;
};

// The inputs of an operation. Must not change until the task has ended.
struct OperationContext {
  Channel& channel;
  const Request& request;
  const TransportOptions& options;
  ScratchPool& scratch;
};

// The ranks tell each other their calls: INVALID_ARGUMENT with the same text on all of them if the
// calls do not match or the arguments of one are bad.
Task AgreeOnCall(Channel& channel, const CallSummary& mine, const absl::Status& arguments);

// Runs an operation whose request was checked and agreed on. Not for Barrier, which is only
// AgreeOnCall.
Task RunOperation(const OperationContext& context);

// Point to point. Unless `request.agreed`, a summary goes ahead: INVALID_ARGUMENT on the receiver
// if size or element type differ.
Task RunSend(const OperationContext& context);
Task RunReceive(const OperationContext& context);

// All-gather in ceil(log2(size)) steps: `blocks` holds size() blocks of the same size, of which
// this rank's is filled in.
Task GatherBlocks(Channel& channel, std::span<std::byte> blocks);

// Broadcast along a binomial tree: floor(log2(size)) steps.
Task BroadcastTree(Channel& channel, std::span<std::byte> data, int root);

// The parts of RunOperation for large data, all in shares and pieces of
// `collectives/messages/cut.h`.
Task ReduceShares(const OperationContext& context);  // AllReduce, Reduce, ReduceScatter
Task GatherShares(const OperationContext& context);  // AllGather
Task BroadcastShares(const OperationContext& context);
Task ExchangeShares(const OperationContext& context);  // AllToAll

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_MESSAGES_ALGORITHMS_H_
