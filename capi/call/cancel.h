#ifndef MILLRACE_CAPI_CALL_CANCEL_H_
#define MILLRACE_CAPI_CALL_CANCEL_H_

#include <atomic>
#include <memory>

#include "base/cancels.h"
#include "capi/millrace.h"

struct mr_cancel {
  // Any thread -> the calls under way, which share it; relaxed: a flag alone.
  std::shared_ptr<std::atomic<bool>> is_set = std::make_shared<std::atomic<bool>>(false);
};

namespace millrace::capi {

// Returns a function that asks `cancel`; empty for null.
Cancels CancelsOf(const mr_cancel* cancel);

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_CALL_CANCEL_H_
