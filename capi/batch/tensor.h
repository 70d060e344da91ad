#ifndef MILLRACE_CAPI_BATCH_TENSOR_H_
#define MILLRACE_CAPI_BATCH_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/run.h"
#include "capi/call/error.h"
#include "capi/call/sized.h"
#include "capi/millrace.h"

// The view that C has of a pipeline::Batch or a pipeline::DeviceBatch.

namespace millrace::capi {

// Returns tensor number `index`.
//   OUT_OF_RANGE  there are fewer
template <typename AnyBatch>
auto TensorOf(const AnyBatch& batch, size_t index)
    -> absl::StatusOr<std::decay_t<decltype(batch.tensor(index))>> {
  if (index < batch.names().size()) return batch.tensor(index);
  return absl::OutOfRangeError(
      absl::StrCat("there is no tensor ", index, ": the batch has ", batch.names().size()));
}

// Returns a view of a tensor as a struct of C that borrows its name and data.
template <typename View>
mr_tensor ShownTensor(const char* name, const View& view) {
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

// Writes tensor number `index`.
//   the errors of TensorOf and Give
template <typename AnyBatch>
absl::Status GiveTensor(const AnyBatch& batch, size_t index, mr_tensor* tensor) {
  const auto view = TensorOf(batch, index);
  if (!view.ok()) return view.status();
  return Give(ShownTensor(batch.names()[index].c_str(), *view), tensor, "mr_tensor");
}

// Writes the numbers of a batch.
//   the error of Give
template <typename AnyBatch>
absl::Status GiveInfo(const AnyBatch& batch, mr_info* info) {
  mr_info filled = {};
  filled.index = batch.index();
  filled.epoch = batch.epoch();
  filled.rows = batch.num_rows();
  filled.valid_rows = batch.num_valid_rows();
  filled.global_valid_rows = batch.num_global_valid_rows();
  filled.first_global_row = batch.first_global_row();
  filled.ends_epoch = batch.ends_epoch();
  filled.num_tensors = static_cast<int32_t>(batch.names().size());
  filled.num_damaged = static_cast<int64_t>(batch.damaged().size());
  return Give(filled, info, "mr_info");
}

// Writes damaged sample number `index` where there is something to write it to.
//   OUT_OF_RANGE  there are fewer
template <typename AnyBatch>
absl::Status GiveDamaged(const AnyBatch& batch, size_t index, int64_t* row, mr_sample_id* id,
                         mr_error** error) {
  const auto damaged = batch.damaged();
  if (index >= damaged.size()) {
    return absl::OutOfRangeError(
        absl::StrCat("there is no damaged sample ", index, ": the batch has ", damaged.size()));
  }
  const auto& sample = damaged[index];
  if (row != nullptr) *row = sample.row;
  if (id != nullptr) *id = {sample.id.epoch, sample.id.record, sample.id.sub_index};
  if (error != nullptr) *error = MakeError(sample.error);
  return absl::OkStatus();
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
