#ifndef MILLRACE_CAPI_BATCH_TENSOR_H_
#define MILLRACE_CAPI_BATCH_TENSOR_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/tensor.h"
#include "pipeline/batch.h"

namespace millrace::capi {

// Returns tensor number `index`.
//   OUT_OF_RANGE  there are fewer
inline absl::StatusOr<ConstTensorView> TensorOf(const pipeline::Batch& batch, size_t index) {
  if (index < batch.names().size()) return batch.tensor(index);
  return absl::OutOfRangeError(
      absl::StrCat("there is no tensor ", index, ": the batch has ", batch.names().size()));
}

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_BATCH_TENSOR_H_
