#include <algorithm>
#include <string_view>
#include <utility>

#include "base/philox.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/plan/message.h"
#include "pipeline/stages/table.h"

// The stages that touch no payload, as the executor wants them.

namespace millrace::pipeline {
namespace {

OrderStep ToOrderStep(const proto::Stage& stage) {
  OrderStep step;
  step.stage = stage.name();
  RowOf(stage).order(stage, &step);
  return step;
}

// REQUIRES: a take, skip or shuffle.
SettleStep ToSettleStep(const proto::Stage& stage, int after_filters) {
  const OrderStep step = ToOrderStep(stage);
  using Kind = SettleStep::Kind;
  return {.kind = step.kind == OrderStep::Kind::kShuffle ? Kind::kShuffle
                  : step.kind == OrderStep::Kind::kTake  ? Kind::kTake
                                                         : Kind::kSkip,
          .count = step.count,
          .after_filters = after_filters,
          .key = step.key,
          .stage = step.stage};
}

SourceSpec ToSource(const proto::Stage& stage) {
  SourceSpec source;
  source.stage = stage.name();
  RowOf(stage).source(stage, &source);
  return source;
}

OrderPlan ToRoot(const proto::Stage& stage, std::vector<SourceSpec>* sources);

OrderPlan ToInput(const proto::Pipeline& input, std::vector<SourceSpec>* sources) {
  OrderPlan order = ToRoot(input.stage(0), sources);
  for (int i = 1; i < input.stage_size(); ++i) order.steps.push_back(ToOrderStep(input.stage(i)));
  return order;
}

// The root of the order at a source stage; sources are numbered in the order of the text.
OrderPlan ToRoot(const proto::Stage& stage, std::vector<SourceSpec>* sources) {
  OrderPlan order;
  order.stage = stage.name();
  const auto* inputs = InputsOf(stage);
  if (inputs == nullptr) {
    order.source = sources->size();
    sources->push_back(ToSource(stage));
    return order;
  }
  order.root = stage.has_mix() ? OrderPlan::Root::kMix : OrderPlan::Root::kConcatenate;
  if (stage.has_mix()) {
    order.weights.assign(stage.mix().weight().begin(), stage.mix().weight().end());
    order.key = HashName(stage.name());
  }
  for (const proto::Pipeline& input : *inputs) order.inputs.push_back(ToInput(input, sources));
  return order;
}

void FillSource(const proto::Stage& stage, PhysicalPlan* plan) {
  if (!stage.has_zip()) {
    plan->order = ToRoot(stage, &plan->sources);
    return;
  }
  plan->order.stage = stage.name();
  plan->zip.emplace().stage = stage.name();
  for (int k = 0; k < stage.zip().input_size(); ++k) {
    const size_t first = plan->sources.size();
    OrderPlan order = ToInput(stage.zip().input(k), &plan->sources);
    const bool numbers = plan->sources[first].kind == SourceSpec::Kind::kRange;
    plan->zip->inputs.push_back({std::move(order), stage.zip().field(k), numbers});
  }
}

BatchSpec ToBatch(const proto::Stage& stage) {
  BatchSpec spec;
  spec.stage = stage.name();
  RowOf(stage).batch(stage, &spec);
  return spec;
}

DamageSpec ToDamage(const proto::OnDamage& damage) {
  using Policy = DamageSpec::Policy;
  const std::string& policy = damage.policy();
  return {.policy = policy == "skip"      ? Policy::kSkip
                    : policy == "mask"    ? Policy::kMask
                    : policy == "replace" ? Policy::kReplace
                                          : Policy::kFail,
          .max_count = damage.max_count(),
          .max_share = damage.max_share()};
}

BatchOpSpec ToBatchOp(const PlanMessage& message, int i) {
  const proto::Stage& stage = message.pipeline.stage(i);
  BatchOpSpec spec;
  spec.stage = stage.name();
  spec.where = message.Where(i);
  if (MixesRows(stage)) {
    spec.mixing = RowOf(stage).mixing(stage).options;
  } else {
    spec.op = stage.custom().op();
    spec.version = stage.custom().version();
    spec.options = stage.custom().options();
  }
  return spec;
}

void FillOrderStage(const proto::Stage& stage, bool behind_batch, PhysicalPlan* plan) {
  if (behind_batch) {
    plan->batch_order.push_back(ToOrderStep(stage));
  } else if (plan->cut) {
    plan->cut->settle.push_back(ToSettleStep(stage, plan->cut->num_filters));
  } else {
    plan->order.steps.push_back(ToOrderStep(stage));
  }
}

// The field of samples without a zip.
constexpr std::string_view kRecordField = "record";

// Under a policy rows of CSV are judged before they are parsed: as the parse_csv of `field` will
// split them, whatever the source says.
void JudgeRowsAsParsed(const OrderPlan& order, std::string_view field,
                       const proto::Pipeline& pipeline, PhysicalPlan* plan) {
  for (const OrderPlan& input : order.inputs) JudgeRowsAsParsed(input, field, pipeline, plan);
  if (order.root != OrderPlan::Root::kSource) return;
  readers::ContainerOptions& container = plan->sources[order.source].container;
  if (container.kind != readers::ContainerKind::kCsv) return;
  const auto parses = [&](const proto::Stage& stage) {
    return stage.has_parse_csv() && stage.parse_csv().field() == field;
  };
  const auto parse = std::ranges::find_if(pipeline.stage(), parses);
  if (parse != pipeline.stage().end()) container.delimiter = parse->parse_csv().delimiter()[0];
}

void PassOverDamage(const proto::Pipeline& pipeline, PhysicalPlan* plan) {
  for (SourceSpec& source : plan->sources) source.resync = true;
  if (!plan->zip) return JudgeRowsAsParsed(plan->order, kRecordField, pipeline, plan);
  for (const ZipPlan::Input& input : plan->zip->inputs) {
    JudgeRowsAsParsed(input.order, input.field, pipeline, plan);
  }
}

}  // namespace

int FillFromStages(const PlanMessage& message, PhysicalPlan* plan) {
  const proto::Pipeline& pipeline = message.pipeline;
  plan->seed = pipeline.seed();
  plan->semantics_version = pipeline.semantics_version();
  plan->lanes = pipeline.lanes();
  plan->damage = ToDamage(pipeline.on_damage());
  int batch = -1;
  for (int i = 0; i < pipeline.stage_size(); ++i) {
    const proto::Stage& stage = pipeline.stage(i);
    switch (KindOf(stage)) {
      case StageKind::kSource:
        FillSource(stage, plan);
        break;
      case StageKind::kOrder:
        FillOrderStage(stage, batch >= 0, plan);
        break;
      case StageKind::kCut:
        if (stage.filter().materialize()) break;  // FillSelect
        if (!plan->cut) plan->cut.emplace();
        if (stage.has_filter()) ++plan->cut->num_filters;
        break;
      case StageKind::kBatch:
        batch = i;
        plan->batch = ToBatch(stage);
        break;
      case StageKind::kPrefetch:
        plan->prefetch_batches = static_cast<int>(stage.prefetch().batches());
        break;
      case StageKind::kMap:  // before the batch: OpsFromPlan
        if (batch < 0) break;
        plan->batch_ops.push_back(ToBatchOp(message, i));
        break;
    }
  }
  if (plan->damage.policy != DamageSpec::Policy::kFail) PassOverDamage(pipeline, plan);
  return batch;
}

}  // namespace millrace::pipeline
