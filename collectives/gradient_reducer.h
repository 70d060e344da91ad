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
struct ReducerInternals;

// One gradient: float32, float16 or bfloat16.
struct GradientSpec {
  std::string name;
  Shape shape;
  DType dtype = DType::kF32;
};

// Who does a rank's part of the reductions, and when.
enum class ProgressPolicy {
  kAuto,    // by backend, cores and ranks
  kInline,  // the caller: what needs no wait in MarkReady, the rest in Finish; for busy cores
  kThread,  // a thread that sleeps while it waits; where a core is spare
  // Gradients in a device's memory, over NCCL alone: MarkReady puts the sums on the communicator's
  // stream, Finish waits for them. What kAuto is there; with kInline Finish puts them there too.
  kStream,
};

// Reducers that one thread of a rank uses at once (the two networks of a GAN, groups of a grid):
// while one waits, the others go on, so ranks may finish them in unlike orders once all that is to
// be reduced is marked. Between hosts that takes a backend whose begun calls do not block.
// Thread-compatible; outlives its reducers.
class ReducerTeam {
 public:
  ReducerTeam() = default;
  ReducerTeam(const ReducerTeam&) = delete;
  ReducerTeam& operator=(const ReducerTeam&) = delete;

 private:
  friend class TeamMember;
  struct ReducerInternals;
  std::vector<TeamMember*> members_;
};

struct ReducerOptions {
  // The same bits from every backend and placement of ranks: each element is the sum in ascending
  // order of all ranks. Else ranks of one host are summed before hosts are. Between hosts of R
  // ranks each it sends about (R + 1) / 2 times the bytes (collectives/ALGORITHMS.md).
  bool exact = false;
  // Sums are divided by the valid rows of all ranks (SetRows), so that ragged batches are right.
  bool average_by_rows = false;
  // Finds the steps whose sums are not finite (StepOutcome::skip), on all ranks the same ones.
  bool skip_non_finite = false;
  // Above 0: finds the factor that limits the norm of all gradients to this (StepOutcome).
  double clip_norm = 0;
  // Each rank gets the sums of its shards alone, updates what belongs to them, and GatherShards
  // gives all ranks the updates: optimizer state of a part of the weights per rank (ZeRO-1).
  bool shard = false;
  // So many calls of Finish make one step; their gradients are added up before ranks are.
  int micro_batches = 1;
  // What float32 sums are rounded to on their way between hosts (over NCCL: between ranks): kF32
  // (not at all), kF16 or kBF16. They are added in float32.
  DType wire = DType::kF32;

  // performance only: on two or more hosts a sum may round differently for other values
  // (collectives/ALGORITHMS.md)
  size_t bucket_bytes = 25 << 20;  // gradients of one type are fused up to this size
  // ... in the first bucket, so that reductions start early, and in the last, which is reduced when
  // backward is done.
  size_t edge_bucket_bytes = 1 << 20;
  // Of this rank alone; they may differ between ranks.
  ProgressPolicy policy = ProgressPolicy::kAuto;
  int compute_threads = 1;    // that are busy during backward; 0: a device computes
  bool shared_memory = true;  // where the host has more ranks than this one
  // Over NCCL a reducer of a team has a communicator and a stream of its own, so all ranks bring a
  // team or none.
  ReducerTeam* team = nullptr;
  // The number that messages give the reducer's first step: of a training that goes on from a
  // checkpoint it is not 0.
  int64_t first_step = 0;
  // Where to say what this rank does; outlives the reducer, which says it from a step's first
  // bucket to its end: that the next step's backward begins is for the caller to say. Its Health
  // ends the waits within a host; those between hosts need the communicator's watch as well
  // (WaitLimits), set before Make.
  Progress* progress = nullptr;
  // Set by this library and its tests alone; null: the defaults.
  std::shared_ptr<const ReducerInternals> internals;
};

// What all ranks know of a step that Finish has ended.
struct StepOutcome {
  bool complete = true;   // false: a micro-batch that is not the step's last; there are no sums yet
  bool skip = false;      // `skip_non_finite` is set and some sum is infinite or NaN: do not update
  double norm = 0;        // of all gradients together; with `clip_norm` or `skip_non_finite`
  float clip_factor = 1;  // to multiply each gradient by; 1 or less
  int64_t rows = 0;       // of all ranks; with `average_by_rows`
};

// Elements [begin, end) of a gradient.
struct GradientShard {
  size_t gradient = 0;
  size_t begin = 0;
  size_t end = 0;
};

// Sums gradients over ranks, fused in buckets. The gradients live inside bucket memory, so fusion
// copies nothing; ranks of one host share that memory. Over NCCL (MakeNccl) it is the device's, by
// NcclCommunicator::Allocate (which gives it back with the communicator), or the caller's, and sums
// are NCCL's but for those that are exact or go over a narrower wire (docs/nccl.md).
// Thread-compatible. From a step's first MarkReady to its Finish the rank's communicators may be in
// use by the reducer's thread; reducers that are at work at once on several hosts are a team.
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
  //                       asks for a thread (peers that do not get INVALID_ARGUMENT)
  //   other               over NCCL: as CUDA says, in a team as Split, and as the first sums, which
  //                       are made here, of zeros
  // All ranks return the first three together, and others where IsAgreed (collectives/agreed.h).
  static absl::StatusOr<std::unique_ptr<GradientReducer>> Make(Communicator& communicator,
                                                               std::vector<GradientSpec> gradients,
                                                               const ReducerOptions& options = {});
  // The same with gradients in memory of the caller's, which outlives the reducer: `memory` holds
  // one view for each of `gradients`, of its shape and type, at any address that suits the type,
  // none overlapping another. On one host the ranks sum through slots of shared memory (256 KiB,
  // two a rank), on several through buckets to which gradients are copied by MarkReady and from
  // which by Finish. The bits are those of gradients in buckets. All ranks bring memory, or none.
  //   INVALID_ARGUMENT    also a view that does not fit: it is named
  static absl::StatusOr<std::unique_ptr<GradientReducer>> Make(Communicator& communicator,
                                                               std::vector<GradientSpec> gradients,
                                                               std::vector<TensorView> memory,
                                                               const ReducerOptions& options = {});
  // Ends the waits of the other ranks that need this one, on all hosts (UNAVAILABLE with PeerLost,
  // as Finish), and what it has begun itself; waits for no peer. Over MPI a rank that leaves
  // between two steps is noticed within its host alone, over NCCL not at all (its communicator goes
  // on), and over MPI the buckets of one that leaves in the middle of a step stay mapped. Over NCCL
  // a team's reducer ends a communicator of its own between two steps, and waits up to 10 s for its
  // peers to do so.
  virtual ~GradientReducer() = default;

  // Ends this rank's part as the destructor does, and tells the others why: "rank 1 is lost in
  // bucket 0 of step 812 (backward): it has failed: DATA_LOSS: ..." (of a long text its first 400
  // bytes or so). What names a lost rank itself they get as it is. Every later call fails with
  // `why`. Does nothing where a reduction has failed before, which the others know, or where `why`
  // is OK.
  virtual void Leave(const absl::Status& why) = 0;

  // The memory of gradient `i`: written by backward, read (summed over ranks) by the optimizer
  // after Finish. 64-byte aligned, and lives as long as the reducer, where the caller brings none.
  // Between MarkReady and Finish it is the reducer's.
  virtual TensorView gradient(size_t i) = 0;
  // The valid rows of this rank's (micro-)batch; before the first MarkReady of each, with
  // `average_by_rows`.
  virtual void SetRows(int64_t rows) = 0;
  // Says that gradient `i` is filled for this step; a bucket whose gradients are all ready, as all
  // buckets before it, is offered to the peers. Any order; each gradient once per step. Within a
  // host it does not wait for peers, nor over NCCL, but in the first step of gradients that are
  // summed one by one in the caller's memory.
  //   UNAVAILABLE          as Finish, where a bucket is full and a watchdog has lost a peer (over
  //                        NCCL: in Finish), or a peer of this host has left (over NCCL, and with
  //                        gradients in the caller's memory: in Finish)
  //   INVALID_ARGUMENT     no gradient `i`
  //   FAILED_PRECONDITION  the gradient was marked before in this step, or SetRows was not called
  //   other                a reduction failed; every later call fails the same way
  virtual absl::Status MarkReady(size_t i) = 0;
  // Ends the step: waits until all sums are there.
  //   FAILED_PRECONDITION  a gradient was not marked (it is named); the step stays open. Peers wait
  //                        in its bucket: mark it, leave, or destroy the reducer
  //   UNAVAILABLE          a peer has left, or its reducer has failed; a peer has died, where the
  //                        backend or a watchdog notices. PeerLostOf (collectives/peer_lost.h)
  //                        says which rank it is, and where it was
  //   DEADLINE_EXCEEDED    a peer was awaited for longer than the communicator's timeout (Make's
  //                        time)
  virtual absl::Status Finish() = 0;
  // Of the last Finish.
  virtual const StepOutcome& outcome() const = 0;

  // What this rank updates: with `shard` its part, in ascending order, so that each element is in
  // one rank's list; else everything. Constant.
  virtual const std::vector<GradientShard>& shards() const = 0;
  // With `shard`, between Finish and the next step: this rank has written to its shards of
  // gradient(i) what all ranks shall have there, new weights say; on return gradient(i) has all
  // ranks'. Collective; waits. Without `shard` it does nothing.
  //   UNAVAILABLE, DEADLINE_EXCEEDED  as Finish; every later call fails the same way
  virtual absl::Status GatherShards() = 0;

  virtual size_t num_buckets() const = 0;
  // The bucket that gradient `i` lies in; buckets are numbered in the order in which they are
  // reduced.
  virtual size_t bucket_of(size_t i) const = 0;
  // What the steps so far have cost. The reducer's: valid as long as it is, changed by Finish and
  // GatherShards alone. Costs a step a few readings of the clock per bucket and wait.
  virtual const ReducerCounters& counters() const = 0;
  // "3 buckets: 1.0, 25.0, 12.4 MB; 2 ranks share memory, inline; plan 0x..." for the start-up
  // table.
  virtual std::string Summary() const = 0;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_GRADIENT_REDUCER_H_
