#ifndef MILLRACE_CAPI_PLAN_PLAN_H_
#define MILLRACE_CAPI_PLAN_PLAN_H_

#include "capi/millrace.h"
#include "pipeline/plan.h"

struct mr_plan {
  millrace::pipeline::Plan plan;
};

#endif  // MILLRACE_CAPI_PLAN_PLAN_H_
