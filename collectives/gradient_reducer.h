#ifndef MILLRACE_COLLECTIVES_GRADIENT_REDUCER_H_
#define MILLRACE_COLLECTIVES_GRADIENT_REDUCER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/shape.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

// One gradient: float32.
struct GradientSpec {
  std::string name;
  Shape shape;
};

struct ReducerOptions {
  // performance only: on two or more ranks a sum may round differently for other values
  // (collectives/ALGORITHMS.md)
  size_t bucket_bytes = 25 << 20;       // gradients are fused up to this size
  size_t first_bucket_bytes = 1 << 20;  // small, so that the first reduction can start early
};

// Sums gradients over ranks, fused in buckets. The gradients live inside bucket memory, so fusion
// copies nothing. Thread-compatible.
class GradientReducer {
 public:
  // Plans the buckets once from `gradients` in the order in which backward makes them, and compares
  // the plan's hash across ranks. Collective.
  // `communicator` must outlive the reducer.
  //   INVALID_ARGUMENT    the ranks' plans differ: every rank names the lowest rank that differs
  //                       from rank 0 and the first differing tensor or option; or a shape, name
  //                       or option is bad on some rank
  //   RESOURCE_EXHAUSTED  no memory for the buckets (peers get INVALID_ARGUMENT)
  // All ranks return these two together (IsAgreed, collectives/agreed.h).
  static absl::StatusOr<std::unique_ptr<GradientReducer>> Make(Communicator& communicator,
                                                               std::vector<GradientSpec> gradients,
                                                               const ReducerOptions& options = {});
  virtual ~GradientReducer() = default;

  // The memory of gradient `i`: written by backward, read (summed over ranks) by the optimizer
  // after Finish. 64-byte aligned; lives as long as the reducer.
  virtual std::span<float> gradient(size_t i) = 0;
  // Says that gradient `i` is filled for this step; a bucket whose gradients are all ready, as all
  // buckets before it, is reduced (blocking). Any order; each gradient once per step.
  //   INVALID_ARGUMENT     no gradient `i`
  //   FAILED_PRECONDITION  the gradient was marked before in this step
  //   other                a reduction failed; every later call fails the same way
  virtual absl::Status MarkReady(size_t i) = 0;
  // Ends the step.
  //   FAILED_PRECONDITION  a gradient was not marked (it is named); the step stays open. Peers wait
  //                        in its bucket: mark it, or abort the communicator
  virtual absl::Status Finish() = 0;

  virtual size_t num_buckets() const = 0;
  // "3 buckets: 1.0, 25.0, 12.4 MB; plan 0x..." for the start-up table.
  virtual std::string Summary() const = 0;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_GRADIENT_REDUCER_H_
