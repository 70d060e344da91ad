#include <cstdint>
#include <memory>

#include "base/status.h"
#include "capi/batch/dl_tensor.h"
#include "capi/batch/tensor.h"
#include "capi/call/guard.h"
#include "capi/device/device_batch.h"

namespace millrace::capi {
namespace {

// The handles of two streams that every context of CUDA has.
void* const kLegacyStream = reinterpret_cast<void*>(uintptr_t{1});
void* const kPerThreadStream = reinterpret_cast<void*>(uintptr_t{2});

// Ends the use of a batch by the work that was issued on a stream. Where that cannot be recorded,
// it is waited for.
struct EndUse {
  void* stream = MR_NO_STREAM;

  void operator()(mr_device_batch* batch) const {
    if (stream != MR_NO_STREAM) mr_error_free(Guard([&] { return End(*batch->batch); }));
    mr_device_batch_release(batch);
  }

 private:
  absl::Status End(const pipeline::DeviceBatch& batch) const {
    if (batch.RecordUse(stream).ok()) return absl::OkStatus();
    return batch.Synchronize(stream);
  }
};
using DeviceHolder = std::unique_ptr<mr_device_batch, EndUse>;

// Returns a stream whose recorded use covers that of `stream`, in any thread. Work of the legacy
// stream comes behind that of each thread's own stream.
void* StreamOfUse(void* stream) { return stream == kPerThreadStream ? kLegacyStream : stream; }

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;

mr_error* mr_device_batch_dlpack(const mr_device_batch* batch, size_t index, void* stream,
                                 DLManagedTensorVersioned** tensor) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_device_batch_dlpack", {{"batch", batch != nullptr}, {"tensor", tensor != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(const millrace::pipeline::DeviceTensorView view,
                              capi::TensorOf(*batch->batch, index));
    MILLRACE_ASSIGN_OR_RETURN(auto held,
                              capi::Hold<capi::DeviceHolder>(view.data, view.dtype, view.shape,
                                                             {kDLCUDA, batch->device}));
    if (stream != MR_NO_STREAM) MILLRACE_RETURN_IF_ERROR(batch->batch->WaitOn(stream));
    // Its count alone is changed.
    held->holder = {mr_device_batch_retain(const_cast<mr_device_batch*>(batch)),
                    {capi::StreamOfUse(stream)}};
    *tensor = &held.release()->managed;
    return absl::OkStatus();
  });
}
