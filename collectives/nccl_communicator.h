#ifndef MILLRACE_COLLECTIVES_NCCL_COMMUNICATOR_H_
#define MILLRACE_COLLECTIVES_NCCL_COMMUNICATOR_H_

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/device_communicator.h"

namespace millrace::collectives {

// The same on every rank but for `library`, `device` and the streams.
struct NcclOptions {
  // The file of libnccl. Empty: the one that MILLRACE_NCCL_LIBRARY names, else libnccl.so.2 as the
  // dynamic linker finds it.
  std::string library = "";

  // The CUDA device of this rank; -1: the one numbered as the rank within its host. NCCL takes one
  // rank per device.
  int device = -1;

  // The cudaStream_t of `device` on which the calls run, in order with other work on it; it
  // outlives the communicator. Null: a stream of the communicator's own; the input of a call must
  // then be written before the call. Groups made by Split have streams of their own.
  void* stream = nullptr;

  // The cudaStream_t of `device` on which a reducer's gradients and updated shards are written, if
  // that is not `stream`: sums begin after the work that this stream has been given when MarkReady
  // or GatherShards is called. Outlives the communicator. Null: gradients are written on `stream`,
  // or before these calls. The communicator's timeout counts from these calls on, so it must cover
  // the rest of backward too.
  void* gradient_stream = nullptr;

  // How long MakeNccl and Split may wait for the other ranks to connect.
  std::chrono::nanoseconds connect_timeout = std::chrono::minutes(2);

  // True if the ranks compare every call that is not marked as agreed over the bootstrap network
  // before they make it, at the cost of one small AllGather there; Start then waits for the peers'
  // calls. NCCL does not compare them: unlike calls hang, or mix up data.
  bool compare_calls = true;

  // performance only: results are the same for every value

  // Bounds of the thread blocks that one call takes from the device; 0: NCCL's choice.
  int min_ctas = 0;
  int max_ctas = 0;

  absl::Status Validate() const;
};

// Ranks on CUDA devices. Beyond DeviceCommunicator:
//  - float16 and bfloat16 are summed as NCCL does it, which may round at every hop; an average may
//    be computed as the sum of quotients. The bits are the same on every rank.
//  - Begun messages run one after the other: a ring of ranks that all send first blocks for ever
//    (use AllToAll).
//  - Abort may be called from any thread while the communicator's own thread is in one of its
//    operations. It waits until that thread has ended its work outside of NCCL: up to 50 ms, or as
//    long as the device takes. Over TCP and MPI it must not be called while that thread is in
//    bootstrap(), the communicator that MakeNccl was given, or a group that was split from one of
//    these. Peers that wait inside of NCCL notice it by their network, as UNAVAILABLE, or by their
//    timeout; peers that compare calls get CANCELLED.
//  - After a failure (any status but INVALID_ARGUMENT) the communicator is aborted and returns that
//    failure from every later call; calls that are compared tell the peers of it. Bad arguments of
//    an agreed call, which the peers begin, make every later call fail.
class NcclCommunicator : public DeviceCommunicator {
 public:
  // The loaded library's version code: 22809 is 2.28.9.
  virtual int version() const = 0;

  // Begins a sum (AllReduce, ReduceScatter or Reduce) of floating-point data that every rank
  // multiplies by its `scale` on the way in, without a pass of its own.
  virtual std::unique_ptr<Pending> StartScaled(const Request& request, double scale) = 0;
};

// The group of `bootstrap`'s ranks over NCCL. Collective. Keeps a group split from `bootstrap`,
// over which the ranks meet, and which its calls use on the caller's thread. Takes the timeout of
// `bootstrap`. Every rank returns the same outcome:
//   FAILED_PRECONDITION  a rank has no usable libnccl or no device, or versions differ
//   INVALID_ARGUMENT     bad options, or no device of that number
//   UNIMPLEMENTED        this build has no CUDA parts
//   DEADLINE_EXCEEDED    the ranks did not connect in time
//   other                as `bootstrap`, CUDA or NCCL says; the message names the rank
absl::StatusOr<std::unique_ptr<NcclCommunicator>> MakeNccl(Communicator& bootstrap,
                                                           const NcclOptions& options);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_NCCL_COMMUNICATOR_H_
