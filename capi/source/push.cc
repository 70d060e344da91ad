#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "capi/call/guard.h"
#include "capi/call/sized.h"
#include "capi/call/user.h"
#include "capi/millrace_push.h"
#include "capi/source/source.h"

namespace millrace::capi {
namespace {

std::string_view ViewOf(const void* record, size_t size) {
  return {static_cast<const char*>(record), size};
}

// Waits without a limit, so that the record is taken.
absl::StatusOr<bool> PushAnyTime(pipeline::PushSource& source, const void* record, size_t size) {
  MILLRACE_RETURN_IF_ERROR(source.Push(ViewOf(record, size)));
  return true;
}

// Pushes by `push`, which returns whether the record was taken, and tells that.
template <typename Push>
mr_error* PushBy(const char* call, mr_push* source, const void* record, size_t size, int32_t* taken,
                 const Push& push) {
  return Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(CheckGiven(call, {{"push", source != nullptr},
                                               {"record", record != nullptr || size == 0},
                                               {"taken", taken != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(const bool was_taken, push(*source->source));
    *taken = was_taken;
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;
namespace pipeline = millrace::pipeline;

mr_error* mr_push_create(const mr_push_options* options, mr_push** push) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_push_create", {{"push", push != nullptr}}));
    mr_push_options taken;
    MILLRACE_RETURN_IF_ERROR(capi::Take(options, "mr_push_options", taken));
    pipeline::PushSourceOptions made;
    if (taken.name != nullptr) made.name = taken.name;
    if (taken.max_bytes != 0) made.max_bytes = taken.max_bytes;
    *push = new mr_push{pipeline::PushSource::Make(std::move(made))};
    return absl::OkStatus();
  });
}

mr_error* mr_push_push(mr_push* push, const void* record, size_t size) {
  int32_t taken = 0;
  return capi::PushBy(
      "mr_push_push", push, record, size, &taken,
      [&](pipeline::PushSource& source) { return capi::PushAnyTime(source, record, size); });
}

mr_error* mr_push_try_push(mr_push* push, const void* record, size_t size, int32_t* taken) {
  return capi::PushBy(
      "mr_push_try_push", push, record, size, taken,
      [&](pipeline::PushSource& source) { return source.TryPush(capi::ViewOf(record, size)); });
}

mr_error* mr_push_push_for(mr_push* push, const void* record, size_t size, int64_t timeout_ns,
                           int32_t* taken) {
  return capi::PushBy(
      "mr_push_push_for", push, record, size, taken, [&](pipeline::PushSource& source) {
        if (timeout_ns < 0) return capi::PushAnyTime(source, record, size);
        return source.PushFor(capi::ViewOf(record, size), std::chrono::nanoseconds(timeout_ns));
      });
}

mr_error* mr_push_lend(mr_push* push, const mr_lent_record* record, int64_t timeout_ns,
                       int32_t* taken) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_push_lend",
        {{"push", push != nullptr}, {"record", record != nullptr}, {"taken", taken != nullptr}}));
    mr_lent_record lent;
    MILLRACE_RETURN_IF_ERROR(capi::Take(record, "mr_lent_record", lent));
    capi::User user(lent.user, lent.release);
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_lent_record", {{"data", lent.data != nullptr || lent.size == 0}}));
    auto owner = std::make_shared<const capi::User>(std::move(user));
    const std::string_view bytes = capi::ViewOf(lent.data, lent.size);
    bool was_taken = true;
    if (timeout_ns < 0) {
      MILLRACE_RETURN_IF_ERROR(push->source->Push(bytes, std::move(owner)));
    } else {
      MILLRACE_ASSIGN_OR_RETURN(
          was_taken,
          push->source->PushFor(bytes, std::move(owner), std::chrono::nanoseconds(timeout_ns)));
    }
    *taken = was_taken;
    return absl::OkStatus();
  });
}

mr_error* mr_push_on_room(mr_push* push, void (*call)(void* user), void* user) {
  capi::User caller(user, call);  // its end is the call
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_push_on_room", {{"push", push != nullptr}, {"call", call != nullptr}}));
    push->source->OnRoom([caller = std::make_shared<const capi::User>(std::move(caller))] {});
    return absl::OkStatus();
  });
}

mr_error* mr_push_finish(mr_push* push) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_push_finish", {{"push", push != nullptr}}));
    push->source->Finish();
    return absl::OkStatus();
  });
}

mr_error* mr_push_fail(mr_push* push, int32_t code, const char* message) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_push_fail", {{"push", push != nullptr}, {"message", message != nullptr}}));
    absl::Status reason;
    MILLRACE_RETURN_IF_ERROR(capi::TakeReason("mr_push_fail", code, message, reason));
    push->source->Fail(reason);
    return absl::OkStatus();
  });
}

void mr_push_free(mr_push* push) { delete push; }
