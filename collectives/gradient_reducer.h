#ifndef MILLRACE_COLLECTIVES_GRADIENT_REDUCER_H_
#define MILLRACE_COLLECTIVES_GRADIENT_REDUCER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/shape.h"
#include "base/tensor.h"
#include "collectives/communicator.h"
#include "collectives/reducer_counters.h"

namespace millrace::collectives {

class Progress;
class TeamMember;

// One gradient: float32, float16 or bfloat16.
struct GradientSpec {
  std::string name;
  Shape shape;
  DType dtype = DType::kF32;
};

// Which thread does a rank's part of the reductions, and when.
enum class ProgressPolicy {
  kAuto,    // chosen by backend, cores and ranks
  kInline,  // the caller's, in MarkReady if it need not wait, else in Finish; for busy cores
  kThread,  // a thread of the reducer's, which sleeps while it waits; for a spare core
  // For gradients in a device's memory only, where kAuto chooses it: MarkReady puts the sums
  // on the communicator's stream, and Finish waits for them. With kInline Finish does both.
  kStream,
};

// Reducers that one thread of a rank uses at once (the two networks of a GAN, groups of a grid).
// While one waits, the others go on, so ranks may finish them in different orders once all
// gradients are marked. Between hosts this needs a backend whose Start does not block.
// Thread-compatible; outlives its reducers.
class ReducerTeam {
 public:
  ReducerTeam() = default;
  ReducerTeam(const ReducerTeam&) = delete;
  ReducerTeam& operator=(const ReducerTeam&) = delete;

 private:
  friend class TeamMember;
  std::vector<TeamMember*> members_;
};

struct ReducerOptions {
  // True if the bits are the same for every backend and placement of ranks: each element is summed
  // in ascending order of all ranks. Otherwise the ranks of a host are summed before the hosts are.
  // Between hosts of R ranks each, about (R + 1) / 2 times the bytes travel
  // (collectives/ALGORITHMS.md).
  bool exact = false;
  // True if sums are divided by the valid rows of all ranks (SetRows), so that ragged batches are
  // right.
  bool average_by_rows = false;
  // True if steps whose sums are not finite are found (StepOutcome::skip), the same on all ranks.
  bool skip_non_finite = false;
  // The limit of the norm of all gradients; StepOutcome has the factor that keeps it. 0: none.
  double clip_norm = 0;
  // True if each rank gets the sums of its own shards only and updates these; GatherShards gives
  // the updates to all ranks. Each rank then needs optimizer state for only a part of the weights
  // (ZeRO-1).
  bool shard = false;
  // The calls of Finish that make one step; their gradients are added up before ranks are.
  int micro_batches = 1;
  // The type to which float32 sums are rounded on their way between hosts (over NCCL: between
  // ranks): kF32 (not rounded), kF16 or kBF16. They are added in float32.
  DType wire = DType::kF32;

  // performance only: on two or more hosts a sum may round differently for other values
  // (collectives/ALGORITHMS.md)
  size_t bucket_bytes = 25 << 20;  // gradients of one type are fused up to this size
  // The same limit for the first bucket, so that reductions start early, and for the last one,
  // which is reduced when backward is done.
  size_t edge_bucket_bytes = 1 << 20;
  // The options from here to `shared_memory` may differ between ranks.
  ProgressPolicy policy = ProgressPolicy::kAuto;
  int compute_threads = 1;  // threads that are busy during backward; 0: a device computes
  // True if the caller uses a communicator of the rank between a step's first MarkReady and its
  // Finish too. The reducer then has no thread.
  bool caller_communicates = false;
  // On a device, with a stream of gradients: true if sums are used on that stream alone. A rank
  // that is alone, and whose outcomes depend on no sum, then does not wait for the device in
  // Finish, which puts the stream behind the sums.
  bool uses_sums_on_stream = false;
  bool shared_memory = true;  // true if this rank shares memory with the other ranks of its host
  // Over NCCL a reducer of a team has a communicator and a stream of its own, so all ranks bring a
  // team or none.
  ReducerTeam* team = nullptr;
  // The number of the reducer's first step in messages; not 0 if training continues from a
  // checkpoint.
  int64_t first_step = 0;
  // Learns what this rank does from a step's first bucket to the step's end; the caller tells it
  // when the next step's backward begins. Outlives the reducer. Its Health ends waits within a
  // host; waits between hosts need the communicator's watch as well (WaitLimits), set before Make.
  Progress* progress = nullptr;
};

// The outcome of a step that Finish has ended, the same on all ranks.
struct StepOutcome {
  bool complete = true;  // false: a micro-batch that is not the step's last; there are no sums yet
  bool skip = false;  // true with `skip_non_finite` if some sum is infinite or NaN: do not update
  double norm = 0;    // norm of all gradients together; with `clip_norm` or `skip_non_finite`
  float clip_factor = 1;  // factor for each gradient; 1 or less
  int64_t rows = 0;       // valid rows of all ranks; with `average_by_rows`
};

// Elements [begin, end) of a gradient.
struct GradientShard {
  size_t gradient = 0;
  size_t begin = 0;
  size_t end = 0;
};

// Sums gradients over ranks, fused in buckets. The gradients live inside bucket memory, so fusion
// copies nothing; ranks of one host share that memory. On a device (MakeNccl, or MakeSingleOnDevice
// for a rank alone) it is memory of the device, from DeviceCommunicator::Allocate (and so lives as
// long as the communicator), or the caller's. NCCL sums there, but not what is exact or goes over a
// narrower wire (docs/nccl.md). Thread-compatible. From a step's first MarkReady to its Finish the
// reducer's thread may use the rank's communicators (unless `caller_communicates`); reducers that
// work at the same time on several hosts need a team.
class GradientReducer {
 public:
  // Plans the buckets once from `gradients` in the order in which backward makes them, and compares
  // the plan's hash across ranks. Collective.
  // `communicator` must outlive the reducer.
  //   INVALID_ARGUMENT    the ranks' plans differ: every rank names the lowest rank that differs
  //                       from rank 0 and the first differing tensor or option; or a shape, name,
  //                       type or option is bad on some rank
  //   RESOURCE_EXHAUSTED  no memory for the buckets (peers get INVALID_ARGUMENT, over NCCL the
  //                       same)
  //   UNIMPLEMENTED       over NCCL: a library older than 2.19 allocates no memory, or this rank
  //                       asks for a thread (peers that do not ask get INVALID_ARGUMENT)
  //   other               over NCCL: an error of CUDA, of Split (in a team), or of the first sums,
  //                       which are made here, of zeros
  // All ranks return the first three together, and others where IsAgreed (collectives/agreed.h).
  static absl::StatusOr<std::unique_ptr<GradientReducer>> Make(Communicator& communicator,
                                                               std::vector<GradientSpec> gradients,
                                                               const ReducerOptions& options = {});
  // The same with gradients in memory of the caller's, which outlives the reducer: `memory` holds
  // one view for each of `gradients`, of its shape and type, at any address that suits the type,
  // none overlapping another. On one host the ranks sum through slots of shared memory (256 KiB,
  // two a rank); on several, MarkReady copies gradients to buckets and Finish copies the sums back.
  // The bits are those of gradients in buckets. All ranks bring memory, or none.
  //   INVALID_ARGUMENT    also: a view does not fit; the text names it
  static absl::StatusOr<std::unique_ptr<GradientReducer>> Make(Communicator& communicator,
                                                               std::vector<GradientSpec> gradients,
                                                               std::vector<TensorView> memory,
                                                               const ReducerOptions& options = {});
  // Ends the waits of the other ranks that need this one, on all hosts (UNAVAILABLE with PeerLost,
  // as Finish), and its own operations; waits for no peer. If a rank leaves between two steps, over
  // MPI only its host notices, over NCCL no rank (its communicator goes on). If it leaves in the
  // middle of a step over MPI, its buckets stay mapped. Over NCCL a team's reducer ends its own
  // communicator between two steps, and waits up to 10 s for its peers to do so.
  virtual ~GradientReducer() = default;

  // Ends this rank's part as the destructor does, and tells the others why: "rank 1 is lost in
  // bucket 0 of step 812 (backward): it has failed: DATA_LOSS: ..." (a long text is cut to about
  // 400 bytes). If `why` names a lost rank itself, they get it unchanged. Every later call fails
  // with `why`. Does nothing if a reduction has failed before, which the others know, or if `why`
  // is OK.
  virtual void Leave(const absl::Status& why) = 0;

  // The memory of gradient `i`: written by backward, read (summed over ranks) by the optimizer
  // after Finish. Unless it is the caller's, it is 64-byte aligned and lives as long as the
  // reducer. Between MarkReady and Finish it belongs to the reducer.
  virtual TensorView gradient(size_t i) = 0;
  // Sets the valid rows of this rank's (micro-)batch. With `average_by_rows` it is called before
  // the first MarkReady of each.
  virtual void SetRows(int64_t rows) = 0;
  // Says that gradient `i` is filled for this step. When a bucket and all buckets before it are
  // full, it is offered to the peers. Any order; each gradient once per step. Does not wait for
  // peers within a host, nor over NCCL except in the first step of gradients that are summed one by
  // one in the caller's memory.
  //   UNAVAILABLE          as Finish, if a bucket is full and a watchdog has lost a peer (over
  //                        NCCL: in Finish), or a peer of this host has left (over NCCL, and with
  //                        gradients in the caller's memory: in Finish)
  //   INVALID_ARGUMENT     no gradient `i`
  //   FAILED_PRECONDITION  the gradient was marked before in this step, or SetRows was not called
  //   other                a reduction failed; every later call fails the same way
  virtual absl::Status MarkReady(size_t i) = 0;
  // Ends the step: waits until all sums are there (but see uses_sums_on_stream).
  //   FAILED_PRECONDITION  a gradient was not marked (the text names it); the step stays open.
  //                        Peers wait in its bucket: mark it, leave, or destroy the reducer
  //   UNAVAILABLE          a peer has left, or its reducer has failed, or it has died and the
  //                        backend or a watchdog has noticed. PeerLostOf (collectives/peer_lost.h)
  //                        tells the rank, and where it was
  //   DEADLINE_EXCEEDED    a peer was awaited for longer than the communicator's timeout (Make's
  //                        time)
  virtual absl::Status Finish() = 0;
  // The outcome of the last Finish.
  virtual const StepOutcome& outcome() const = 0;

  // The elements that this rank updates, in ascending order: with `shard` its own part, so that
  // each element is in one rank's list; else everything. Constant.
  virtual const std::vector<GradientShard>& shards() const = 0;
  // With `shard`, between Finish and the next step: gives the contents of this rank's shards of
  // gradient(i), new weights for example, to all ranks, and takes theirs. Collective; waits.
  // Without `shard` it does nothing.
  //   UNAVAILABLE, DEADLINE_EXCEEDED  as Finish; every later call fails the same way
  virtual absl::Status GatherShards() = 0;

  virtual size_t num_buckets() const = 0;
  // The bucket that gradient `i` lies in; buckets are numbered in the order in which they are
  // reduced.
  virtual size_t bucket_of(size_t i) const = 0;
  // The cost of the steps so far. Lives as long as the reducer; only Finish and GatherShards change
  // it. Measuring takes a few readings of the clock per bucket and wait.
  virtual const ReducerCounters& counters() const = 0;
  // "2 buckets: 1.0 MiB, 25.0 MiB; 2 ranks share memory, inline; plan 0x..." for the start-up
  // table.
  virtual std::string Summary() const = 0;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_GRADIENT_REDUCER_H_
