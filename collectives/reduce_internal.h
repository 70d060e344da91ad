#ifndef MILLRACE_COLLECTIVES_REDUCE_INTERNAL_H_
#define MILLRACE_COLLECTIVES_REDUCE_INTERNAL_H_

#include <cstddef>
#include <string_view>

#include "base/dtype.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

// True for the element types that communicators take.
bool IsTaken(DType dtype);

// "sum", "min" or "max".
std::string_view Name(ReduceOp op);

// Reduces `count` elements of `in` into `accumulator`: a = a op in. Integers wrap. The ranges do
// not overlap. REQUIRES: IsTaken(dtype).
void Accumulate(DType dtype, ReduceOp op, void* accumulator, const void* in, size_t count);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCE_INTERNAL_H_
