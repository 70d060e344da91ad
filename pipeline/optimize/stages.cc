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
  return {.kind = step.kind == OrderStep::Kind::kShuffle ? SettleStep::Kind::kShuffle
                  : step.kind == OrderStep::Kind::kTake  ? SettleStep::Kind::kTake
                                                         : SettleStep::Kind::kSkip,
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

// The order so far is that of the elements.
void FillWindow(const proto::Stage& stage, PhysicalPlan* plan) {
  const proto::Window& window = stage.window();
  plan->window = {.stage = stage.name(),
                  .order = std::move(plan->order),
                  .size = window.size(),
                  .shift = window.shift(),
                  .stride = window.stride(),
                  .drop_remainder = window.drop_remainder()};
  plan->order = OrderPlan();
  plan->order.stage = stage.name();
}

// The field of samples without a zip.
constexpr std::string_view kRecordField = "record";

// Calls `f` with every source whose records are the field `field`, and that field.
template <typename Function>
void ForEachSource(const OrderPlan& order, std::string_view field, PhysicalPlan* plan,
                   const Function& f) {
  for (const OrderPlan& input : order.inputs) ForEachSource(input, field, plan, f);
  if (order.root == OrderPlan::Root::kSource) f(&plan->sources[order.source], field);
}
template <typename Function>
void ForEachSource(PhysicalPlan* plan, const Function& f) {
  if (!plan->zip) return ForEachSource(RecordOrderOf(*plan), kRecordField, plan, f);
  for (const ZipPlan::Input& input : plan->zip->inputs) {
    ForEachSource(input.order, input.field, plan, f);
  }
}

// The parse_csv of `field`, or null.
const proto::Stage* FindCsvParser(const proto::Pipeline& pipeline, std::string_view field) {
  const auto parses = [&](const proto::Stage& stage) {
    return stage.has_parse_csv() && stage.parse_csv().field() == field;
  };
  const auto parse = std::ranges::find_if(pipeline.stage(), parses);
  return parse == pipeline.stage().end() ? nullptr : &*parse;
}

bool IsBehindCustom(const proto::Pipeline& pipeline, const proto::Stage& stage) {
  const auto first = std::ranges::find_if(
      pipeline.stage(), [&](const proto::Stage& s) { return s.has_custom() || &s == &stage; });
  return &*first != &stage;
}

// Tells sources of CSV which columns their headers are to name: those of the parse_csv of their
// rows. Behind a custom op the rows are not known, so there the columns are not looked for by their
// names.
void NameColumns(const proto::Pipeline& pipeline, PhysicalPlan* plan) {
  ForEachSource(plan, [&](SourceSpec* source, std::string_view field) {
    if (!source->container.has_header || source->ignore_header_names) return;
    const proto::Stage* const parser = FindCsvParser(pipeline, field);
    if (parser == nullptr) return;
    source->columns = {.names = ColumnsOf(parser->parse_csv()),
                       .allow_more = parser->parse_csv().column().empty(),
                       .in_order = IsBehindCustom(pipeline, *parser),
                       .delimiter = parser->parse_csv().delimiter()[0]};
  });
}

// Blank lines are no records where a parse_json takes the lines.
void SkipBlankLines(const proto::Pipeline& pipeline, PhysicalPlan* plan) {
  ForEachSource(plan, [&](SourceSpec* source, std::string_view field) {
    if (source->container.kind != readers::ContainerKind::kText) return;
    source->container.skips_blank =
        std::ranges::any_of(pipeline.stage(), [&](const proto::Stage& stage) {
          return stage.has_parse_json() && stage.parse_json().field() == field &&
                 !IsBehindCustom(pipeline, stage);
        });
  });
}

// Under a policy rows of CSV are judged before they are parsed: as their parse_csv will split them,
// also where the source says otherwise.
void PassOverDamage(const proto::Pipeline& pipeline, PhysicalPlan* plan) {
  ForEachSource(plan, [&](SourceSpec* source, std::string_view field) {
    source->resync = true;
    if (source->container.kind != readers::ContainerKind::kCsv) return;
    const proto::Stage* const parser = FindCsvParser(pipeline, field);
    if (parser != nullptr) source->container.delimiter = parser->parse_csv().delimiter()[0];
  });
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
      case StageKind::kWindow:
        FillWindow(stage, plan);
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
  NameColumns(pipeline, plan);
  SkipBlankLines(pipeline, plan);
  if (plan->damage.policy != DamageSpec::Policy::kFail) PassOverDamage(pipeline, plan);
  return batch;
}

}  // namespace millrace::pipeline
