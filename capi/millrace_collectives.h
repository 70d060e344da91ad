#ifndef MILLRACE_CAPI_MILLRACE_COLLECTIVES_H_
#define MILLRACE_CAPI_MILLRACE_COLLECTIVES_H_

#include <stddef.h>
#include <stdint.h>

#include "millrace.h"

// Ranks that compute together, and the sums of their gradients, for C: a part of libmillrace.so.1,
// by the rules of millrace.h.
//
//   mr_comm_connect -> mr_reducer_create
//   each step: write mr_reducer_gradient(i) -> mr_reducer_mark_ready(i) ... -> mr_reducer_finish
//
// Every rank makes the same collective calls in the same order. Memory is the host's.
//
// A group and its reducers are used by one thread at a time, but for mr_comm_cancel. Calls in a
// forked child are MR_FAILED_PRECONDITION, and the free calls there leave the parent's alone.
//
// Errors of every call that waits for other ranks:
//   MR_UNAVAILABLE        a rank is gone: mr_error_peer has its rank, step, bucket and phase
//   MR_CANCELLED          a rank has called mr_comm_abort, or this one mr_comm_cancel
//   MR_DEADLINE_EXCEEDED  the time limit of the group has passed
//   MR_INVALID_ARGUMENT   the ranks' calls do not match
// After the first three the group, or the reducer, is of no use any more.

#ifdef __cplusplus
extern "C" {
#endif

// ---- Groups of ranks ----

typedef struct mr_comm mr_comm;

typedef struct mr_comm_options {
  size_t struct_size;
  const char* backend;     // "single", "tcp" or "mpi"; NULL: chosen by the launcher
  const char* rendezvous;  // "HOST:PORT" or "file:FOLDER"; NULL: the launcher's
  const char* job_id;      // a name that no other run has there; NULL: the launcher's
  int32_t rank;            // with `world`
  // The number of ranks; 0: rank and number are the launcher's. With a rendezvous, it may differ
  // from the launcher's: for a group of some of the job's ranks.
  int32_t world;
  int64_t connect_timeout_ns;  // how long ranks wait for each other at the start; 0: 5 minutes
  int64_t timeout_ns;          // the limit of each later wait; 0: none
  // A watchdog, a thread of each rank, notices ranks whose process has ended within a turn (0.1 s),
  // and those that stall. True if there is none: then a loss is noticed where a connection breaks,
  // and in a step of ranks that share memory not at all.
  int32_t no_watchdog;
  int32_t reserved;         // 0
  int64_t stall_report_ns;  // the time after which a rank that stalls is reported; 0: 3 s
  // The time after which a rank that is awaited, or whose process does not run, counts as lost; 0:
  // 30 minutes; below 0: never.
  int64_t stall_abort_ns;
  // Called at least every 50 ms, and often more often, by each thread that waits for other ranks.
  // An error ends the wait and is its error. It must not call the group. May be NULL.
  mr_error* (*watch)(void* user);
  // Takes a sentence about a rank that stalls, on one of the ranks. The watchdog's thread calls it;
  // it must not call the group but for mr_comm_cancel. May be NULL.
  mr_sink stalled;
  void* user;  // of both; they are not called any more once the group has ended
} mr_comm_options;

// Learns the rank of this process, and connects it to the other ranks. The backend is "single" for
// one rank; "mpi" if MPI's launcher started the ranks, this library has MPI, and no rendezvous is
// given; else "tcp". `reason` gets why; it may be NULL, as may `options`. MPI, where it is used, is
// finalised by the thread that ends the last group.
//   MR_INVALID_ARGUMENT     no such backend; a rank or a rendezvous that is none
//   MR_FAILED_PRECONDITION  launchers contradict each other; ranks do not know where to meet, or
//                           disagree on the job; this library has no MPI
//   MR_ALREADY_EXISTS       the address is taken, or another process is this rank
//   MR_DEADLINE_EXCEEDED    ranks did not come; the message names them
MR_API mr_error* mr_comm_connect(const mr_comm_options* options, mr_comm** comm, mr_sink reason,
                                 void* user);
// Makes the groups of `size` ranks that are threads of this process: comms[i] is that of rank i,
// for the thread that uses it. They have no watchdog. `timeout_ns` is the limit of each wait; 0:
// none.
//   MR_INVALID_ARGUMENT  size < 1
MR_API mr_error* mr_comm_threads(int32_t size, int64_t timeout_ns, mr_comm** comms);

// The place of a rank in its group.
typedef struct mr_comm_place {
  size_t struct_size;
  int32_t rank;
  int32_t size;        // the number of ranks
  int32_t local_rank;  // the number among the ranks of this host
  int32_t local_size;
  const char* backend;  // "single", "threads", "tcp" or "mpi"; lives as long as the group
} mr_comm_place;
MR_API mr_error* mr_comm_get_place(const mr_comm* comm, mr_comm_place* place);
// The numbers alone; -1 for NULL.
MR_API int32_t mr_comm_rank(const mr_comm* comm);
MR_API int32_t mr_comm_size(const mr_comm* comm);

enum mr_reduction {
  MR_SUM = 0,
  MR_PRODUCT = 1,
  MR_MIN = 2,
  MR_MAX = 3,
  MR_AVERAGE = 4  // the sum divided by the number of ranks; of floating-point types only
};

// Turns `count` elements at `data` on every rank into their reduction over all ranks: the same bits
// on all, and over every backend, for elements are taken in the order of the ranks. `dtype` is an
// mr_dtype but MR_BYTES, `reduction` an mr_reduction. 16-bit floats are summed as float32, and
// rounded once.
MR_API mr_error* mr_comm_allreduce(mr_comm* comm, void* data, int32_t dtype, uint64_t count,
                                   int32_t reduction);
// Gives the elements of rank `root` to all ranks.
MR_API mr_error* mr_comm_broadcast(mr_comm* comm, void* data, int32_t dtype, uint64_t count,
                                   int32_t root);
// Waits until all ranks have called it.
MR_API mr_error* mr_comm_barrier(mr_comm* comm);

// Ends every present and later call of every rank: MR_CANCELLED, with the message. For a rank that
// fails by itself, so that no other waits for it. Over MPI it ends the processes of the job.
MR_API mr_error* mr_comm_abort(mr_comm* comm, const char* message);
// Takes this rank out of the group: calls of the others that need it are MR_UNAVAILABLE, with the
// message and this rank. Does not wait. Calls that it has ended before still end well on the
// others.
MR_API mr_error* mr_comm_leave(mr_comm* comm, const char* message);
// Makes the wait under way, and every later one, MR_CANCELLED within 50 ms, on this rank; the other
// ranks learn of it. Any thread may call it while the group is not freed.
MR_API void mr_comm_cancel(mr_comm* comm);
// Gives the handle back. The group ends with the last of its reducers; a rank that is in the middle
// of a call then gets MR_UNAVAILABLE.
MR_API void mr_comm_free(mr_comm* comm);

// ---- Sums of gradients ----

typedef struct mr_reducer mr_reducer;

// A gradient. Not a struct with a size: it never changes.
typedef struct mr_gradient {
  const char* name;      // for messages
  const int64_t* shape;  // the extents
  int32_t rank;          // the number of extents, at most 6
  int32_t dtype;         // MR_FLOAT32, MR_FLOAT16 or MR_BFLOAT16
  // Memory of the caller's, which outlives the reducer; NULL, for all gradients or for none but
  // those without elements: the reducer's own, so that ranks of one host sum without a copy.
  void* memory;
} mr_gradient;

// The thread that sums, and when.
enum mr_progress_policy {
  MR_PROGRESS_AUTO = 0,    // chosen by cores and ranks
  MR_PROGRESS_INLINE = 1,  // the caller's, in mr_reducer_mark_ready and mr_reducer_finish
  MR_PROGRESS_THREAD = 2   // one of the reducer's own, for a spare core
};

typedef struct mr_reducer_options {
  size_t struct_size;
  int32_t exact;            // true if the bits are the same for every placement of ranks on hosts
  int32_t average_by_rows;  // true if sums are divided by the rows of all ranks
  int32_t skip_non_finite;  // true if steps whose sums are not finite are found (mr_step_outcome)
  int32_t shard;            // true if each rank gets only the sums of its part (mr_reducer_shards)
  double clip_norm;         // the limit of the norm of all gradients; 0: none
  int32_t micro_batches;    // the calls of mr_reducer_finish that make one step; 0: 1
  // The type to which float32 sums are rounded between hosts: MR_FLOAT16 or MR_BFLOAT16; 0: they
  // are not rounded.
  int32_t wire;
  // For speed; on several hosts sums may round differently for other values.
  uint64_t bucket_bytes;       // the size up to which gradients are fused; 0: 25 MiB
  uint64_t edge_bucket_bytes;  // the same of the first and of the last bucket; 0: 1 MiB
  // The fields from here on may differ between ranks.
  int32_t policy;            // an mr_progress_policy
  int32_t compute_threads;   // the threads that are busy in backward; 0: 1; below 0: none
  int32_t no_shared_memory;  // true if this rank shares no memory with those of its host
  int32_t reserved;          // 0
  int64_t first_step;        // the number of the first step, for messages
} mr_reducer_options;

// Plans buckets for `num_gradients` gradients, in the order in which backward makes them, and
// compares the plan with the other ranks'. Collective. All that `gradients` points at but the
// memory is copied. `options` may be NULL. The reducer keeps its group.
//   MR_INVALID_ARGUMENT  a gradient or an option is wrong on some rank, or the ranks' plans differ:
//                        every rank names the first difference
MR_API mr_error* mr_reducer_create(mr_comm* comm, const mr_gradient* gradients,
                                   size_t num_gradients, const mr_reducer_options* options,
                                   mr_reducer** reducer);

// Writes where gradient number `index` lies. Its memory is aligned to 64 bytes unless it is the
// caller's, and lives as long as the reducer. Between mr_reducer_mark_ready and mr_reducer_finish
// it belongs to the reducer.
//   MR_OUT_OF_RANGE  there are fewer
MR_API mr_error* mr_reducer_gradient(const mr_reducer* reducer, size_t index, mr_tensor* tensor);

// Sets the rows of this rank's (micro-)batch, before the first mr_reducer_mark_ready of it.
MR_API mr_error* mr_reducer_set_rows(mr_reducer* reducer, int64_t rows);
// Says that gradient number `index` is filled for this step; any order. Full buckets are offered to
// the other ranks. Does not wait for ranks of this host.
//   MR_OUT_OF_RANGE         there are fewer
//   MR_FAILED_PRECONDITION  it was marked before in this step; the rows were not set
MR_API mr_error* mr_reducer_mark_ready(mr_reducer* reducer, size_t index);
// Waits until all gradients hold the sums over all ranks.
//   MR_FAILED_PRECONDITION  a gradient was not marked (the message names it); the step stays open
MR_API mr_error* mr_reducer_finish(mr_reducer* reducer);

// The outcome of the last mr_reducer_finish, the same on all ranks.
typedef struct mr_step_outcome {
  size_t struct_size;
  int32_t complete;  // false behind a micro-batch that is not the last: no sums yet
  int32_t skip;      // true with `skip_non_finite` if some sum is infinite or NaN
  double norm;       // of all gradients together, with `clip_norm` or `skip_non_finite`; else 0
  // The factor that keeps `clip_norm`, 1 or less. The reducer does not apply it.
  double clip_factor;
  int64_t rows;  // the rows of all ranks, with `average_by_rows`; else 0
} mr_step_outcome;
MR_API mr_error* mr_reducer_outcome(const mr_reducer* reducer, mr_step_outcome* outcome);

// Elements [begin, end) of a gradient. Not a struct with a size: it never changes.
typedef struct mr_shard {
  size_t gradient;
  size_t begin;
  size_t end;
} mr_shard;
// Returns the elements that this rank updates, and writes their number: with `shard` its own part,
// so that each element is in one rank's list, else all. They live as long as the reducer. NULL for
// NULL.
MR_API const mr_shard* mr_reducer_shards(const mr_reducer* reducer, size_t* count);
// With `shard`, between two steps: gives the contents of this rank's shards of the gradients'
// memory, new weights for example, to all ranks, and takes theirs. Collective.
MR_API mr_error* mr_reducer_gather_shards(mr_reducer* reducer);

// The cost of the steps so far on this rank, in seconds.
typedef struct mr_reducer_counters {
  size_t struct_size;
  int64_t steps;
  int64_t num_buckets;
  int64_t bytes;               // of all gradients of all steps
  double seconds;              // from buckets filled on all ranks of the host to their sums
  double exposed_seconds;      // the part that a step without sums would not have taken
  double gather_seconds;       // in mr_reducer_gather_shards; part of both above
  double last_finish_seconds;  // of the last mr_reducer_finish
  int32_t last_awaited;        // the rank that the last one waited for longest; -1: none
  int32_t reserved;            // 0
} mr_reducer_counters;
MR_API mr_error* mr_reducer_get_counters(const mr_reducer* reducer, mr_reducer_counters* counters);
// Writes the bucket that gradient number `index` lies in; buckets are numbered in the order in
// which they are summed.
//   MR_OUT_OF_RANGE  there are fewer gradients
MR_API mr_error* mr_reducer_bucket_of(const mr_reducer* reducer, size_t index, size_t* bucket);
// Writes a line about buckets, ranks and threads, for people to read.
MR_API mr_error* mr_reducer_summary(const mr_reducer* reducer, mr_sink sink, void* user);

// Ends this rank's part, and tells the others why: they get MR_UNAVAILABLE where they need this
// rank. Every later call is this error. For a rank that fails by itself in the middle of a step.
//   MR_INVALID_ARGUMENT  the code is none of an error
MR_API mr_error* mr_reducer_leave(mr_reducer* reducer, int32_t code, const char* message);
// Ends this rank's part, and gives the reducer back; waits for no rank. In the middle of a step the
// others get MR_UNAVAILABLE.
MR_API void mr_reducer_free(mr_reducer* reducer);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // MILLRACE_CAPI_MILLRACE_COLLECTIVES_H_
