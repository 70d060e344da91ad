#include "capi/ops/ops.h"

#include "base/status.h"
#include "capi/call/guard.h"

namespace capi = millrace::capi;

mr_error* mr_ops_create(mr_ops** ops) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_ops_create", {{"ops", ops != nullptr}}));
    *ops = new mr_ops{std::make_shared<millrace::pipeline::OpTable>()};
    return absl::OkStatus();
  });
}

void mr_ops_free(mr_ops* ops) { delete ops; }
