#include "capi/device/device_batch.h"

#include <string>

#include "base/status.h"
#include "capi/batch/tensor.h"
#include "capi/call/guard.h"

namespace capi = millrace::capi;

mr_error* mr_device_batch_info(const mr_device_batch* batch, mr_info* info) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_device_batch_info", {{"batch", batch != nullptr}, {"info", info != nullptr}}));
    return capi::GiveInfo(*batch->batch, info);
  });
}

mr_error* mr_device_batch_tensor(const mr_device_batch* batch, size_t index, mr_tensor* tensor) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_device_batch_tensor", {{"batch", batch != nullptr}, {"tensor", tensor != nullptr}}));
    return capi::GiveTensor(*batch->batch, index, tensor);
  });
}

mr_error* mr_device_batch_damaged(const mr_device_batch* batch, size_t index, int64_t* row,
                                  mr_sample_id* id, mr_error** error) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_device_batch_damaged", {{"batch", batch != nullptr}}));
    return capi::GiveDamaged(*batch->batch, index, row, id, error);
  });
}

const uint8_t* mr_device_batch_valid(const mr_device_batch* batch) {
  return batch == nullptr ? nullptr : batch->batch->valid().data();
}

const mr_sample_id* mr_device_batch_ids(const mr_device_batch* batch) {
  return batch == nullptr ? nullptr : capi::ShownIds(batch->batch->ids().data());
}

const char* mr_device_batch_token(const mr_device_batch* batch, size_t* size) {
  if (size != nullptr) *size = batch == nullptr ? 0 : batch->batch->resume_token().size();
  return batch == nullptr ? nullptr : batch->batch->resume_token().c_str();
}

mr_error* mr_device_batch_wait_on(const mr_device_batch* batch, void* stream) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_device_batch_wait_on", {{"batch", batch != nullptr}}));
    return batch->batch->WaitOn(stream);
  });
}

mr_error* mr_device_batch_record_use(const mr_device_batch* batch, void* stream) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_device_batch_record_use", {{"batch", batch != nullptr}}));
    return batch->batch->RecordUse(stream);
  });
}

mr_error* mr_device_batch_ready(const mr_device_batch* batch, int32_t* ready) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_device_batch_ready", {{"batch", batch != nullptr}, {"ready", ready != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(const bool has_arrived, batch->batch->Ready());
    *ready = has_arrived;
    return absl::OkStatus();
  });
}

mr_device_batch* mr_device_batch_retain(mr_device_batch* batch) {
  if (batch != nullptr) batch->holders.fetch_add(1, std::memory_order_relaxed);
  return batch;
}

void mr_device_batch_release(mr_device_batch* batch) {
  if (batch != nullptr && batch->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete batch;
}
