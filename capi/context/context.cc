#include "capi/context/context.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "capi/call/guard.h"
#include "capi/call/sized.h"
#include "pipeline/pipeline.h"

namespace millrace::capi {
namespace {

static_assert(static_cast<int32_t>(LogLevel::kInfo) == MR_LOG_INFO);
static_assert(static_cast<int32_t>(LogLevel::kWarning) == MR_LOG_WARNING);
static_assert(static_cast<int32_t>(LogLevel::kError) == MR_LOG_ERROR);

// The caller's log, which is destroyed with the last that holds it.
class Log {
 public:
  explicit Log(const mr_context_options& options) noexcept
      : log_(options.log), user_(options.log_user), destroy_(options.log_destroy) {}
  Log(Log&& other) noexcept
      : log_(other.log_), user_(other.user_), destroy_(std::exchange(other.destroy_, nullptr)) {}
  ~Log() {
    if (destroy_ != nullptr) destroy_(user_);
  }
  Log& operator=(Log&&) = delete;

  void Write(LogLevel level, std::string_view message) const {
    if (log_ != nullptr) log_(user_, static_cast<int32_t>(level), message.data(), message.size());
  }

 private:
  void (*const log_)(void*, int32_t, const char*, size_t);
  void* const user_;
  void (*destroy_)(void*);
};

absl::StatusOr<ContextOptions> OptionsOf(const mr_context_options* given) {
  mr_context_options taken;
  MILLRACE_RETURN_IF_ERROR(Take(given, "mr_context_options", taken));
  Log log(taken);
  ContextOptions options;
  options.threads = taken.threads;
  options.batch_priority = taken.batch_priority != 0;
  if (taken.memory_budget_bytes != 0) options.memory_budget_bytes = taken.memory_budget_bytes;
  if (taken.read_deadline_ms != 0) {
    options.read_deadline = std::chrono::milliseconds(std::max<int64_t>(0, taken.read_deadline_ms));
  }
  options.log = [shared = std::make_shared<Log>(std::move(log))](
                    LogLevel level, std::string_view message) { shared->Write(level, message); };
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
    std::string text;
    for (const auto& [name, value] : context->context->metrics().Snapshot()) {
      absl::StrAppend(&text, name, " ", value, "\n");
    }
    capi::Pour(text, sink, user);
    return absl::OkStatus();
  });
}

void mr_context_free(mr_context* context) { delete context; }
