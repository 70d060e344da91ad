#ifndef MILLRACE_COLLECTIVES_CORE_ORDERED_REDUCTION_H_
#define MILLRACE_COLLECTIVES_CORE_ORDERED_REDUCTION_H_

#include <cstddef>
#include <span>
#include <utility>

#include "base/dtype.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

// Reduces `count` elements of all `inputs`, one per rank, in their order, and stores the result
// into every one of `outputs`; block by block, so that blocks stay in the first caches. An output
// may be an input. REQUIRES: IsTaken(dtype), one input or more.
void ReduceInOrder(DType dtype, ReduceOp op, std::span<const std::byte* const> inputs, size_t count,
                   std::span<std::byte* const> outputs);

// Share `rank` of `size` of `bytes`, as [begin, end), cut at multiples of 64 bytes.
std::pair<size_t, size_t> ShareOf(size_t bytes, int rank, int size);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_CORE_ORDERED_REDUCTION_H_
