#ifndef MILLRACE_CAPI_OPS_OPS_H_
#define MILLRACE_CAPI_OPS_OPS_H_

#include <memory>

#include "capi/millrace.h"
#include "pipeline/op_table.h"

struct mr_ops {
  std::shared_ptr<millrace::pipeline::OpTable> table;
};

#endif  // MILLRACE_CAPI_OPS_OPS_H_
