#ifndef MILLRACE_CAPI_LOADER_STREAM_H_
#define MILLRACE_CAPI_LOADER_STREAM_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "capi/call/guard.h"
#include "capi/millrace.h"
#include "pipeline/pipeline.h"

// The common part of loaders and feeds: both are a pipeline.

namespace millrace::capi {

// Returns the context, or a new one for the plan if there is none.
//   the errors of MakeContext
absl::StatusOr<std::shared_ptr<Context>> ContextOr(const mr_context* given,
                                                   const pipeline::Plan& plan);

// Writes the length.
//   INVALID_ARGUMENT  struct_size is no size
absl::Status GiveLength(const pipeline::Pipeline& stream, mr_length* length);

// Calls `visit` for each field.
void ShowFields(const pipeline::Pipeline& stream, void (*visit)(void* user, const mr_field* field),
                void* user);

// Calls `visit` with the place of a sample's record.
//   OUT_OF_RANGE  there is no such record
absl::Status ShowPlace(const pipeline::Pipeline& stream, const mr_sample_id& id,
                       void (*visit)(void* user, const mr_record* record), void* user);

// Writes the batch and the outcome that `next` comes to, which returns nullopt where the time has
// passed. `source` is the argument of the call that has the batches.
template <typename Handle, typename Next>
mr_error* Deliver(const char* call, Argument source, Handle** batch, int32_t* outcome,
                  const Next& next) {
  return Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        CheckGiven(call, {{"batch", batch != nullptr}, {"outcome", outcome != nullptr}}));
    *batch = nullptr;
    *outcome = MR_FAILED;
    MILLRACE_RETURN_IF_ERROR(CheckGiven(call, {source}));
    auto handle = std::make_unique<Handle>();  // first: no batch is lost for want of memory
    auto came = next();
    if (!came.has_value()) {
      *outcome = MR_TIMED_OUT;
      return absl::OkStatus();
    }
    if (!came->ok()) return came->status();
    if (!(*came)->has_value()) {
      *outcome = MR_END;
      return absl::OkStatus();
    }
    handle->batch = **std::move(*came);
    *batch = handle.release();
    *outcome = MR_BATCH;
    return absl::OkStatus();
  });
}

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_LOADER_STREAM_H_
