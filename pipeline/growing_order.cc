#include <algorithm>

#include "absl/strings/str_cat.h"
#include "pipeline/growing_order_internal.h"

namespace millrace::pipeline {

using Kind = OrderStep::Kind;

absl::Status CheckGrowing(const PhysicalPlan& plan) {
  if (!plan.cut.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("stage \"", plan.batch.stage,
                   "\": the extents of these rows differ, and what is pushed cannot be looked at "
                   "before it is batched; give the fields fixed shapes"));
}

uint64_t RecordsNeeded(const PhysicalPlan& plan, uint64_t elements) {
  const auto& steps = plan.order.steps;
  for (auto step = steps.rbegin(); step != steps.rend() && elements != 0; ++step) {
    if (step->kind == Kind::kTake) elements = std::min(elements, step->count);
    if (step->kind == Kind::kSkip) elements += step->count;
    if (step->kind == Kind::kShard) elements = (elements - 1) * step->count + step->second + 1;
  }
  return elements;
}

}  // namespace millrace::pipeline
