#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "capi/call/guard.h"
#include "capi/call/sized.h"
#include "capi/context/context.h"
#include "capi/device/device_batch.h"
#include "capi/loader/diagnoser.h"
#include "capi/loader/options.h"
#include "capi/loader/stream.h"
#include "capi/millrace_device.h"
#include "capi/plan/plan.h"
#include "pipeline/device_feed.h"

struct mr_feed {
  std::unique_ptr<millrace::pipeline::DeviceFeed> feed;
  millrace::capi::Diagnoser diagnoser;
  int32_t device = 0;  // CUDA's ordinal
};

namespace millrace::capi {
namespace {

//   INVALID_ARGUMENT  the struct, or a field of it
absl::StatusOr<pipeline::DeviceFeedOptions> FeedOptionsOf(const mr_feed_options* given) {
  mr_feed_options taken;
  MILLRACE_RETURN_IF_ERROR(Take(given, "mr_feed_options", taken));
  pipeline::DeviceFeedOptions options;
  options.device = taken.device;
  if (taken.ring != 0) options.ring = taken.ring;
  if (taken.max_device_bytes != 0) options.max_device_bytes = taken.max_device_bytes;
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  return options;
}

mr_error* DeliverFor(const char* call, mr_feed* feed, std::chrono::nanoseconds limit,
                     mr_device_batch** batch, int32_t* outcome) {
  using Outcome = std::optional<absl::StatusOr<std::optional<pipeline::DeviceBatch>>>;
  mr_error* const error =
      Deliver(call, {"feed", feed != nullptr}, batch, outcome, [&]() -> Outcome {
        if (limit.count() < 0) return feed->feed->Next();
        return feed->feed->NextFor(limit);
      });
  if (error == nullptr && *batch != nullptr) (*batch)->device = feed->device;
  return error;
}

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;
namespace pipeline = millrace::pipeline;

mr_error* mr_feed_open(const mr_plan* plan, mr_context* context, const mr_open_options* options,
                       const mr_feed_options* feed_options, mr_feed** feed) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_feed_open", {{"plan", plan != nullptr}, {"feed", feed != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(const pipeline::OpenOptions taken, capi::OpenOptionsOf(options));
    MILLRACE_ASSIGN_OR_RETURN(const pipeline::DeviceFeedOptions of_device,
                              capi::FeedOptionsOf(feed_options));
    MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<millrace::Context> shared,
                              capi::ContextOr(context, plan->plan));
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<pipeline::DeviceFeed> opened,
                              pipeline::DeviceFeed::Open(plan->plan, shared, taken, of_device));
    capi::Diagnoser diagnoser(plan->plan, taken, std::move(shared), context != nullptr,
                              opened->pipeline(), opened.get());
    *feed = new mr_feed{std::move(opened), std::move(diagnoser), of_device.device};
    return absl::OkStatus();
  });
}

mr_error* mr_feed_next(mr_feed* feed, int64_t timeout_ns, mr_device_batch** batch,
                       int32_t* outcome) {
  return capi::DeliverFor("mr_feed_next", feed, std::chrono::nanoseconds(timeout_ns), batch,
                          outcome);
}

mr_error* mr_feed_try_next(mr_feed* feed, mr_device_batch** batch, int32_t* outcome) {
  return capi::DeliverFor("mr_feed_try_next", feed, std::chrono::nanoseconds(0), batch, outcome);
}

mr_error* mr_feed_poll(mr_feed* feed) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_feed_poll", {{"feed", feed != nullptr}}));
    feed->feed->Poll();
    return absl::OkStatus();
  });
}

void mr_feed_cancel(mr_feed* feed) {
  if (feed == nullptr) return;
  mr_error_free(capi::Guard([&] { feed->feed->Cancel(); }));
}

mr_error* mr_feed_save(const mr_feed* feed, mr_sink sink, void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_feed_save", {{"feed", feed != nullptr}, {"sink", sink != nullptr}}));
    capi::Pour(feed->feed->Save(), sink, user);
    return absl::OkStatus();
  });
}

mr_error* mr_feed_restore(mr_feed* feed, const void* token, size_t token_bytes) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_feed_restore", {{"feed", feed != nullptr}, {"token", token != nullptr}}));
    return feed->diagnoser.BeginBehind(
        feed->feed->Restore(std::string(static_cast<const char*>(token), token_bytes)));
  });
}

mr_error* mr_feed_seek(mr_feed* feed, uint64_t batch) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_feed_seek", {{"feed", feed != nullptr}}));
    return feed->diagnoser.BeginBehind(feed->feed->Seek(batch));
  });
}

mr_error* mr_feed_length(const mr_feed* feed, mr_length* length) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_feed_length", {{"feed", feed != nullptr}, {"length", length != nullptr}}));
    return capi::GiveLength(feed->feed->pipeline(), length);
  });
}

mr_error* mr_feed_schema(const mr_feed* feed, void (*visit)(void* user, const mr_field* field),
                         void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_feed_schema", {{"feed", feed != nullptr}, {"visit", visit != nullptr}}));
    capi::ShowFields(feed->feed->pipeline(), visit, user);
    return absl::OkStatus();
  });
}

mr_error* mr_feed_locate(const mr_feed* feed, const mr_sample_id* id,
                         void (*visit)(void* user, const mr_record* record), void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_feed_locate",
        {{"feed", feed != nullptr}, {"id", id != nullptr}, {"visit", visit != nullptr}}));
    return capi::ShowPlace(feed->feed->pipeline(), *id, visit, user);
  });
}

mr_error* mr_feed_diagnose(const mr_feed* feed, const mr_diagnosis_options* options,
                           void (*visit)(void* user, const mr_diagnosis* diagnosis), void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_feed_diagnose", {{"feed", feed != nullptr}, {"visit", visit != nullptr}}));
    return feed->diagnoser.Show(options, visit, user);
  });
}

mr_error* mr_feed_measure_anew(mr_feed* feed) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_feed_measure_anew", {{"feed", feed != nullptr}}));
    return feed->diagnoser.Begin();
  });
}

void mr_feed_free(mr_feed* feed) { delete feed; }
