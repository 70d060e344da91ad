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

bool HasTake(const CutPlan& cut) {
  return std::ranges::find(cut.settle, SettleStep::Kind::kTake, &SettleStep::kind) !=
         cut.settle.end();
}

bool RanksKnowBatches(const PhysicalPlan& plan, bool endless) {
  // Without an end no lane runs short, unless a take stops it; in batches of buckets the rows of
  // other lanes decide where ours stand.
  return !endless || plan.batch.kind == BatchSpec::Kind::kBucket || HasTake(*plan.cut);
}

bool RanksDivideRows(const PhysicalPlan& plan, int world, bool endless) {
  return plan.cut.has_value() && static_cast<uint64_t>(world) > plan.lanes &&
         RanksKnowBatches(plan, endless);
}

uint64_t SmallestBatch(const PhysicalPlan& plan) {
  const std::vector<uint64_t>& sizes = plan.batch.bucket_sizes;
  const bool is_bucket = plan.batch.kind == BatchSpec::Kind::kBucket && !sizes.empty();
  return is_bucket ? *std::ranges::min_element(sizes) : plan.batch.size;
}

}  // namespace millrace::pipeline
