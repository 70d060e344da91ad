#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/run.h"
#include "base/status.h"
#include "capi/batch/batch.h"
#include "capi/call/guard.h"
#include "capi/call/sized.h"
#include "capi/context/context.h"
#include "capi/loader/options.h"
#include "capi/plan/plan.h"
#include "pipeline/pipeline.h"

struct mr_loader {
  std::unique_ptr<millrace::pipeline::Pipeline> pipeline;
};

namespace millrace::capi {
namespace {

using Outcome = absl::StatusOr<std::optional<pipeline::Batch>>;

static_assert(static_cast<int32_t>(DType::kBytes) == MR_BYTES);
static_assert(static_cast<int32_t>(DType::kU8) == MR_UINT8);
static_assert(static_cast<int32_t>(DType::kI32) == MR_INT32);
static_assert(static_cast<int32_t>(DType::kI64) == MR_INT64);
static_assert(static_cast<int32_t>(DType::kF16) == MR_FLOAT16);
static_assert(static_cast<int32_t>(DType::kBF16) == MR_BFLOAT16);
static_assert(static_cast<int32_t>(DType::kF32) == MR_FLOAT32);
static_assert(static_cast<int32_t>(DType::kF64) == MR_FLOAT64);
static_assert(Shape::kMaxRank <= MR_MAX_RANK);

// Asks for the next batch by `next`, which returns nullopt where the time has passed.
template <typename Next>
mr_error* Deliver(const char* call, mr_loader* loader, mr_batch** batch, int32_t* outcome,
                  const Next& next) {
  return Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        CheckGiven(call, {{"batch", batch != nullptr}, {"outcome", outcome != nullptr}}));
    *batch = nullptr;
    *outcome = MR_FAILED;
    MILLRACE_RETURN_IF_ERROR(CheckGiven(call, {{"loader", loader != nullptr}}));
    auto handle = std::make_unique<mr_batch>();  // first: no batch is lost for want of memory
    std::optional<Outcome> came = next(*loader->pipeline);
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

mr_field FieldOf(const Field& field) {
  mr_field shown = {};
  shown.struct_size = sizeof shown;
  shown.name = field.name.c_str();
  shown.dtype = static_cast<int32_t>(field.dtype);
  shown.rank = field.shape.rank();
  for (int i = 0; i < field.shape.rank(); ++i) shown.shape[i] = field.shape[i];
  return shown;
}

// A pipeline of C++ takes a context that is there.
absl::StatusOr<std::shared_ptr<Context>> ContextOr(const mr_context* given) {
  if (given != nullptr) return given->context;
  return pipeline::MakeContext();
}

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;
namespace pipeline = millrace::pipeline;

mr_error* mr_loader_open(const mr_plan* plan, mr_context* context, const mr_open_options* options,
                         mr_loader** loader) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_loader_open", {{"plan", plan != nullptr}, {"loader", loader != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(const pipeline::OpenOptions taken, capi::OpenOptionsOf(options));
    MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<millrace::Context> shared, capi::ContextOr(context));
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<pipeline::Pipeline> opened,
                              pipeline::Pipeline::Open(plan->plan, std::move(shared), taken));
    *loader = new mr_loader{std::move(opened)};
    return absl::OkStatus();
  });
}

mr_error* mr_loader_next(mr_loader* loader, int64_t timeout_ns, mr_batch** batch,
                         int32_t* outcome) {
  return capi::Deliver("mr_loader_next", loader, batch, outcome,
                       [&](pipeline::Pipeline& stream) -> std::optional<capi::Outcome> {
                         if (timeout_ns < 0) return stream.Next();
                         return stream.NextFor(std::chrono::nanoseconds(timeout_ns));
                       });
}

mr_error* mr_loader_try_next(mr_loader* loader, mr_batch** batch, int32_t* outcome) {
  return capi::Deliver("mr_loader_try_next", loader, batch, outcome,
                       [](pipeline::Pipeline& stream) { return stream.TryNext(); });
}

void mr_loader_cancel(mr_loader* loader) {
  if (loader == nullptr) return;
  mr_error_free(capi::Guard([&] { loader->pipeline->Cancel(); }));
}

mr_error* mr_loader_save(const mr_loader* loader, mr_sink sink, void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_loader_save", {{"loader", loader != nullptr}, {"sink", sink != nullptr}}));
    capi::Pour(loader->pipeline->Save(), sink, user);
    return absl::OkStatus();
  });
}

mr_error* mr_loader_restore(mr_loader* loader, const void* token, size_t token_bytes) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_loader_restore", {{"loader", loader != nullptr}, {"token", token != nullptr}}));
    return loader->pipeline->Restore(std::string(static_cast<const char*>(token), token_bytes));
  });
}

mr_error* mr_loader_seek(mr_loader* loader, uint64_t batch) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_loader_seek", {{"loader", loader != nullptr}}));
    return loader->pipeline->Seek(batch);
  });
}

mr_error* mr_loader_length(const mr_loader* loader, mr_length* length) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_loader_length", {{"loader", loader != nullptr}, {"length", length != nullptr}}));
    const pipeline::StreamLength told = loader->pipeline->length();
    mr_length filled = {};
    filled.infinite = told.infinite;
    filled.known = told.known;
    filled.batches = told.batches;
    filled.batches_per_epoch = told.batches_per_epoch;
    return capi::Give(filled, length, "mr_length");
  });
}

mr_error* mr_loader_schema(const mr_loader* loader,
                           void (*visit)(void* user, const mr_field* field), void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_loader_schema", {{"loader", loader != nullptr}, {"visit", visit != nullptr}}));
    for (const millrace::Field& field : loader->pipeline->schema().fields()) {
      const mr_field shown = capi::FieldOf(field);
      visit(user, &shown);
    }
    return absl::OkStatus();
  });
}

mr_error* mr_loader_locate(const mr_loader* loader, const mr_sample_id* id,
                           void (*visit)(void* user, const mr_record* record), void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_loader_locate",
        {{"loader", loader != nullptr}, {"id", id != nullptr}, {"visit", visit != nullptr}}));
    const uint64_t num_records = loader->pipeline->num_records();  // 0: not known
    if (num_records != 0 && id->record >= num_records) {
      return absl::OutOfRangeError(
          absl::StrCat("there is no record ", id->record, ": the source has ", num_records));
    }
    const millrace::SampleId sample = {id->epoch, id->record, id->sub_index};
    const millrace::RecordError where = loader->pipeline->Locate(sample);
    const mr_record shown = capi::RecordOf(where);
    visit(user, &shown);
    return absl::OkStatus();
  });
}

void mr_loader_free(mr_loader* loader) { delete loader; }

mr_error* mr_explain(const mr_plan* plan, mr_context* context, const mr_open_options* options,
                     mr_sink sink, void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_explain", {{"plan", plan != nullptr}, {"sink", sink != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(const pipeline::OpenOptions taken, capi::OpenOptionsOf(options));
    const auto shared = context == nullptr ? nullptr : context->context;
    MILLRACE_ASSIGN_OR_RETURN(const std::string text, pipeline::Explain(plan->plan, shared, taken));
    capi::Pour(text, sink, user);
    return absl::OkStatus();
  });
}
