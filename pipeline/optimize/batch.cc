#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/plan/message.h"

// The check that a batch can hold what samples have at its stage.

namespace millrace::pipeline {
namespace {

using Kind = BatchSpec::Kind;

constexpr uint64_t kMaxBatchBytes = uint64_t{1} << 40;  // keeps all size arithmetic in 64 bits
constexpr char kRowSplits[] = "/row_splits";

bool Varies(const Field& field) { return field.dtype == DType::kBytes || !field.shape.IsKnown(); }

std::string Described(const Field& field) { return Schema({field}).ToString(); }

// Advice for a field, of numbers, whose shape differs from sample to sample.
std::string AdviceFor(const Field& field) {
  constexpr int kImageRank = 3;
  if (field.shape.rank() >= kImageRank) return "add resize or random_resized_crop before batch";
  constexpr char kOthers[] = "take padded_batch or ragged_batch";
  return field.shape.rank() > 1 ? kOthers
                                : absl::StrCat("add pad_tokens before batch, or ", kOthers);
}

// The reason why a batch of `field` cannot have rows of one size; "": it can.
std::string WhyNotFixed(const Field& field) {
  if (field.name == readers::kRecordField && field.dtype == DType::kBytes) {
    return "samples are still whole records; add a parse_example stage before batch";
  }
  if (field.dtype == DType::kBytes) {
    return absl::StrCat(
        "field \"", field.name,
        "\" is bytes, which a batch cannot hold; decode it (decode_image), parse it "
        "(parse_example) or leave the feature out of parse_example");
  }
  if (!field.shape.IsKnown()) {
    return absl::StrCat("field \"", field.name, "\" differs in shape from sample to sample (",
                        Described(field), "); ", AdviceFor(field));
  }
  return "";
}

// The same for ragged_batch: only first extents may differ.
std::string WhyNotRagged(const Field& field, const Schema& schema) {
  if (!Varies(field)) return "";
  const auto inner = field.shape.extents().subspan(1);
  if (std::ranges::find(inner, Shape::kUnknown) != inner.end()) {
    return absl::StrCat("field \"", field.name, "\" differs in more than its first extent (",
                        Described(field), "); padded_batch takes it");
  }
  const std::string splits = field.name + kRowSplits;
  if (schema.Find(splits) == nullptr) return "";
  return absl::StrCat("there is a field \"", splits, "\", which is where the row splits of \"",
                      field.name, "\" go");
}

std::string WhyNotBatched(const Field& field, const Schema& schema, Kind kind) {
  const std::string why = kind == Kind::kFixed    ? WhyNotFixed(field)
                          : kind == Kind::kRagged ? WhyNotRagged(field, schema)
                                                  : "";
  if (!why.empty() || field.shape.rank() < Shape::kMaxRank) return why;
  return absl::StrCat("field \"", field.name, "\" has too many extents for a batch");
}

// The reason why this padding is wrong; "": it is not.
std::string WhyNotPadding(const BatchSpec::Padding& padding, const proto::Padding& text,
                          const Schema& schema) {
  const Field* field = schema.Find(padding.field);
  if (field == nullptr) return std::string(schema.CheckHas(padding.field).message());
  const DType dtype = field->dtype == DType::kBytes ? DType::kU8 : field->dtype;
  const bool whole = dtype == DType::kU8 || dtype == DType::kI32 || dtype == DType::kI64;
  if (whole && text.value_case() == proto::Padding::kFloatValue) {
    return absl::StrCat("field \"", padding.field, "\" holds whole numbers; give int_value");
  }
  const int64_t low = dtype == DType::kU8 ? 0 : dtype == DType::kI32 ? INT32_MIN : INT64_MIN;
  const int64_t high = dtype == DType::kU8 ? 255 : dtype == DType::kI32 ? INT32_MAX : INT64_MAX;
  if (padding.int_value >= low && padding.int_value <= high) return "";
  return absl::StrCat("padding ", padding.int_value, " does not fit field \"", padding.field,
                      "\" (", Described(*field), ")");
}

// Unknown extents count as one: how much a batch of them takes is known when it is closed.
absl::Status CheckSize(const BatchSpec& batch, const Schema& schema, const std::string& where) {
  uint64_t left = kMaxBatchBytes / batch.size;  // bytes that a row may still take
  for (const Field& field : schema.fields()) {
    uint64_t bytes = field.dtype == DType::kBytes ? 1 : SizeOf(field.dtype);
    for (int64_t extent : field.shape.extents()) {
      if (extent == Shape::kUnknown) continue;
      const auto factor = static_cast<uint64_t>(extent);
      if (factor != 0 && bytes > left / factor) {
        return StageError(where, batch.stage,
                          absl::StrCat("a batch of ", batch.size, " rows would take over 1 TiB (",
                                       schema.ToString(), ")"));
      }
      bytes *= factor;
    }
    left -= std::min(left, bytes);
  }
  return absl::OkStatus();
}

absl::Status CheckLength(const BatchSpec& batch, const Schema& schema, const std::string& where) {
  if (batch.kind != Kind::kBucket) return absl::OkStatus();
  const Field* field = schema.Find(batch.length_field);
  if (field == nullptr) {
    return AtStage(where, batch.stage, schema.CheckHas(batch.length_field));
  }
  if (batch.length_is_value) {
    const bool whole =
        field->dtype == DType::kU8 || field->dtype == DType::kI32 || field->dtype == DType::kI64;
    if (whole && field->shape.rank() == 0) return absl::OkStatus();
    return StageError(where, batch.stage,
                      absl::StrCat("key: field \"", field->name, "\" is not one whole number (",
                                   Described(*field), ")"));
  }
  if (field->shape.rank() > 0) return absl::OkStatus();
  return StageError(where, batch.stage,
                    absl::StrCat("field \"", field->name, "\" is one number (", Described(*field),
                                 "); the length is the first extent of a field"));
}

absl::Status CheckPaddings(const PlanMessage& message, int stage_number, const PhysicalPlan& plan) {
  const proto::Stage& stage = message.pipeline.stage(stage_number);
  const auto& texts = stage.has_padded_batch() ? stage.padded_batch().padding()
                                               : stage.bucket_by_length().padding();
  for (int i = 0; i < texts.size(); ++i) {
    const std::string why =
        WhyNotPadding(plan.batch.padding[static_cast<size_t>(i)], texts[i], plan.batch_schema);
    if (why.empty()) continue;
    return StageError(message.Where(stage_number, "padding", i), plan.batch.stage, why);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FillBatch(const PlanMessage& message, int batch_stage, PhysicalPlan* plan) {
  BatchSpec& batch = plan->batch;
  const Schema& schema = plan->batch_schema;
  const std::string where = message.Where(batch_stage);
  if (schema.fields().empty()) return StageError(where, batch.stage, "samples have no fields left");
  for (const Field& field : schema.fields()) {
    const std::string why = WhyNotBatched(field, schema, batch.kind);
    if (!why.empty()) return StageError(where, batch.stage, why);
  }
  MILLRACE_RETURN_IF_ERROR(CheckSize(batch, schema, where));
  MILLRACE_RETURN_IF_ERROR(CheckLength(batch, schema, where));
  MILLRACE_RETURN_IF_ERROR(CheckPaddings(message, batch_stage, *plan));

  std::vector<std::string> extents_of;
  for (const Field& field : schema.fields()) {
    const bool is_length = field.name == batch.length_field && !batch.length_is_value;
    if (Varies(field) || is_length) extents_of.push_back(field.name);
  }
  if (extents_of.empty() && !batch.length_is_value) {
    batch.kind = Kind::kFixed;
    batch.padding.clear();
    return absl::OkStatus();
  }
  if (plan->window) {
    return StageError(where, batch.stage,
                      absl::StrCat("field \"", extents_of.front(),
                                   "\" differs in shape from sample "
                                   "to sample (",
                                   Described(*schema.Find(extents_of.front())),
                                   "), which a plan with a window cannot batch"));
  }
  if (!plan->cut) plan->cut.emplace();
  plan->cut->extents_of = std::move(extents_of);
  if (batch.length_is_value) plan->cut->value_of = batch.length_field;
  return absl::OkStatus();
}

}  // namespace millrace::pipeline
