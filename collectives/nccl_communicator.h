#ifndef MILLRACE_COLLECTIVES_NCCL_COMMUNICATOR_H_
#define MILLRACE_COLLECTIVES_NCCL_COMMUNICATOR_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

// The same on every rank but for `library`, `device` and `stream`.
struct NcclOptions {
  // libnccl's file. Empty: what MILLRACE_NCCL_LIBRARY names, else libnccl.so.2 from where the
  // dynamic linker looks.
  std::string library = "";

  // The CUDA device of this rank; -1: the one numbered as the rank within its host. NCCL takes one
  // rank per device.
  int device = -1;

  // The cudaStream_t of `device` on which the calls run, in order with what else is on it; it
  // outlives the communicator. Null: a stream of the communicator's own, and what a call reads must
  // be written before the call. Groups made by Split have streams of their own.
  void* stream = nullptr;

  // How long MakeNccl and Split may wait for the other ranks to connect.
  std::chrono::nanoseconds connect_timeout = std::chrono::minutes(2);

  // NCCL does not compare the ranks' calls: unlike calls hang, or mix up data. With this the ranks
  // compare every call that is not marked as agreed over the bootstrap network before they make it,
  // at the cost of one small AllGather there, and Start then waits for the peers' calls.
  bool compare_calls = true;

  // performance only: results are the same for every value

  // Bounds of the thread blocks that one call takes from the device; 0: NCCL's choice.
  int min_ctas = 0;
  int max_ctas = 0;

  absl::Status Validate() const;
};

// Ranks on CUDA devices. All tensors are in device memory. Beyond Communicator:
//  - float16 and bfloat16 are summed as NCCL does it, which may round at every hop; an average may
//    be computed as the sum of quotients. The bits are the same on every rank.
//  - Begun calls run beside the host; Poll and Wait ask the device. Begun messages run one after
//    the other: a ring of ranks that all send first does not move (AllToAll does).
//  - Abort may be called from any thread while the communicator's own is in one of its operations,
//    and waits for that one to end what it does beside NCCL: up to 50 ms, or for as long as the
//    device takes to let go. Over TCP and MPI not while that thread is in bootstrap(), the
//    communicator that MakeNccl was given, or a group that was split from one of these. Peers that
//    wait inside of NCCL notice it by their network, as UNAVAILABLE, or by their timeout; those
//    that compare calls are CANCELLED.
//  - After a failure (any status but INVALID_ARGUMENT) the communicator is aborted and returns that
//    failure from every later call; of a call that is compared the peers are told it then. Bad
//    arguments of an agreed call, which the peers begin, are a failure from the next call on.
class NcclCommunicator : public Communicator {
 public:
  // The loaded library's version code: 22809 is 2.28.9.
  virtual int version() const = 0;

  // The same ranks over the bootstrap's network, for what is in the host's memory. Its own
  // operations are among those of this communicator, so it is the communicator's thread's.
  virtual Communicator& bootstrap() = 0;

  // Begins a sum (AllReduce, ReduceScatter or Reduce) of floating-point data that every rank
  // multiplies by its `scale` on the way in, without a pass of its own.
  virtual std::unique_ptr<Pending> StartScaled(const Request& request, double scale) = 0;

  // Device memory whose data NCCL moves without copies where the hardware can; every rank allocates
  // the same sizes in the same order. Lives as long as the communicator.
  //   UNIMPLEMENTED       the library is older than 2.19
  //   RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE  as NCCL says
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  // The same for memory of the caller's, which outlives the communicator.
  virtual absl::Status Register(void* memory, size_t bytes) = 0;

  // Copies between memory of the host and of this rank's device, either way, behind the calls that
  // have begun: wait for them first, for this waits without a deadline. INTERNAL as CUDA says.
  virtual absl::Status Copy(void* to, const void* from, size_t bytes) = 0;
};

// The group of `bootstrap`'s ranks over NCCL. Collective. Keeps a group split from `bootstrap`,
// over which the ranks meet, and which its calls use on the caller's thread. Takes the timeout of
// `bootstrap`. Every rank returns the same outcome:
//   FAILED_PRECONDITION  a rank has no libnccl that is taken or no device, or versions differ
//   INVALID_ARGUMENT     bad options, or no device of that number
//   UNIMPLEMENTED        this build has no CUDA parts
//   DEADLINE_EXCEEDED    the ranks did not connect in time
//   other                as `bootstrap`, CUDA or NCCL says; the message names the rank
absl::StatusOr<std::unique_ptr<NcclCommunicator>> MakeNccl(Communicator& bootstrap,
                                                           const NcclOptions& options);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_NCCL_COMMUNICATOR_H_
