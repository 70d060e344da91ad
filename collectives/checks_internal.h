#ifndef MILLRACE_COLLECTIVES_CHECKS_INTERNAL_H_
#define MILLRACE_COLLECTIVES_CHECKS_INTERNAL_H_

#include "absl/status/status.h"
#include "base/tensor.h"

namespace millrace::collectives {

// The argument checks that every backend makes, so that all refuse the same calls with the same
// words. Each returns OK or INVALID_ARGUMENT.

// A known shape, memory unless empty, an element type that communicators take.
absl::Status CheckView(const ConstTensorView& view);
// CheckView, and `size` equal blocks.
absl::Status CheckBlocks(const ConstTensorView& data, int size);
// CheckView of both, the same element type, and `out` holds `size` blocks of in's size.
absl::Status CheckGather(const ConstTensorView& in, const ConstTensorView& out, int size);
// CheckView, and `root` is a rank.
absl::Status CheckRooted(const ConstTensorView& data, int root, int size);
// CheckView, and `peer` is a rank other than `rank`.
absl::Status CheckPeer(const ConstTensorView& data, int peer, int rank, int size);
// A colour is not negative.
absl::Status CheckColor(int color);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_CHECKS_INTERNAL_H_
