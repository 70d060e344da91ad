#include "capi/dlpack.h"

#include <memory>

#include "base/status.h"
#include "capi/batch/batch.h"
#include "capi/batch/dl_tensor.h"
#include "capi/batch/tensor.h"
#include "capi/call/guard.h"

namespace millrace::capi {
namespace {

struct Release {
  void operator()(mr_batch* batch) const { mr_batch_release(batch); }
};
using BatchHolder = std::unique_ptr<mr_batch, Release>;

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;

mr_error* mr_batch_dlpack(const mr_batch* batch, size_t index, DLManagedTensorVersioned** tensor) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_batch_dlpack", {{"batch", batch != nullptr}, {"tensor", tensor != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(const millrace::ConstTensorView view,
                              capi::TensorOf(batch->batch, index));
    MILLRACE_ASSIGN_OR_RETURN(
        auto held, capi::Hold<capi::BatchHolder>(const_cast<void*>(view.data), view.dtype,
                                                 view.shape, {kDLCPU, 0}));
    // Its count alone is changed.
    held->holder.reset(mr_batch_retain(const_cast<mr_batch*>(batch)));
    *tensor = &held.release()->managed;
    return absl::OkStatus();
  });
}
