#ifndef MILLRACE_COLLECTIVES_COMMUNICATOR_H_
#define MILLRACE_COLLECTIVES_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/tensor.h"

namespace millrace::collectives {

enum class ReduceOp { kSum, kMin, kMax };

// A group of ranks that call the same operations in the same order. All calls block.
// Thread-compatible: one thread at a time per rank. Element types: float32, float64, int32, int64,
// uint8. Memory is the caller's. Outcomes of every operation:
//   OK                the data is there on this rank
//   INVALID_ARGUMENT  dtype or size not taken, or (threads backend) the ranks' calls do not match
//   UNAVAILABLE       a peer is gone
//   CANCELLED         Abort was called on some rank
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_rank() const = 0;  // among the ranks of this host
  virtual int local_size() const = 0;
  virtual std::string_view backend() const = 0;  // "threads", "mpi", "single"

  // Every rank's `data` becomes the reduction over all ranks, the same bits on every rank.
  virtual absl::Status AllReduce(TensorView data, ReduceOp op) = 0;
  // `data` holds size() equal blocks; block rank() becomes the reduction over all ranks, other
  // blocks are undefined after.
  virtual absl::Status ReduceScatter(TensorView data, ReduceOp op) = 0;
  // `out` holds size() blocks of in's size; block r becomes rank r's `in`. `in` may be the own
  // block of `out` (gather in place), else they do not overlap.
  virtual absl::Status AllGather(ConstTensorView in, TensorView out) = 0;
  virtual absl::Status Broadcast(TensorView data, int root) = 0;
  virtual absl::Status Barrier() = 0;
  // Point to point between two different ranks; matched by order per pair. Send may wait for the
  // matching Recv. Unequal sizes are INVALID_ARGUMENT on the receiver (threads: on both).
  virtual absl::Status Send(ConstTensorView data, int peer) = 0;
  virtual absl::Status Recv(TensorView data, int peer) = 0;
  // Ranks with the same `color` (>= 0) form a new group, ordered by (key, rank). Collective.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) = 0;

  // Ends every present and later operation of every rank of the group as far as the backend can;
  // the MPI backend ends the whole job. Call it when a rank fails by itself, so that no peer waits
  // for ever.
  virtual void Abort(const absl::Status& reason) = 0;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_COMMUNICATOR_H_
