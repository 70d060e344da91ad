#ifndef MILLRACE_CAPI_BATCH_TENSOR_H_
#define MILLRACE_CAPI_BATCH_TENSOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/run.h"
#include "base/tensor.h"
#include "capi/millrace.h"
#include "pipeline/batch.h"

namespace millrace::capi {

// Returns tensor number `index`.
//   OUT_OF_RANGE  there are fewer
inline absl::StatusOr<ConstTensorView> TensorOf(const pipeline::Batch& batch, size_t index) {
  if (index < batch.names().size()) return batch.tensor(index);
  return absl::OutOfRangeError(
      absl::StrCat("there is no tensor ", index, ": the batch has ", batch.names().size()));
}

// Returns a tensor as a struct of C that borrows its name and data.
inline mr_tensor ShownTensor(const char* name, const ConstTensorView& view) {
  mr_tensor shown = {};
  shown.struct_size = sizeof shown;
  shown.name = name;
  shown.data = const_cast<void*>(view.data);
  shown.bytes = view.size_bytes();
  shown.dtype = static_cast<int32_t>(view.dtype);
  shown.rank = view.shape.rank();
  for (int i = 0; i < view.shape.rank(); ++i) shown.shape[i] = view.shape[i];
  return shown;
}

// Ids are handed out where they lie.
static_assert(sizeof(mr_sample_id) == sizeof(SampleId));
static_assert(offsetof(mr_sample_id, epoch) == offsetof(SampleId, epoch));
static_assert(offsetof(mr_sample_id, record) == offsetof(SampleId, record));
static_assert(offsetof(mr_sample_id, sub_index) == offsetof(SampleId, sub_index));
inline const mr_sample_id* ShownIds(const SampleId* ids) {
  return reinterpret_cast<const mr_sample_id*>(ids);
}

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_BATCH_TENSOR_H_
