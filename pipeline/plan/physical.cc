#include "pipeline/plan/physical.h"

#include <algorithm>

namespace millrace::pipeline {

const OrderPlan& RecordOrderOf(const PhysicalPlan& plan) {
  return plan.window.has_value() ? plan.window->order : plan.order;
}

bool LanesAreFree(const PhysicalPlan& plan) {
  return plan.cut.has_value() && plan.cut->num_filters == 0 && plan.cut->settle.empty() &&
         plan.batch.kind != BatchSpec::Kind::kBucket &&
         std::ranges::find(plan.cut->examine, ExamineStep::Kind::kUnbatch, &ExamineStep::kind) ==
             plan.cut->examine.end() &&
         std::ranges::find(plan.sources, SourceSpec::Kind::kPush, &SourceSpec::kind) ==
             plan.sources.end();
}

}  // namespace millrace::pipeline
