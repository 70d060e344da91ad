#ifndef MILLRACE_COLLECTIVES_CORE_CHECKS_H_
#define MILLRACE_COLLECTIVES_CORE_CHECKS_H_

#include "absl/status/status.h"
#include "base/tensor.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

// Checks `request` on rank `rank` of `size`, with the same words in every backend. OK or
// INVALID_ARGUMENT.
absl::Status CheckRequest(const Request& request, int rank, int size);

// A colour is not negative.
absl::Status CheckColor(int color);

// Block `rank` of `size` equal blocks of `data`; no memory and nothing in it where `data` does not
// make equal blocks.
TensorView OwnBlock(const TensorView& data, int rank, int size);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_CORE_CHECKS_H_
