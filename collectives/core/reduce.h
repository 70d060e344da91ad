#ifndef MILLRACE_COLLECTIVES_CORE_REDUCE_H_
#define MILLRACE_COLLECTIVES_CORE_REDUCE_H_

#include <cstddef>
#include <string_view>

#include "base/dtype.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

// True for the element types that communicators take.
bool IsTaken(DType dtype);

// "sum", "product", "min", "max" or "average".
std::string_view Name(ReduceOp op);

// "AllReduce", "ReduceScatter", ...
std::string_view Name(Collective kind);

// A reduction of `dtype` runs in accumulators of this type: float32 for 16-bit floats, else itself.
DType AccumulatorType(DType dtype);

// The three steps of a reduction over blocks of `count` elements, in the order of the ranks:
// the accumulator becomes the first rank's block, each further one is reduced into it, and the
// result, rounded (16-bit floats) and divided by the number of ranks (averages), is stored. No two
// ranges overlap, but `accumulator` may be `in` of the first and `out` of the last step where the
// types are the same. Integers wrap. REQUIRES: IsTaken(dtype).
void BeginReduction(DType dtype, void* accumulator, const void* in, size_t count);
void Accumulate(DType dtype, ReduceOp op, void* accumulator, const void* in, size_t count);
void EndReduction(DType dtype, ReduceOp op, int num_ranks, const void* accumulator, void* out,
                  size_t count);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_CORE_REDUCE_H_
