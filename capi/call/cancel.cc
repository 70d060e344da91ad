#include "capi/call/cancel.h"

#include "base/status.h"
#include "capi/call/guard.h"

namespace capi = millrace::capi;

millrace::Cancels capi::CancelsOf(const mr_cancel* cancel) {
  if (cancel == nullptr) return {};
  return [is_set = cancel->is_set] { return is_set->load(std::memory_order_relaxed); };
}

mr_error* mr_cancel_create(mr_cancel** cancel) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_cancel_create", {{"cancel", cancel != nullptr}}));
    *cancel = new mr_cancel;
    return absl::OkStatus();
  });
}

void mr_cancel_set(mr_cancel* cancel) {
  if (cancel != nullptr) cancel->is_set->store(true, std::memory_order_relaxed);
}

void mr_cancel_free(mr_cancel* cancel) { delete cancel; }
