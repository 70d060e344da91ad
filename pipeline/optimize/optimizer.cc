#include "pipeline/optimize/optimizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "pipeline/plan/message.h"
#include "pipeline/stages/cut_ops.h"

namespace millrace::pipeline {
namespace {

// "image/encoded -> image: uint8[?, ?, 3]"
std::string Summary(const OpSpec& spec, const Schema& after) {
  const OpFields fields = FieldsOf(spec.options);
  const std::string name = OpName(spec.options);
  if (spec.is_filter()) return absl::StrCat(name, ": checks what was kept");
  if (fields.any) return absl::StrCat(name, ": -> ", after.ToString());
  if (fields.reads.empty() && fields.writes.empty()) return name;
  std::string text = absl::StrCat(name, ": ", absl::StrJoin(fields.reads, ", "), " -> ");
  for (size_t i = 0; i < fields.writes.size(); ++i) {
    const Field* field = after.Find(fields.writes[i]);
    absl::StrAppend(&text, i == 0 ? "" : ", ",
                    field == nullptr ? fields.writes[i] : Schema({*field}).ToString());
  }
  return text;
}

absl::Status ParseFilters(std::vector<OpSpec>* specs) {
  for (OpSpec& spec : *specs) {
    auto* filter = std::get_if<FilterOptions>(&spec.options);
    if (filter == nullptr) continue;
    absl::StatusOr<Predicate> predicate = Predicate::Parse(filter->text);
    if (!predicate.ok()) return AtStage(filter->where, spec.stage, predicate.status());
    filter->predicate = *std::move(predicate);
  }
  return absl::OkStatus();
}

// The fields of samples before the first map.
Schema SourceSchema(const PhysicalPlan& plan) {
  const auto field = [](std::string name, bool numbers) {
    return numbers ? Field{std::move(name), DType::kI64, {}}
                   : Field{std::move(name), DType::kBytes, {Shape::kUnknown}};
  };
  if (!plan.zip.has_value()) {
    const SourceSpec::Kind kind = plan.sources[0].kind;  // the others are like it
    if (kind == SourceSpec::Kind::kRange) return Schema({field(kValueField, true)});
    Schema schema({field(readers::kRecordField, false)});
    if (kind == SourceSpec::Kind::kImageFolder) schema.Set(field(kLabelField, true));
    return schema;
  }
  Schema schema;
  for (const ZipPlan::Input& input : plan.zip->inputs) {
    schema.Set(field(input.field, input.numbers));
  }
  return schema;
}

// Names the fields of an unbatch that has none: all there are.
void NameSplitFields(const Schema& schema, OpSpec* spec) {
  auto* unbatch = std::get_if<UnbatchOptions>(&spec->options);
  if (unbatch == nullptr || !unbatch->fields.empty()) return;
  for (const Field& field : schema.fields()) unbatch->fields.push_back(field.name);
}

// Makes the ops of pass 2 in order. Returns the schemas before each spec and behind the last.
absl::StatusOr<std::vector<Schema>> MakeOps(const OpMaker& maker, std::vector<OpSpec>* specs,
                                            PhysicalPlan* plan) {
  std::vector<Schema> schemas = {SourceSchema(*plan)};
  for (OpSpec& spec : *specs) {
    Schema schema = schemas.back();
    NameSplitFields(schema, &spec);
    if (const auto* filter = std::get_if<FilterOptions>(&spec.options)) {
      // Pass 1 has its own; this says what is wrong in terms of all fields that there are.
      Predicate predicate = *filter->predicate;
      const absl::Status status = predicate.Resolve(schema);
      if (!status.ok()) return AtStage(filter->where, spec.stage, status);
    }
    if (!spec.is_filter() || spec.is_materialized()) {
      MILLRACE_ASSIGN_OR_RETURN(PhysicalOp op, maker.Make(spec, &schema));
      plan->ops.push_back(std::move(op));
    }
    schemas.push_back(std::move(schema));
  }
  return schemas;
}

// True if pass 2 has no op for it.
bool IsNoOp(const OpSpec& spec) { return spec.is_filter() && !spec.is_materialized(); }

// Ops have been made and checked one by one, so that errors name their own stage; those that are
// fused are made again.
absl::Status FuseOps(const OpMaker& maker, std::vector<Schema> before, std::vector<OpSpec>* specs,
                     PhysicalPlan* plan) {
  FuseImageRule(specs, &before, &plan->rules);
  std::vector<PhysicalOp> ops;
  size_t next = 0;  // the index of the next of plan->ops
  for (size_t i = 0; i < specs->size(); ++i) {
    const OpSpec& spec = (*specs)[i];
    if (IsNoOp(spec)) continue;
    const auto* const fused = std::get_if<augment::FusedImageOptions>(&spec.options);
    if (fused == nullptr) {
      ops.push_back(std::move(plan->ops[next++]));
      continue;
    }
    MILLRACE_ASSIGN_OR_RETURN(PhysicalOp op, maker.Make(spec, &before[i]));
    ops.push_back(std::move(op));
    next += fused->num_stages();
  }
  plan->ops = std::move(ops);
  return absl::OkStatus();
}

// Stages that mix rows: their fields, and that rows are in the same place in every world.
absl::Status CheckBatchMixing(const PlanMessage& message, const PhysicalPlan& plan) {
  for (const BatchOpSpec& spec : plan.batch_ops) {
    if (!spec.mixing) continue;
    const absl::Status status = augment::CheckMixedFields(*spec.mixing, plan.batch_schema);
    if (!status.ok()) return AtStage(spec.where, spec.stage, status);
    if (plan.damage.policy != DamageSpec::Policy::kSkip || plan.cut) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        message.locations.At({{"on_damage"}, {"policy"}}),
        ": on_damage: with policy \"skip\" rows move up within a rank's slice where the plan has "
        "no "
        "cut, so that which rows stage \"",
        spec.stage, "\" mixes would depend on the world; take \"mask\" or \"replace\""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status StageError(const std::string& where, const std::string& stage,
                        const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": stage \"", stage, "\": ", what));
}

absl::Status AtStage(const std::string& where, const std::string& stage,
                     const absl::Status& status) {
  const std::string context = absl::StrCat(where, ": stage \"", stage, "\"");
  if (!absl::IsNotFound(status)) return Annotate(status, context);
  return absl::InvalidArgumentError(absl::StrCat(context, ": ", status.message()));
}

absl::Status OpMaker::CheckDecode(const DecodeRegionOptions& pair, const Schema& schema) const {
  augment::DecodeImageOptions decode = pair.decode;
  decode.dct_downscale = false;  // the downscale is that of the pair
  const absl::StatusOr<std::unique_ptr<Op>> op = factory_({pair.decode_stage, "", decode});
  const absl::Status status = op.ok() ? (*op)->Resolve(schema).status() : op.status();
  return status.ok() ? status : AtStage(pair.decode_where, pair.decode_stage, status);
}

absl::StatusOr<PhysicalOp> OpMaker::Make(const OpSpec& spec, Schema* schema) const {
  if (const auto* pair = std::get_if<DecodeRegionOptions>(&spec.options)) {
    MILLRACE_RETURN_IF_ERROR(CheckDecode(*pair, *schema));
  }
  const auto make = [&]() -> absl::StatusOr<std::unique_ptr<Op>> {
    if (const auto* filter = std::get_if<FilterOptions>(&spec.options)) {
      return MakeFilterCheck(*filter->predicate);
    }
    const auto* custom = std::get_if<CustomOptions>(&spec.options);
    if (custom == nullptr) return factory_(spec);
    if (custom_ != nullptr) return custom_(*custom);
    return absl::InvalidArgumentError(
        absl::StrCat("custom op \"", custom->op, "\" is not in the OpTable"));
  };
  absl::StatusOr<std::unique_ptr<Op>> op = make();
  if (!op.ok()) return AtStage(spec.where, spec.stage, op.status());
  absl::StatusOr<Schema> after = (*op)->Resolve(*schema);
  if (!after.ok()) return AtStage(spec.where, spec.stage, after.status());
  *schema = *std::move(after);
  return PhysicalOp{spec.stage, Summary(spec, *schema), *std::move(op), {}};
}

absl::StatusOr<PhysicalPlan> MakePhysicalPlan(const Plan& plan, const OptimizerOptions& options,
                                              const OpFactory& factory) {
  const PlanMessage& message = plan.message();
  PhysicalPlan physical;
  const int batch = FillFromStages(message, &physical);
  physical.plan_fingerprint = plan.Fingerprint();

  std::vector<OpSpec> specs = OpsFromPlan(message);
  MILLRACE_RETURN_IF_ERROR(ParseFilters(&specs));
  if (options.project) ProjectRule(&specs, &physical.rules);
  DecodeRegionRule(options.decode_region, &specs, &physical.rules);
  const OpMaker maker(factory, options.custom);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Schema> schemas, MakeOps(maker, &specs, &physical));
  physical.batch_schema = schemas.back();
  MILLRACE_RETURN_IF_ERROR(FillBatch(message, batch, &physical));
  MILLRACE_RETURN_IF_ERROR(CheckBatchMixing(message, physical));
  MILLRACE_RETURN_IF_ERROR(FillSelect(specs, schemas, maker, &physical));
  if (physical.cut) MILLRACE_RETURN_IF_ERROR(FillExamine(specs, schemas, maker, &physical));
  MILLRACE_RETURN_IF_ERROR(FillLengths(message, batch, specs, schemas, maker, &physical));
  if (options.fuse_image) {
    MILLRACE_RETURN_IF_ERROR(FuseOps(maker, schemas, &specs, &physical));
  }
  std::erase_if(specs, IsNoOp);
  if (options.map_into_batch) MapIntoBatchRule(specs, &physical);
  return physical;
}

absl::StatusOr<PhysicalPlan> BuildPhysicalPlan(const Plan& plan, const OptimizerOptions& options) {
  return MakePhysicalPlan(plan, options, MakeBuiltinOp);
}

}  // namespace millrace::pipeline
