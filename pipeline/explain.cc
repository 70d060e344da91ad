#include <google/protobuf/text_format.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "pipeline/explain_internal.h"
#include "pipeline/plan_message_internal.h"

namespace millrace::pipeline {
namespace {

std::string Bytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : 1, value, kUnits[unit]);
}

// "resize  field: "image" height: 8 width: 8"
std::string StageLine(const proto::Stage& stage) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.SetUseShortRepeatedPrimitives(true);
  printer.SetUseUtf8StringEscaping(true);
  const google::protobuf::Message& op = stage.GetReflection()->GetMessage(
      stage, stage.GetDescriptor()->FindFieldByNumber(stage.op_case()));
  std::string options;
  printer.PrintToString(op, &options);
  while (options.ends_with(' ')) options.pop_back();
  const std::string& op_name = OpName(stage);
  const std::string title =
      stage.name() == op_name ? op_name : absl::StrCat(stage.name(), " (", op_name, ")");
  return options.empty() ? title : absl::StrFormat("%-22s  %s", title, options);
}

void AppendLogical(const Plan& plan, std::string* text) {
  const proto::Pipeline& pipeline = plan.message().pipeline;
  absl::StrAppendFormat(text, "Logical plan%s  fingerprint %016x, seed %d, semantics %d\n",
                        pipeline.name().empty() ? "" : absl::StrCat(" \"", pipeline.name(), "\""),
                        plan.Fingerprint(), pipeline.seed(), pipeline.semantics_version());
  for (int i = 0; i < pipeline.stage_size(); ++i) {
    absl::StrAppendFormat(text, "  %2d  %s\n", i + 1, StageLine(pipeline.stage(i)));
  }
}

void AppendRules(const PhysicalPlan& physical, std::string* text) {
  absl::StrAppend(text, "\nRules\n");
  for (const std::string& rule : physical.rules) absl::StrAppend(text, "  ", rule, "\n");
  if (physical.rules.empty()) absl::StrAppend(text, "  none fired\n");
}

std::string StepText(const OrderStep& step) {
  switch (step.kind) {
    case OrderStep::Kind::kGlobalShuffle:
      return absl::StrFormat("%s: keyed permutation, key %016x", step.stage, step.key);
    case OrderStep::Kind::kRepeat:
      if (step.count == 0) return absl::StrCat(step.stage, ": again without end");
      return absl::StrCat(step.stage, ": ", step.count, " epochs");
    case OrderStep::Kind::kTake:
      return absl::StrCat(step.stage, ": the first ", step.count);
    case OrderStep::Kind::kSkip:
      return absl::StrCat(step.stage, ": without the first ", step.count);
    default:
      break;
  }
  return step.stage;
}

void AppendOrder(const char* title, const std::vector<OrderStep>& steps, std::string* text) {
  for (size_t i = 0; i < steps.size(); ++i) {
    absl::StrAppendFormat(text, "  %-8s%s\n", i == 0 ? title : "", StepText(steps[i]));
  }
}

uint64_t RowBytes(const Schema& schema) {
  uint64_t bytes = 0;
  for (const Field& field : schema.fields()) {
    bytes += SizeOf(field.dtype) * static_cast<uint64_t>(field.shape.num_elements());
  }
  return bytes;
}

void AppendOps(const std::vector<PhysicalOp>& ops, std::string* text) {
  for (size_t i = 0; i < ops.size(); ++i) {
    absl::StrAppendFormat(text, "  %-8s%s  [%s]\n", i == 0 ? "ops" : "", ops[i].summary,
                          ops[i].stage);
    if (ops[i].binds.empty()) continue;
    absl::StrAppendFormat(text, "  %-8s  stored into the batch: %s\n", "",
                          absl::StrJoin(ops[i].binds, ", "));
  }
}

void AppendPhysical(const PhysicalPlan& physical, std::string* text) {
  absl::StrAppendFormat(text, "\nPhysical plan\n  source  %s (compression %s, CRC %s)\n",
                        absl::StrJoin(physical.sources[0].file_patterns, ", "), physical.sources[0].compression,
                        physical.sources[0].verify_crc ? "checked" : "not checked");
  AppendOrder("order", physical.order.steps, text);
  AppendOps(physical.ops, text);
  const uint64_t row_bytes = RowBytes(physical.batch_schema);
  absl::StrAppendFormat(text, "  batch   %d rows of %s = %s; a last batch that is not full is %s\n",
                        physical.batch.size, Bytes(row_bytes),
                        Bytes(row_bytes * physical.batch.size),
                        physical.batch.drop_remainder ? "left out" : "padded and masked");
  for (const Field& field : physical.batch_schema.fields()) {
    absl::StrAppendFormat(text, "            %s\n", Schema({field}).ToString());
  }
  AppendOrder("batches", physical.batch_order, text);
  absl::StrAppendFormat(text, "  ring    %d batches ahead\n", physical.prefetch_batches);
}

std::string CountText(const std::optional<uint64_t>& count) {
  return count ? absl::StrCat(*count) : "without end";
}

void AppendSource(const PhysicalPlan& physical, const SourceFacts& facts, std::string* text) {
  const std::optional<uint64_t> samples = CountAfter(facts.records, physical.order.steps);
  std::optional<uint64_t> batches;
  if (samples) {
    const bool ragged = *samples % physical.batch.size != 0 && !physical.batch.drop_remainder;
    batches = *samples / physical.batch.size + (ragged ? 1 : 0);
  }
  batches = CountAfter(batches, physical.batch_order);
  // batch_size <= 2^31 and world is an int, so the products fit.
  const auto world = static_cast<uint64_t>(facts.world);
  const auto rank = static_cast<uint64_t>(facts.rank);
  const uint64_t first = rank * physical.batch.size / world;
  const uint64_t end = (rank + 1) * physical.batch.size / world;
  absl::StrAppendFormat(text, "\nSource\n  shards  %d\n  records %d (%s)\n", facts.shards,
                        facts.records, Bytes(facts.bytes));
  absl::StrAppend(text, "  samples ", CountText(samples), "\n  batches ", CountText(batches), "\n");
  absl::StrAppendFormat(text, "  rows    [%d, %d) of every batch on rank %d of %d\n", first, end,
                        facts.rank, facts.world);
}

}  // namespace

std::optional<uint64_t> CountAfter(std::optional<uint64_t> count,
                                   const std::vector<OrderStep>& steps) {
  for (const OrderStep& step : steps) {
    switch (step.kind) {
      case OrderStep::Kind::kGlobalShuffle:
        break;
      case OrderStep::Kind::kRepeat:
        if (count == 0u) break;  // nothing, again and again, is nothing
        if (step.count == 0) {
          count.reset();
        } else if (count) {
          count = *count > UINT64_MAX / step.count ? UINT64_MAX : *count * step.count;
        }
        break;
      case OrderStep::Kind::kTake:
        count = std::min(count.value_or(UINT64_MAX), step.count);
        break;
      case OrderStep::Kind::kSkip:
        if (count) count = *count - std::min(*count, step.count);
        break;
      default:
        break;
    }
  }
  return count;
}

std::string ExplainText(const Plan& plan, const PhysicalPlan& physical,
                        const std::optional<SourceFacts>& facts) {
  std::string text;
  AppendLogical(plan, &text);
  AppendRules(physical, &text);
  AppendPhysical(physical, &text);
  if (facts) AppendSource(physical, *facts, &text);
  return text;
}

}  // namespace millrace::pipeline
