#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "capi/batch/batch.h"
#include "capi/call/guard.h"
#include "capi/context/context.h"
#include "capi/loader/diagnoser.h"
#include "capi/loader/options.h"
#include "capi/loader/stream.h"
#include "capi/plan/plan.h"
#include "pipeline/pipeline.h"

struct mr_loader {
  std::unique_ptr<millrace::pipeline::Pipeline> pipeline;
  millrace::capi::Diagnoser diagnoser;
};

namespace capi = millrace::capi;
namespace pipeline = millrace::pipeline;

mr_error* mr_loader_open(const mr_plan* plan, mr_context* context, const mr_open_options* options,
                         mr_loader** loader) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_loader_open", {{"plan", plan != nullptr}, {"loader", loader != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(const pipeline::OpenOptions taken, capi::OpenOptionsOf(options));
    MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<millrace::Context> shared,
                              capi::ContextOr(context, plan->plan));
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<pipeline::Pipeline> opened,
                              pipeline::Pipeline::Open(plan->plan, shared, taken));
    capi::Diagnoser diagnoser(plan->plan, taken, std::move(shared), context != nullptr, *opened);
    *loader = new mr_loader{std::move(opened), std::move(diagnoser)};
    return absl::OkStatus();
  });
}

mr_error* mr_loader_next(mr_loader* loader, int64_t timeout_ns, mr_batch** batch,
                         int32_t* outcome) {
  using Outcome = std::optional<absl::StatusOr<std::optional<pipeline::Batch>>>;
  return capi::Deliver("mr_loader_next", {"loader", loader != nullptr}, batch, outcome,
                       [&]() -> Outcome {
                         if (timeout_ns < 0) return loader->pipeline->Next();
                         return loader->pipeline->NextFor(std::chrono::nanoseconds(timeout_ns));
                       });
}

mr_error* mr_loader_try_next(mr_loader* loader, mr_batch** batch, int32_t* outcome) {
  return capi::Deliver("mr_loader_try_next", {"loader", loader != nullptr}, batch, outcome,
                       [&] { return loader->pipeline->TryNext(); });
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
    return loader->diagnoser.BeginBehind(
        loader->pipeline->Restore(std::string(static_cast<const char*>(token), token_bytes)));
  });
}

mr_error* mr_loader_seek(mr_loader* loader, uint64_t batch) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_loader_seek", {{"loader", loader != nullptr}}));
    return loader->diagnoser.BeginBehind(loader->pipeline->Seek(batch));
  });
}

mr_error* mr_loader_length(const mr_loader* loader, mr_length* length) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_loader_length", {{"loader", loader != nullptr}, {"length", length != nullptr}}));
    return capi::GiveLength(*loader->pipeline, length);
  });
}

mr_error* mr_loader_schema(const mr_loader* loader,
                           void (*visit)(void* user, const mr_field* field), void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_loader_schema", {{"loader", loader != nullptr}, {"visit", visit != nullptr}}));
    capi::ShowFields(*loader->pipeline, visit, user);
    return absl::OkStatus();
  });
}

mr_error* mr_loader_locate(const mr_loader* loader, const mr_sample_id* id,
                           void (*visit)(void* user, const mr_record* record), void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_loader_locate",
        {{"loader", loader != nullptr}, {"id", id != nullptr}, {"visit", visit != nullptr}}));
    return capi::ShowPlace(*loader->pipeline, *id, visit, user);
  });
}

mr_error* mr_loader_diagnose(const mr_loader* loader, const mr_diagnosis_options* options,
                             void (*visit)(void* user, const mr_diagnosis* diagnosis), void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_loader_diagnose", {{"loader", loader != nullptr}, {"visit", visit != nullptr}}));
    return loader->diagnoser.Show(options, visit, user);
  });
}

mr_error* mr_loader_measure_anew(mr_loader* loader) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_loader_measure_anew", {{"loader", loader != nullptr}}));
    return loader->diagnoser.Begin();
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
