#include "capi/context/context.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "capi/call/guard.h"
#include "capi/call/sized.h"
#include "capi/call/user.h"
#include "capi/millrace_options.h"
#include "pipeline/pipeline.h"

namespace millrace::capi {
namespace {

static_assert(static_cast<int32_t>(LogLevel::kInfo) == MR_LOG_INFO);
static_assert(static_cast<int32_t>(LogLevel::kWarning) == MR_LOG_WARNING);
static_assert(static_cast<int32_t>(LogLevel::kError) == MR_LOG_ERROR);

// Returns the program's memory; nothing for null.
//   INVALID_ARGUMENT  the struct is not valid, or lacks a call
absl::StatusOr<BatchMemory> MemoryOf(const mr_batch_memory* given) {
  BatchMemory memory;
  if (given == nullptr) return memory;
  mr_batch_memory taken;
  MILLRACE_RETURN_IF_ERROR(Take(given, "mr_batch_memory", taken));
  const auto user = std::make_shared<const User>(taken.user, taken.destroy);
  MILLRACE_RETURN_IF_ERROR(CheckGiven("mr_batch_memory", {{"alloc", taken.alloc != nullptr},
                                                          {"dealloc", taken.dealloc != nullptr}}));
  memory.alloc = [alloc = taken.alloc, user](size_t bytes, size_t alignment) {
    return alloc(user->get(), bytes, alignment);
  };
  memory.free = [dealloc = taken.dealloc, user](void* block, size_t bytes) {
    dealloc(user->get(), block, bytes);
  };
  return memory;
}

absl::StatusOr<ContextOptions> OptionsOf(const mr_context_options* given) {
  mr_context_options taken;
  MILLRACE_RETURN_IF_ERROR(Take(given, "mr_context_options", taken));
  User user(taken.log_user, taken.log_destroy);
  ContextOptions options;
  MILLRACE_ASSIGN_OR_RETURN(options.batch_memory, MemoryOf(taken.memory));
  options.threads = taken.threads;
  options.batch_priority = taken.batch_priority != 0;
  if (taken.memory_budget_bytes != 0) options.memory_budget_bytes = taken.memory_budget_bytes;
  if (taken.read_deadline_ms != 0) {
    options.read_deadline = std::chrono::milliseconds(std::max<int64_t>(0, taken.read_deadline_ms));
  }
  options.log = [log = taken.log, shared = std::make_shared<const User>(std::move(user))](
                    LogLevel level, std::string_view message) {
    if (log == nullptr) return;
    log(shared->get(), static_cast<int32_t>(level), message.data(), message.size());
  };
  return options;
}

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;

mr_error* mr_context_create(const mr_context_options* options, mr_context** context) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_context_create", {{"context", context != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(millrace::ContextOptions taken, capi::OptionsOf(options));
    MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<millrace::Context> made,
                              millrace::pipeline::MakeContext(std::move(taken)));
    *context = new mr_context{std::move(made)};
    return absl::OkStatus();
  });
}

mr_error* mr_context_metrics(const mr_context* context, mr_sink sink, void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_context_metrics", {{"context", context != nullptr}, {"sink", sink != nullptr}}));
    capi::Pour(context->context->metrics().PrometheusText(), sink, user);
    return absl::OkStatus();
  });
}

void mr_context_free(mr_context* context) { delete context; }
