#include <charconv>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/bytes_text.h"
#include "base/number_text.h"
#include "base/status.h"
#include "pipeline/explain/explain.h"

namespace millrace::pipeline {
namespace {

// "1 filter", "2 filters"
std::string Count(uint64_t n, const char* what) {
  return absl::StrCat(Grouped(n), " ", what, n == 1 ? "" : "s");
}

std::string GlobalShuffleText(const OrderStep& step) {
  const std::string key = absl::StrFormat(", key %016x", step.key);
  if (step.count == 0) return "keyed permutation" + key;
  const std::string window = step.second == 0 ? absl::StrCat(kWindowBlocks, " blocks")
                                              : absl::StrCat(Grouped(step.second), " records");
  return absl::StrCat("blocks of about ", BytesText(step.count), ", mixed within windows of ",
                      window, key);
}

std::string StepText(const OrderStep& step) {
  switch (step.kind) {
    case OrderStep::Kind::kInterleave:
      return absl::StrCat(step.stage, ": ", Count(step.count, "file"), " at once, ",
                          Count(step.second, "record"), " of each in turn",
                          step.shuffle_files ? ", files shuffled" : "");
    case OrderStep::Kind::kShuffle:
      return absl::StrFormat("%s: buffer %s ids, no payload, key %016x", step.stage,
                             Grouped(step.count), step.key);
    case OrderStep::Kind::kGlobalShuffle:
      return absl::StrCat(step.stage, ": ", GlobalShuffleText(step));
    case OrderStep::Kind::kShard:
      if (step.by_bytes) {
        return absl::StrCat(step.stage, ": consecutive records, by bytes part ", step.second + 1,
                            " of ", step.count);
      }
      return absl::StrCat(step.stage, ": elements ", step.second, ", ", step.second, " + ",
                          step.count, ", ...");
    case OrderStep::Kind::kRepeat:
      if (step.count == 0) return absl::StrCat(step.stage, ": again without end");
      return absl::StrCat(step.stage, ": ", step.count, " epochs");
    case OrderStep::Kind::kTake:
      return absl::StrCat(step.stage, ": the first ", step.count);
    case OrderStep::Kind::kSkip:
      return absl::StrCat(step.stage, ": without the first ", step.count);
  }
  return step.stage;
}

// Lines under one title, which only the first of them shows.
class Block {
 public:
  Block(const char* title, std::string* text) : title_(title), text_(text) {}
  void Add(const std::string& line, size_t indent = 0) {
    absl::StrAppendFormat(text_, "  %-8s%s%s\n", title_, std::string(indent, ' '), line);
    title_ = "";
  }

 private:
  const char* title_;
  std::string* const text_;
};

std::string SourceText(const SourceSpec& source) {
  switch (source.kind) {
    case SourceSpec::Kind::kRange:
      return absl::StrCat("the numbers from 0 to ", source.count - 1);
    case SourceSpec::Kind::kPush:
      return "records that the host program pushes";
    case SourceSpec::Kind::kMemory:
      return "records that the host program has in memory";
    case SourceSpec::Kind::kImageFolder:
      return absl::StrCat(source.folder, " (images, ",
                          source.label ? absl::StrCat("label ", *source.label)
                          : source.classes.empty() && source.classes_file.empty()
                              ? "labels by their folders"
                              : "labels by the classes given",
                          ")");
    case SourceSpec::Kind::kFiles:
      break;
  }
  const bool has_crc = source.container.kind == readers::ContainerKind::kTfRecord;
  return absl::StrCat(
      absl::StrJoin(source.file_patterns, ", "), " (",
      has_crc ? "" : readers::ToString(source.container) + ", ", "compression ", source.compression,
      !has_crc            ? ""
      : source.verify_crc ? ", CRC checked"
                          : ", CRC not checked",
      source.dali_index.empty() ? ""
                                : ", those that are in " + absl::StrJoin(source.dali_index, ", "),
      ")");
}

void AppendSources(const PhysicalPlan& physical, std::string* text) {
  Block block("source", text);
  for (const SourceSpec& source : physical.sources) {
    const bool alone = physical.sources.size() == 1;
    block.Add(
        absl::StrCat(SourceText(source), alone ? "" : absl::StrCat("  [", source.stage, "]")));
  }
}

// The records that materialized filters keep; the opened source tells how many.
void AppendSelect(const SelectPlan& select, std::string* text) {
  Block block("select", text);
  for (const ExamineStep& step : select.scan->cut->examine) {
    if (step.kind != ExamineStep::Kind::kFilter) continue;
    block.Add(absl::StrCat("records with ", step.filter->text(), "; kept beside the index  [",
                           step.stage, "]"));
  }
}

void AddOrder(const OrderPlan& order, const PhysicalPlan& physical, size_t indent, Block* block);

// Input k of a join, deeper by four columns.
void AddInput(size_t k, const OrderPlan& input, const PhysicalPlan& physical, size_t indent,
              Block* block) {
  const bool is_source = input.root == OrderPlan::Root::kSource;
  block->Add(
      absl::StrCat("input ", k + 1, is_source ? ": " + physical.sources[input.source].stage : ""),
      indent + 2);
  AddOrder(input, physical, indent + 4, block);
}

// A join and its inputs, then the steps behind it.
void AddOrder(const OrderPlan& order, const PhysicalPlan& physical, size_t indent, Block* block) {
  if (order.root == OrderPlan::Root::kConcatenate) {
    block->Add(absl::StrCat(order.stage, ": ", Count(order.inputs.size(), "input"),
                            ", one after the other"),
               indent);
  } else if (order.root == OrderPlan::Root::kMix) {
    block->Add(absl::StrFormat("%s: %s, shares %s, key %016x", order.stage,
                               Count(order.inputs.size(), "input"),
                               absl::StrJoin(order.weights, " : "), order.key),
               indent);
  }
  for (size_t k = 0; k < order.inputs.size(); ++k) {
    AddInput(k, order.inputs[k], physical, indent, block);
  }
  for (const OrderStep& step : order.steps) block->Add(StepText(step), indent);
}

void AddZip(const ZipPlan& zip, const PhysicalPlan& physical, Block* block) {
  const auto field = [](std::string* text, const ZipPlan::Input& input) { *text += input.field; };
  block->Add(absl::StrCat(zip.stage, ": ", Count(zip.inputs.size(), "input"), " side by side, as ",
                          absl::StrJoin(zip.inputs, ", ", field)));
  for (size_t k = 0; k < zip.inputs.size(); ++k) {
    AddInput(k, zip.inputs[k].order, physical, 0, block);
  }
}

// "window: 24 elements, 2 apart, a window every 3: each element is in about 8"
std::string WindowText(const WindowPlan& window) {
  std::string text = absl::StrCat(window.stage, ": ", Count(window.size, "element"));
  if (window.stride != 1) absl::StrAppend(&text, ", ", Grouped(window.stride), " apart");
  absl::StrAppend(&text, ", a window every ", Grouped(window.shift));
  const uint64_t windows = (window.size + window.shift - 1) / window.shift;
  if (windows > 1) absl::StrAppend(&text, ": each element is in about ", Grouped(windows));
  return text;
}

void AppendExamine(const CutPlan& cut, std::string* text) {
  Block block("pass 1", text);
  for (const ExamineStep& step : cut.examine) {
    switch (step.kind) {
      case ExamineStep::Kind::kOp:
        block.Add(absl::StrCat(step.op.summary, "  [", step.stage, "]"));
        break;
      case ExamineStep::Kind::kFilter:
        block.Add(absl::StrCat("filter: ", step.filter->text(), "  [", step.stage, "]"));
        break;
      case ExamineStep::Kind::kUnbatch:
        block.Add(
            absl::StrCat("unbatch: ", absl::StrJoin(step.split, ", "), "  [", step.stage, "]"));
        break;
    }
  }
  if (!cut.extents_of.empty()) {
    block.Add(absl::StrCat("extents of ", absl::StrJoin(cut.extents_of, ", ")));
  }
  if (!cut.value_of.empty()) block.Add(absl::StrCat("the value of ", cut.value_of));
}

std::string SettleText(const SettleStep& step) {
  const std::string behind =
      step.after_filters == 0
          ? ""
          : absl::StrCat(" behind ", Count(static_cast<uint64_t>(step.after_filters), "filter"));
  switch (step.kind) {
    case SettleStep::Kind::kTake:
      return absl::StrCat(step.stage, ": the first ", step.count, behind);
    case SettleStep::Kind::kSkip:
      return absl::StrCat(step.stage, ": without the first ", step.count, behind);
    case SettleStep::Kind::kShuffle:
      break;
  }
  return absl::StrFormat("%s: buffer %s rows over all lanes%s, no payload, key %016x", step.stage,
                         Grouped(step.count), behind, step.key);
}

void AppendOps(const char* title, const std::vector<PhysicalOp>& ops, std::string* text) {
  Block block(title, text);
  for (const PhysicalOp& op : ops) {
    block.Add(absl::StrCat(op.summary, "  [", op.stage, "]"));
    if (op.binds.empty()) continue;
    block.Add("stored into the batch: " + absl::StrJoin(op.binds, ", "), 2);
  }
}

uint64_t RowBytes(const Schema& schema) {
  uint64_t bytes = 0;
  for (const Field& field : schema.fields()) {
    bytes += SizeOf(field.dtype) * static_cast<uint64_t>(field.shape.num_elements());
  }
  return bytes;
}

std::string BucketText(const BatchSpec& batch) {
  std::string text =
      absl::StrCat(batch.length_is_value ? "by " : "by length of ", batch.length_field, ":");
  for (size_t i = 0; i < batch.boundaries.size(); ++i) {
    absl::StrAppend(&text, " below ", batch.boundaries[i], " ", Count(batch.bucket_sizes[i], "row"),
                    ",");
  }
  absl::StrAppend(&text, " else ", Count(batch.bucket_sizes.back(), "row"), "; padded to ",
                  batch.pad_to_boundary ? "the bucket's boundary" : "the longest");
  return text;
}

std::string BatchText(const BatchSpec& batch, const Schema& schema) {
  switch (batch.kind) {
    case BatchSpec::Kind::kPadded:
      return absl::StrCat(Count(batch.size, "row"), ", padded to the largest");
    case BatchSpec::Kind::kRagged:
      return absl::StrCat(Count(batch.size, "row"), ", values and row splits");
    case BatchSpec::Kind::kBucket:
      return BucketText(batch);
    case BatchSpec::Kind::kFixed:
      break;
  }
  const uint64_t row_bytes = RowBytes(schema);
  return absl::StrCat(batch.size, " rows of ", BytesText(row_bytes), " = ",
                      BytesText(row_bytes * batch.size));
}

// The number with as many digits as tell it from every other number.
std::string FloatText(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

std::string PaddingText(const BatchSpec::Padding& padding, const Schema& schema) {
  const DType dtype = schema.Find(padding.field)->dtype;
  const bool is_float =
      dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32 || dtype == DType::kF64;
  return absl::StrCat(padding.field, " is padded with ",
                      is_float ? FloatText(padding.float_value) : absl::StrCat(padding.int_value));
}

void AppendBatch(const PhysicalPlan& physical, std::string* text) {
  const BatchSpec& batch = physical.batch;
  Block block("batch", text);
  block.Add(absl::StrCat(BatchText(batch, physical.batch_schema),
                         "; a last batch that is not full is ",
                         batch.drop_remainder ? "left out" : "padded and masked"));
  for (const Field& field : physical.batch_schema.fields()) {
    block.Add(Schema({field}).ToString(), 2);
  }
  for (const BatchSpec::Padding& padding : batch.padding) {
    block.Add(PaddingText(padding, physical.batch_schema), 2);
  }
}

// "mask: the row stays empty; at most 10 % of the samples"
std::string DamageText(const DamageSpec& damage) {
  std::string text;
  switch (damage.policy) {
    case DamageSpec::Policy::kFail:
      break;  // goes without saying
    case DamageSpec::Policy::kSkip:
      text = "skip: rows move up";
      break;
    case DamageSpec::Policy::kMask:
      text = "mask: the row stays empty";
      break;
    case DamageSpec::Policy::kReplace:
      text = "replace: another record stands there";
      break;
  }
  if (damage.max_count != 0)
    absl::StrAppend(&text, "; at most ", Count(damage.max_count, "sample"));
  if (damage.max_share != 0 && damage.max_share < 1) {
    absl::StrAppend(&text, "; at most ", damage.max_share * 100, " % of the samples");
  }
  return text;
}

// "mixup of image and label within groups of 2 rows: alpha 0.2, probability 1"
std::string MixingText(const augment::BatchMixingOptions& mixing) {
  using augment::BatchMixingKind;
  std::string text =
      absl::StrCat(ToAbsl(augment::NameOf(mixing.kind)), " of ", mixing.field, " and ",
                   mixing.label, " within groups of ", Count(mixing.group, "row"), ":");
  if (mixing.kind == BatchMixingKind::kEither) {
    absl::StrAppend(&text, " alpha ", mixing.mixup_alpha, " and ", mixing.cutmix_alpha,
                    ", cutmix with probability ", mixing.switch_probability);
  } else {
    const bool is_cutmix = mixing.kind == BatchMixingKind::kCutmix;
    absl::StrAppend(&text, " alpha ", is_cutmix ? mixing.cutmix_alpha : mixing.mixup_alpha);
  }
  return absl::StrCat(text, ", probability ", mixing.probability);
}

std::string LanesText(const PhysicalPlan& physical) {
  if (LanesAreFree(physical)) {
    return absl::StrCat(physical.lanes, ", or as many as the world needs: at most ",
                        Count(physical.batch.size, "rank"));
  }
  std::string text =
      absl::StrCat(physical.lanes, ", and more ranks divide the rows of a batch: at most ",
                   Count(SmallestBatch(physical), "rank"));
  const bool is_pushed = physical.sources.front().kind == SourceSpec::Kind::kPush;
  if (!is_pushed && !RanksKnowBatches(physical, /*endless=*/true)) {
    absl::StrAppend(&text, ", or ", physical.lanes, " of an input without end");
  }
  return text;
}

}  // namespace

std::string PhysicalText(const PhysicalPlan& physical) {
  std::string text = "\nPhysical plan\n";
  AppendSources(physical, &text);
  if (physical.select) AppendSelect(*physical.select, &text);
  Block order("order", &text);
  if (physical.zip) AddZip(*physical.zip, physical, &order);
  if (physical.window) {
    AddOrder(physical.window->order, physical, 0, &order);
    order.Add(WindowText(*physical.window));
  }
  AddOrder(physical.order, physical, 0, &order);
  if (physical.cut) {
    AppendExamine(*physical.cut, &text);
    Block settle("settle", &text);
    for (const SettleStep& step : physical.cut->settle) settle.Add(SettleText(step));
    if (physical.lengths) {
      Block("lengths", &text).Add("kept beside the index, so that pass 1 reads no record");
    }
    Block("lanes", &text).Add(LanesText(physical));
  }
  AppendOps(physical.cut ? "pass 2" : "ops", physical.ops, &text);
  AppendBatch(physical, &text);
  Block batches("batches", &text);
  for (const OrderStep& step : physical.batch_order) batches.Add(StepText(step));
  for (const BatchOpSpec& op : physical.batch_ops) {
    Block(op.mixing ? "mixing" : "custom", &text)
        .Add(absl::StrCat(op.mixing
                              ? MixingText(*op.mixing)
                              : absl::StrCat(op.op, " version ", op.version, " on whole batches"),
                          "  [", op.stage, "]"));
  }
  if (physical.damage.policy != DamageSpec::Policy::kFail) {
    Block("damage", &text).Add(DamageText(physical.damage));
  }
  Block("ring", &text)
      .Add(physical.prefetch_batches == 0
               ? "2 batches ahead; up to 32 that fit a MiB together"
               : absl::StrCat(physical.prefetch_batches, " batches ahead"));
  return text;
}

}  // namespace millrace::pipeline
