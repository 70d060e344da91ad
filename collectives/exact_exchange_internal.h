#ifndef MILLRACE_COLLECTIVES_EXACT_EXCHANGE_INTERNAL_H_
#define MILLRACE_COLLECTIVES_EXACT_EXCHANGE_INTERNAL_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "collectives/host_links_internal.h"
#include "collectives/push_kernels_internal.h"

namespace millrace::collectives {

// Sums a share over the ranks of several hosts in ascending rank order, whatever host they are on:
// no sum is made before all ranks' data of an element are in one place. Piece by piece, every
// host's lane gets its part of the piece from all ranks (AllToAll), sums it, and gives it to the
// others (AllGather). Thread-compatible.
class ExactExchange {
 public:
  // Waits for an operation of `cross`, which it keeps until that has ended; returns the outcome.
  using Await = std::function<absl::Status(std::unique_ptr<Pending>)>;

  // All three outlive this.
  ExactExchange(Communicator& cross, const HostGroups& groups, SharedHost& host);

  // Bytes [offset, offset + bytes) of the copies of all hosts. Blocks, in `await`.
  absl::Status Reduce(DType dtype, size_t offset, size_t bytes, float divisor, SquareLanes* squares,
                      const Await& await);

 private:
  absl::Status ReducePiece(DType dtype, size_t offset, size_t bytes, size_t part_bytes,
                           float divisor, const Await& await);
  absl::Status Run(Collective kind, const TensorView& in, const TensorView& out,
                   const Await& await);

  Communicator& cross_;
  const HostGroups& groups_;
  SharedHost& host_;
  const size_t num_hosts_;
  const size_t slots_;            // parts that each host sends to each: of its ranks, padded
  std::vector<std::byte> sent_;   // [host][slot][part]
  std::vector<std::byte> taken_;  // [host][slot][part]
  std::vector<std::byte> sums_;   // [host][part]
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_EXACT_EXCHANGE_INTERNAL_H_
