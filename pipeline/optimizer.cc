#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/status.h"
#include "pipeline/optimizer_internal.h"
#include "pipeline/plan_message_internal.h"

namespace millrace::pipeline {
namespace {

constexpr uint64_t kMaxBatchBytes = uint64_t{1} << 40;  // keeps all size arithmetic in 64 bits

absl::Status StageError(const std::string& where, const std::string& stage,
                        const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": stage \"", stage, "\": ", what));
}

// Says where; a field that is missing is the plan's fault, so NOT_FOUND becomes INVALID_ARGUMENT.
absl::Status AtStage(const OpSpec& spec, const absl::Status& status) {
  const std::string context = absl::StrCat(spec.where, ": stage \"", spec.stage, "\"");
  if (!absl::IsNotFound(status)) return Annotate(status, context);
  return absl::InvalidArgumentError(absl::StrCat(context, ": ", status.message()));
}

OrderStep ToOrderStep(const proto::Stage& stage) {
  OrderStep step;
  step.stage = stage.name();
  if (stage.has_global_shuffle()) {
    step.kind = OrderStep::Kind::kGlobalShuffle;
    step.key = HashName(stage.name());
  } else if (stage.has_repeat()) {
    step.kind = OrderStep::Kind::kRepeat;
    step.count = stage.repeat().epochs();
  } else if (stage.has_take()) {
    step.kind = OrderStep::Kind::kTake;
    step.count = stage.take().count();
  } else {
    step.kind = OrderStep::Kind::kSkip;
    step.count = stage.skip().count();
  }
  return step;
}

// Source, order, batch and prefetch. Returns the number of the batch stage.
int FillFromStages(const proto::Pipeline& pipeline, PhysicalPlan* plan) {
  plan->seed = pipeline.seed();
  plan->semantics_version = pipeline.semantics_version();
  plan->sources.emplace_back();
  int batch = -1;
  for (int i = 0; i < pipeline.stage_size(); ++i) {
    const proto::Stage& stage = pipeline.stage(i);
    switch (KindOf(stage)) {
      case StageKind::kSource:
        plan->sources[0].file_patterns.assign(stage.tfrecord().files().begin(),
                                   stage.tfrecord().files().end());
        plan->sources[0].compression = stage.tfrecord().compression();
        plan->sources[0].verify_crc = !stage.tfrecord().skip_crc();
        plan->sources[0].max_record_bytes = stage.tfrecord().max_record_bytes();
        break;
      case StageKind::kOrder:
        (batch < 0 ? plan->order.steps : plan->batch_order).push_back(ToOrderStep(stage));
        break;
      case StageKind::kBatch:
        batch = i;
        plan->batch.size = stage.batch().size();
        plan->batch.drop_remainder = stage.batch().drop_remainder();
        break;
      case StageKind::kPrefetch:
        plan->prefetch_batches = static_cast<int>(stage.prefetch().batches());
        break;
      case StageKind::kMap:
        break;  // OpsFromPlan
    }
  }
  return batch;
}

// "image/encoded -> image: uint8[?, ?, 3]"
std::string Summary(const OpSpec& spec, const Schema& after) {
  const OpFields fields = FieldsOf(spec.options);
  std::string text = absl::StrCat(OpName(spec.options), ": ");
  for (size_t i = 0; i < fields.reads.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", fields.reads[i]);
  }
  text += " -> ";
  for (size_t i = 0; i < fields.writes.size(); ++i) {
    const Field* field = after.Find(fields.writes[i]);
    absl::StrAppend(&text, i == 0 ? "" : ", ",
                    field == nullptr ? fields.writes[i] : Schema({*field}).ToString());
  }
  return text;
}

// Makes and resolves the ops in order; returns the schema behind the last.
absl::StatusOr<Schema> MakeOps(const std::vector<OpSpec>& specs, const OpFactory& factory,
                               PhysicalPlan* plan) {
  Schema schema({{readers::kRecordField, DType::kBytes, Shape{Shape::kUnknown}}});
  for (const OpSpec& spec : specs) {
    absl::StatusOr<std::unique_ptr<Op>> op = factory(spec);
    if (!op.ok()) return AtStage(spec, op.status());
    absl::StatusOr<Schema> after = (*op)->Resolve(schema);
    if (!after.ok()) return AtStage(spec, after.status());
    schema = *std::move(after);
    plan->ops.push_back({spec.stage, Summary(spec, schema), *std::move(op), {}});
  }
  return schema;
}

// What is wrong with a batch of `field`, or "".
std::string WhyNotBatched(const Field& field) {
  if (field.name == readers::kRecordField && field.dtype == DType::kBytes) {
    return "samples are still whole records; add a parse_example stage before batch";
  }
  if (field.dtype == DType::kBytes) {
    return absl::StrCat("field \"", field.name,
                        "\" is bytes, which a batch cannot hold; decode it (decode_image) or leave "
                        "the feature out of parse_example");
  }
  if (!field.shape.IsKnown()) {
    return absl::StrCat("field \"", field.name, "\" differs in shape from sample to sample (",
                        Schema({field}).ToString(),
                        "); add resize or random_resized_crop before batch");
  }
  if (field.shape.rank() >= Shape::kMaxRank) {
    return absl::StrCat("field \"", field.name, "\" has too many extents for a batch");
  }
  return "";
}

absl::Status CheckBatch(const Schema& schema, uint64_t size, const std::string& where,
                        const std::string& stage) {
  if (schema.fields().empty()) return StageError(where, stage, "samples have no fields left");
  uint64_t left = kMaxBatchBytes / size;  // bytes that a row may still take
  for (const Field& field : schema.fields()) {
    const std::string why = WhyNotBatched(field);
    if (!why.empty()) return StageError(where, stage, why);
    uint64_t bytes = SizeOf(field.dtype);
    for (int64_t extent : field.shape.extents()) {
      const auto factor = static_cast<uint64_t>(extent);
      if (factor != 0 && bytes > left / factor) {
        return StageError(where, stage,
                          absl::StrCat("a batch of ", size, " rows would take over 1 TiB (",
                                       schema.ToString(), ")"));
      }
      bytes *= factor;
    }
    left -= std::min(left, bytes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PhysicalPlan> MakePhysicalPlan(const Plan& plan, const OptimizerOptions& options,
                                              const OpFactory& factory) {
  const PlanMessage& message = plan.message();
  PhysicalPlan physical;
  const int batch = FillFromStages(message.pipeline, &physical);
  physical.plan_fingerprint = plan.Fingerprint();

  std::vector<OpSpec> specs = OpsFromPlan(message);
  if (options.project) ProjectRule(&specs, &physical.rules);
  if (options.decode_region) DecodeRegionRule(&specs, &physical.rules);
  MILLRACE_ASSIGN_OR_RETURN(physical.batch_schema, MakeOps(specs, factory, &physical));
  MILLRACE_RETURN_IF_ERROR(CheckBatch(physical.batch_schema, physical.batch.size,
                                      message.Where(batch), message.pipeline.stage(batch).name()));
  if (options.map_into_batch) MapIntoBatchRule(specs, &physical);
  return physical;
}

}  // namespace millrace::pipeline
