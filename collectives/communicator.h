#ifndef MILLRACE_COLLECTIVES_COMMUNICATOR_H_
#define MILLRACE_COLLECTIVES_COMMUNICATOR_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/tensor.h"

namespace millrace::collectives {

// kAverage is the sum divided by the number of ranks: for floating-point types only.
enum class ReduceOp { kSum, kProduct, kMin, kMax, kAverage };

enum class Collective {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kAllToAll,
  kBarrier,
  kSend,
  kRecv,
};

// One call of one rank; the named methods of Communicator make them.
struct Request {
  Collective kind = Collective::kBarrier;
  ConstTensorView in;  // read
  TensorView out;      // written; the same as `in` of kBroadcast
  ReduceOp op = ReduceOp::kSum;
  int peer = 0;  // the root, or the other rank of Send and Recv
  // True if the ranks are known to make the same call. Backends then need not compare calls, and
  // bad arguments may leave the group unusable.
  bool agreed = false;
};

// An operation that was begun. The caller leaves its memory alone until the operation has ended.
class Pending {
 public:
  // Blocks until the operation has ended.
  virtual ~Pending() = default;
  // Makes progress without waiting; true when the operation has ended.
  virtual bool Poll() = 0;
  // Blocks until the operation has ended and returns its outcome, every time the same.
  virtual absl::Status Wait() = 0;
  // The rank (of the group) whose message the operation waited for at the last poll; -1: unknown.
  virtual int AwaitedPeer() const { return -1; }
};

// The limits of a wait for peers that may never come.
struct WaitLimits {
  std::chrono::nanoseconds timeout{0};  // 0: none
  // Called at least every 50 ms. A status other than OK ends the wait and is its outcome. May be
  // empty.
  std::function<absl::Status()> watch;
};

// The abilities of a backend beyond its operations; the same on all ranks of a group.
struct Capabilities {
  // True if sums are made in ascending order of the ranks, with the bits of every such backend.
  bool ordered_sums = true;
  // True if any thread of a rank may call its groups, one thread at a time. False: only the thread
  // that connected may.
  bool any_thread = true;
  // True if the memory of a call that was given up belongs to the caller again at once. False: the
  // network may write to it until the process ends.
  bool cancel_is_final = true;
  // True if a message that no peer awaits any more does no harm, so that a rank may say that it
  // leaves when the others may be gone already.
  bool drops_unawaited = true;
};

class DeviceCommunicator;

// A group of ranks that call the same operations in the same order. Thread-compatible: one thread
// at a time per rank. Element types: float32, float16, bfloat16, float64, int32, int64, uint8;
// 16-bit floats are summed as float32 and rounded once. Memory is the caller's. Outcomes of every
// operation:
//   OK                 the data is there on this rank
//   INVALID_ARGUMENT   dtype or size not taken, or the ranks' calls do not match
//   UNAVAILABLE        a peer is gone
//   CANCELLED          Abort was called on some rank
//   DEADLINE_EXCEEDED  the timeout has passed; the group can no longer be used. The text names the
//                      ranks that have not come. Where cancels are not final (Capabilities) the
//                      call's memory may be written to until the process ends.
//   RESOURCE_EXHAUSTED no memory on this rank; the group can no longer be used (over messages)
//   other              the status of the limits' watch; the group can no longer be used
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_rank() const = 0;  // number among the ranks of this host
  virtual int local_size() const = 0;
  // The number that rank `rank` of this group has in the group that all others were split from.
  virtual int RankInJob(int rank) const { return rank; }
  // "threads", "mpi", "tcp", "nccl" or "single", for people to read. Programs ask capabilities()
  // and on_device() for the differences between backends.
  virtual std::string_view backend() const = 0;
  virtual Capabilities capabilities() const { return {}; }
  // This communicator where tensors are in a device's memory (device_communicator.h); null: they
  // are in the host's.
  virtual DeviceCommunicator* on_device() { return nullptr; }

  // Every rank's `data` becomes the reduction over all ranks, the same bits on every rank.
  absl::Status AllReduce(TensorView data, ReduceOp op);
  // `out` has in's size and does not overlap it.
  absl::Status AllReduce(ConstTensorView in, TensorView out, ReduceOp op);
  // `data` holds size() equal blocks; block rank() becomes the reduction over all ranks, other
  // blocks are undefined after.
  absl::Status ReduceScatter(TensorView data, ReduceOp op);
  // `in` holds size() blocks of out's size, which it does not overlap.
  absl::Status ReduceScatter(ConstTensorView in, TensorView out, ReduceOp op);
  // `out` holds size() blocks of in's size; block r becomes rank r's `in`. `in` may be the own
  // block of `out` (gather in place), else they do not overlap.
  absl::Status AllGather(ConstTensorView in, TensorView out);
  absl::Status Broadcast(TensorView data, int root);
  // The root's `data` becomes the reduction over all ranks; the others' is undefined after.
  absl::Status Reduce(TensorView data, ReduceOp op, int root);
  // `out` has in's size, on every rank, and does not overlap it; on ranks other than the root it is
  // undefined after.
  absl::Status Reduce(ConstTensorView in, TensorView out, ReduceOp op, int root);
  // Both hold size() equal blocks and do not overlap; block r of `out` becomes block rank() of rank
  // r's `in`.
  absl::Status AllToAll(ConstTensorView in, TensorView out);
  absl::Status Barrier();
  // Point to point between two different ranks; matched by order per pair. Send may wait for the
  // matching Recv. Unequal sizes are INVALID_ARGUMENT on the receiver (threads, NCCL: on both).
  absl::Status Send(ConstTensorView data, int peer);
  absl::Status Recv(TensorView data, int peer);

  // Any of the above as a request: Run returns when it has ended, Start when it has begun.
  // Operations of one communicator run in the order of the calls. A rank waits for those that it
  // has begun before it destroys the communicator.
  absl::Status Run(const Request& request);
  std::unique_ptr<Pending> Start(const Request& request);

  // Makes a new group of the ranks with the same `color` (>= 0), ordered by (key, rank).
  // Collective; waits under this group's limits (over NCCL: its connect_timeout), which the new
  // group inherits. MPI's tags limit the number of groups of a job (8190 under MPICH 4.0, 65534
  // under Open MPI 4.1): beyond it every rank gets RESOURCE_EXHAUSTED, and this group stays usable.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) = 0;

  // Sets the limits of every later operation of this group and of groups that are split from it
  // later. `watch` must be thread-safe and must not call the group; Watchdog::Health belongs there.
  void set_limits(WaitLimits limits) { limits_ = std::move(limits); }
  const WaitLimits& limits() const { return limits_; }
  // The longest time that one operation may wait for peers, counted from its Wait or first Poll. 0,
  // the default: no limit.
  void set_timeout(std::chrono::nanoseconds timeout) { limits_.timeout = timeout; }
  std::chrono::nanoseconds timeout() const { return limits_.timeout; }

  // Ends every present and later operation of every rank of the group as far as the backend can;
  // the MPI backend ends the whole job. Call it when a rank fails by itself, so that no peer waits
  // for ever.
  virtual void Abort(const absl::Status& reason) = 0;

  // Takes this rank out of the group. Its own unfinished operations end with `reason`, and so does
  // every present and later operation of the other ranks that needs this rank. Operations that this
  // rank has ended before still end well on the others. Groups that this one was split from go on,
  // unlike after Abort. The others get `reason`'s code (CANCELLED or DEADLINE_EXCEEDED, else
  // UNAVAILABLE), text and PeerLost. Does not wait; only the first call counts. Over NCCL the
  // peers' unfinished operations end too, with NCCL's UNAVAILABLE; Heard then has the reason.
  virtual void Leave(const absl::Status& reason) = 0;

  // The news from peers outside of operations: OK, or the reason why no rank can use the group any
  // more (a peer has left or aborted). Does not wait. One call hears some of the peers, repeated
  // calls hear all. Always OK on backends that hear peers only in operations.
  virtual absl::Status Heard() { return absl::OkStatus(); }

 private:
  // `arguments` is the outcome of checking `request`, the same for all backends. Backends that
  // compare calls let the peers of a rank with bad arguments fail too; the others return it.
  virtual absl::Status RunChecked(const Request& request, const absl::Status& arguments) = 0;
  virtual std::unique_ptr<Pending> StartChecked(const Request& request,
                                                const absl::Status& arguments) = 0;

  WaitLimits limits_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_COMMUNICATOR_H_
