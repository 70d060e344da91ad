#ifndef MILLRACE_CAPI_CONTEXT_CONTEXT_H_
#define MILLRACE_CAPI_CONTEXT_CONTEXT_H_

#include <memory>

#include "base/context.h"
#include "capi/millrace.h"

struct mr_context {
  std::shared_ptr<millrace::Context> context;
};

#endif  // MILLRACE_CAPI_CONTEXT_CONTEXT_H_
