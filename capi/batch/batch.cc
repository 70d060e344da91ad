#include "capi/batch/batch.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "capi/batch/tensor.h"
#include "capi/call/guard.h"

namespace capi = millrace::capi;

mr_error* mr_batch_info(const mr_batch* batch, mr_info* info) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_batch_info", {{"batch", batch != nullptr}, {"info", info != nullptr}}));
    return capi::GiveInfo(batch->batch, info);
  });
}

mr_error* mr_batch_tensor(const mr_batch* batch, size_t index, mr_tensor* tensor) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_batch_tensor", {{"batch", batch != nullptr}, {"tensor", tensor != nullptr}}));
    return capi::GiveTensor(batch->batch, index, tensor);
  });
}

mr_error* mr_batch_row_shape(const mr_batch* batch, size_t index, int64_t row, int64_t* shape,
                             int32_t* rank) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_batch_row_shape",
        {{"batch", batch != nullptr}, {"shape", shape != nullptr}, {"rank", rank != nullptr}}));
    MILLRACE_RETURN_IF_ERROR(capi::TensorOf(batch->batch, index).status());
    if (row < 0 || row >= batch->batch.num_rows()) {
      return absl::OutOfRangeError(
          absl::StrCat("there is no row ", row, ": the batch has ", batch->batch.num_rows()));
    }
    const millrace::Shape of_row = batch->batch.row_shape(index, row);
    *rank = of_row.rank();
    std::ranges::copy(of_row.extents(), shape);
    return absl::OkStatus();
  });
}

mr_error* mr_batch_damaged(const mr_batch* batch, size_t index, int64_t* row, mr_sample_id* id,
                           mr_error** error) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_batch_damaged", {{"batch", batch != nullptr}}));
    return capi::GiveDamaged(batch->batch, index, row, id, error);
  });
}

const uint8_t* mr_batch_valid(const mr_batch* batch) {
  return batch == nullptr ? nullptr : batch->batch.valid().data();
}

const mr_sample_id* mr_batch_ids(const mr_batch* batch) {
  if (batch == nullptr) return nullptr;
  return capi::ShownIds(batch->batch.ids().data());
}

const char* mr_batch_token(const mr_batch* batch, size_t* size) {
  if (size != nullptr) *size = batch == nullptr ? 0 : batch->batch.resume_token().size();
  return batch == nullptr ? nullptr : batch->batch.resume_token().c_str();
}

mr_batch* mr_batch_retain(mr_batch* batch) {
  if (batch != nullptr) batch->holders.fetch_add(1, std::memory_order_relaxed);
  return batch;
}

void mr_batch_release(mr_batch* batch) {
  if (batch != nullptr && batch->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete batch;
}
