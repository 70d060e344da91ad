#include <algorithm>

#include "absl/strings/str_cat.h"
#include "pipeline/growing_order_internal.h"

namespace millrace::pipeline {

using Kind = OrderStep::Kind;

absl::Status CheckGrowing(const PhysicalPlan& plan) {
  if (plan.order.root != OrderPlan::Root::kSource) {
    return absl::InvalidArgumentError(
        absl::StrCat("stage \"", plan.order.stage, "\": a push source cannot be joined"));
  }
  if (plan.cut.has_value()) {
    return absl::InvalidArgumentError(
        "filter, unbatch, padded, ragged and bucket batches cannot read a push source");
  }
  for (const OrderStep& step : plan.order.steps) {
    const bool plain =
        step.kind == Kind::kTake || step.kind == Kind::kSkip || step.kind == Kind::kShard;
    if (plain) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("stage \"", step.stage, "\": of the order stages a push source can only be ",
                     "followed by take, skip and shard"));
  }
  if (plan.batch_order.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("stage \"", plan.batch_order[0].stage,
                   "\": a push source is read once, so no stage may count its batches"));
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
