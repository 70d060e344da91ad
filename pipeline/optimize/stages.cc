#include <algorithm>
#include <string_view>
#include <utility>

#include "base/philox.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/plan/message.h"
#include "pipeline/stages/mixing.h"

// The stages that touch no payload, as the executor wants them.

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;

OrderStep ToOrderStep(const proto::Stage& stage) {
  OrderStep step;
  step.stage = stage.name();
  switch (stage.op_case()) {
    case proto::Stage::kInterleave:
      step.kind = Kind::kInterleave;
      step.count = stage.interleave().cycle_length();
      step.second = stage.interleave().block_length();
      step.shuffle_files = stage.interleave().shuffle_files();
      step.key = HashName(stage.name());
      break;
    case proto::Stage::kShuffle:
      step.kind = Kind::kShuffle;
      step.count = stage.shuffle().buffer_size();
      step.key = HashName(stage.name());
      break;
    case proto::Stage::kGlobalShuffle:
      step.kind = Kind::kGlobalShuffle;
      step.count = stage.global_shuffle().block_bytes();
      step.second = stage.global_shuffle().window();
      step.key = HashName(stage.name());
      break;
    case proto::Stage::kShard:
      step.kind = Kind::kShard;
      step.count = stage.shard().num_shards();
      step.second = stage.shard().index();
      step.by_bytes = stage.shard().by_bytes();
      break;
    case proto::Stage::kRepeat:
      step.kind = Kind::kRepeat;
      step.count = stage.repeat().epochs();
      break;
    case proto::Stage::kTake:
      step.kind = Kind::kTake;
      step.count = stage.take().count();
      break;
    default:
      step.kind = Kind::kSkip;
      step.count = stage.skip().count();
      break;
  }
  return step;
}

SettleStep ToSettleStep(const proto::Stage& stage, int after_filters) {
  SettleStep step;
  step.stage = stage.name();
  step.after_filters = after_filters;
  if (stage.has_shuffle()) {
    step.kind = SettleStep::Kind::kShuffle;
    step.count = stage.shuffle().buffer_size();
    step.key = HashName(stage.name());
  } else {
    step.kind = stage.has_take() ? SettleStep::Kind::kTake : SettleStep::Kind::kSkip;
    step.count = stage.has_take() ? stage.take().count() : stage.skip().count();
  }
  return step;
}

template <typename Files>
void FillFiles(readers::ContainerKind kind, const Files& files, SourceSpec* source) {
  source->container.kind = kind;
  source->file_patterns.assign(files.files().begin(), files.files().end());
  source->compression = files.compression();
  if constexpr (requires { files.max_record_bytes(); }) {
    source->max_record_bytes = files.max_record_bytes();
  }
}

void FillTfRecord(const proto::TfRecord& files, SourceSpec* source) {
  FillFiles(readers::ContainerKind::kTfRecord, files, source);
  source->dali_index.assign(files.dali_index().begin(), files.dali_index().end());
  source->verify_crc = !files.skip_crc();
  source->io = files.io();
  source->drop_behind = files.drop_behind();
  source->access_point_bytes = files.access_point_bytes();
}

void FillFixedLength(const proto::FixedLength& files, SourceSpec* source) {
  FillFiles(readers::ContainerKind::kFixedLength, files, source);
  source->container.header_bytes = files.header_bytes();
  source->container.record_bytes = files.record_bytes();
  source->container.footer_bytes = files.footer_bytes();
  source->max_record_bytes = files.record_bytes();
}

void FillCsv(const proto::Csv& files, SourceSpec* source) {
  FillFiles(readers::ContainerKind::kCsv, files, source);
  source->container.has_header = files.header();
  source->container.delimiter = files.delimiter()[0];
}

void FillImageFolder(const proto::ImageFolder& folder, SourceSpec* source) {
  source->kind = SourceSpec::Kind::kImageFolder;
  source->folder = folder.path();
  if (folder.has_label()) source->label = folder.label();
  source->max_record_bytes = folder.max_record_bytes();
}

SourceSpec ToSource(const proto::Stage& stage) {
  SourceSpec source;
  source.stage = stage.name();
  switch (stage.op_case()) {
    case proto::Stage::kRange:
      source.kind = SourceSpec::Kind::kRange;
      source.count = stage.range().count();
      break;
    case proto::Stage::kPush:
      source.kind = SourceSpec::Kind::kPush;
      break;
    case proto::Stage::kMemory:
      source.kind = SourceSpec::Kind::kMemory;
      break;
    case proto::Stage::kImageFolder:
      FillImageFolder(stage.image_folder(), &source);
      break;
    case proto::Stage::kFixedLength:
      FillFixedLength(stage.fixed_length(), &source);
      break;
    case proto::Stage::kText:
      FillFiles(readers::ContainerKind::kText, stage.text(), &source);
      break;
    case proto::Stage::kCsv:
      FillCsv(stage.csv(), &source);
      break;
    case proto::Stage::kTar:
      FillFiles(readers::ContainerKind::kTar, stage.tar(), &source);
      break;
    case proto::Stage::kIdx:
      FillFiles(readers::ContainerKind::kIdx, stage.idx(), &source);
      break;
    default:
      FillTfRecord(stage.tfrecord(), &source);
      break;
  }
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

template <typename Batch>
void FillPadding(const Batch& batch, BatchSpec* spec) {
  for (const proto::Padding& padding : batch.padding()) {
    const bool is_float = padding.value_case() == proto::Padding::kFloatValue;
    spec->padding.push_back(
        {padding.field(), padding.int_value(),
         is_float ? padding.float_value() : static_cast<double>(padding.int_value())});
  }
}

template <typename Batch>
void FillSize(BatchSpec::Kind kind, const Batch& batch, BatchSpec* spec) {
  spec->kind = kind;
  spec->size = batch.size();
  spec->drop_remainder = batch.drop_remainder();
}

void FillBucket(const proto::BucketByLength& bucket, BatchSpec* spec) {
  spec->kind = BatchSpec::Kind::kBucket;
  spec->size = *std::ranges::max_element(bucket.batch_size());
  spec->drop_remainder = bucket.drop_remainder();
  spec->length_field = bucket.field();
  spec->boundaries.assign(bucket.boundary().begin(), bucket.boundary().end());
  spec->bucket_sizes.assign(bucket.batch_size().begin(), bucket.batch_size().end());
  spec->pad_to_boundary = bucket.pad_to_bucket_boundary();
  FillPadding(bucket, spec);
}

BatchSpec ToBatch(const proto::Stage& stage) {
  BatchSpec spec;
  spec.stage = stage.name();
  switch (stage.op_case()) {
    case proto::Stage::kPaddedBatch:
      FillSize(BatchSpec::Kind::kPadded, stage.padded_batch(), &spec);
      FillPadding(stage.padded_batch(), &spec);
      break;
    case proto::Stage::kRaggedBatch:
      FillSize(BatchSpec::Kind::kRagged, stage.ragged_batch(), &spec);
      break;
    case proto::Stage::kBucketByLength:
      FillBucket(stage.bucket_by_length(), &spec);
      break;
    default:
      FillSize(BatchSpec::Kind::kFixed, stage.batch(), &spec);
      break;
  }
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
    spec.mixing = MixingOptionsOf(stage);
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
