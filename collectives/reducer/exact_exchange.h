#ifndef MILLRACE_COLLECTIVES_REDUCER_EXACT_EXCHANGE_H_
#define MILLRACE_COLLECTIVES_REDUCER_EXACT_EXCHANGE_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/core/sum_kernels.h"
#include "collectives/reducer/host_links.h"

namespace millrace::collectives {

// Sums a share over the ranks of several hosts in ascending rank order, independently of their
// hosts: no sum is made before all ranks' data of an element are in one place. Piece by piece,
// every host's stripe gets its part of the piece from all ranks (AllToAll), sums it, and gives it
// to the others (AllGather). Thread-compatible.
class ExactExchange {
 public:
  // All three outlive this.
  ExactExchange(Communicator& cross, const HostGroups& groups, SharedHost& host);

  // Takes up bytes [offset, offset + bytes) of the copies of all hosts. REQUIRES: those before are
  // summed, or given up.
  void Begin(DType dtype, size_t offset, size_t bytes);
  // Begins the next operation between hosts, after whose good end this is called again. Null: all
  // copies have the sums, divided by `divisor` (which may change until the first operation has
  // ended); their squares are added to `squares` unless that is null.
  std::unique_ptr<Pending> Next(float divisor, SquareSums* squares);

 private:
  // The next thing that Next does with the piece.
  enum class Stage { kScatter, kSum, kStore };

  size_t piece_bytes() const { return std::min(part_bytes_ * num_hosts_, left_); }
  std::unique_ptr<Pending> Scatter();
  std::unique_ptr<Pending> Sum(float divisor);
  void Store(SquareSums* squares);
  std::unique_ptr<Pending> Start(Collective kind, const TensorView& in, const TensorView& out);

  Communicator& cross_;
  const HostGroups& groups_;
  SharedHost& host_;
  const size_t num_hosts_;
  const size_t slots_;            // parts that each host sends to each: of its ranks, padded
  std::vector<std::byte> sent_;   // [host][slot][part]
  std::vector<std::byte> taken_;  // [host][slot][part]
  std::vector<std::byte> sums_;   // [host][part]

  // The share that is on its way.
  DType dtype_ = DType::kF32;
  size_t part_bytes_ = 0;
  size_t offset_ = 0;  // the offset of the piece
  size_t left_ = 0;    // the bytes from there on
  Stage stage_ = Stage::kScatter;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_EXACT_EXCHANGE_H_
