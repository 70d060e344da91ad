#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "pipeline/explain/explain.h"
#include "pipeline/order/sample_windows.h"

// How many records, samples and batches there are, as far as that is known without looking at them.

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;

constexpr uint64_t kKnown = uint64_t{1} << 62;

uint64_t SaturatingSum(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

uint64_t ShardSize(uint64_t count, const OrderStep& step) {
  if (count <= step.second) return 0;
  return (count - step.second - 1) / step.count + 1;
}

std::optional<uint64_t> RepeatSize(std::optional<uint64_t> count, uint64_t epochs) {
  if (count == 0u) return count;  // nothing, again and again, is nothing
  if (!count || epochs == 0) return std::nullopt;
  return *count > UINT64_MAX / epochs ? UINT64_MAX : *count * epochs;
}

// The count behind one step over `count` elements; nullopt: without end.
std::optional<uint64_t> CountAfterStep(std::optional<uint64_t> count, const OrderStep& step) {
  switch (step.kind) {
    case Kind::kRepeat:
      return RepeatSize(count, step.count);
    case Kind::kTake:
      return std::min(count.value_or(UINT64_MAX), step.count);
    case Kind::kSkip:
      return count ? std::optional(*count - std::min(*count, step.count)) : count;
    case Kind::kShard:
      if (step.by_bytes) return count;  // at most
      return count ? std::optional(ShardSize(*count, step)) : count;
    case Kind::kInterleave:
    case Kind::kShuffle:
    case Kind::kGlobalShuffle:
      break;
  }
  return count;
}

StreamCount CountOfJoin(const OrderPlan& order, const SourceFacts& facts) {
  StreamCount sum{0};
  bool some_end = false;
  for (const OrderPlan& input : order.inputs) {
    const StreamCount count = CountOf(input, facts);
    sum.exact &= count.exact;
    some_end |= count.count.has_value();
    if (!count.count) {
      sum.count.reset();
    } else if (sum.count) {
      sum.count = SaturatingSum(*sum.count, *count.count);
    }
  }
  if (order.root == OrderPlan::Root::kConcatenate) return sum;
  if (!some_end) return sum;
  // A mix ends with the first input that does.
  return sum.count ? StreamCount{sum.count, false} : StreamCount::Unknown();
}

// The number of samples of a pass: as many as the shortest input has.
StreamCount CountOfZip(const ZipPlan& zip, const SourceFacts& facts) {
  StreamCount least{std::nullopt};
  for (const ZipPlan::Input& input : zip.inputs) {
    const StreamCount count = CountOf(input.order, facts);
    least.exact &= count.exact;
    if (count.count) least.count = std::min(least.count.value_or(UINT64_MAX), *count.count);
  }
  return least;
}

// The number of windows that are full.
StreamCount CountOfWindows(StreamCount elements, const WindowPlan& window) {
  if (!elements.count) return elements;
  elements.count = FullWindows(window, *elements.count);
  return elements;
}

// Rows that are left behind the cut.
StreamCount CountBehindCut(StreamCount count, const CutPlan& cut) {
  for (const ExamineStep& step : cut.examine) {
    if (step.kind == ExamineStep::Kind::kOp || !count.count) continue;
    if (step.kind == ExamineStep::Kind::kUnbatch) count = StreamCount::Unknown();
    count.exact = false;
  }
  for (const SettleStep& step : cut.settle) {
    if (step.kind == SettleStep::Kind::kShuffle) continue;
    OrderStep same;
    same.kind = step.kind == SettleStep::Kind::kTake ? Kind::kTake : Kind::kSkip;
    same.count = step.count;
    count = CountAfter(count, {same});
  }
  return count;
}

StreamCount BatchesOf(const StreamCount& samples, const BatchSpec& batch) {
  if (!samples.count) return samples;
  if (batch.kind == BatchSpec::Kind::kBucket) return StreamCount::Unknown();
  const bool ragged = *samples.count % batch.size != 0 && !batch.drop_remainder;
  return {*samples.count / batch.size + (ragged ? 1 : 0), samples.exact};
}

void StepsOf(const OrderPlan& order, std::vector<OrderStep> behind,
             std::vector<std::vector<OrderStep>>* steps) {
  behind.insert(behind.begin(), order.steps.begin(), order.steps.end());
  if (order.root == OrderPlan::Root::kSource) {
    if (order.source < steps->size()) (*steps)[order.source] = std::move(behind);
    return;
  }
  for (const OrderPlan& input : order.inputs) StepsOf(input, behind, steps);
}

void AppendSources(const PhysicalPlan& physical, const SourceFacts& facts, std::string* text) {
  SourceFacts::Source sum;
  for (const SourceFacts::Source& source : facts.sources) {
    sum.shards += source.shards;
    sum.records = SaturatingSum(sum.records, source.records);
    sum.bytes += source.bytes;
    sum.known &= source.known;
    if (source.selected) sum.selected = sum.selected.value_or(0) + *source.selected;
  }
  absl::StrAppendFormat(text, "\nSource\n  shards  %d\n  records ", sum.shards);
  if (sum.known) {
    absl::StrAppendFormat(text, "%d (%s)\n", sum.records, BytesText(sum.bytes));
  } else {
    absl::StrAppend(text, "as many as are pushed\n");
  }
  if (sum.selected) {
    absl::StrAppendFormat(text, "  select  %d of %d records\n", *sum.selected, sum.records);
  }
  for (size_t i = 0; i < facts.sources.size() && facts.sources.size() > 1; ++i) {
    const SourceFacts::Source& source = facts.sources[i];
    absl::StrAppendFormat(text, "            %d in %d shards (%s)  [%s]\n", source.records,
                          source.shards, BytesText(source.bytes), physical.sources[i].stage);
  }
}

// batch_size <= 2^31, lanes <= 2^16 and world is an int, so the products fit. `endless`: true if
// the order has no end.
void AppendShare(const PhysicalPlan& physical, const SourceFacts& facts, bool endless,
                 std::string* text) {
  const auto world = static_cast<uint64_t>(facts.world);
  const auto rank = static_cast<uint64_t>(facts.rank);
  const bool divided = RanksDivideRows(physical, facts.world, endless);
  if (divided && physical.batch.kind == BatchSpec::Kind::kBucket) {  // of many sizes
    absl::StrAppendFormat(text, "  rows    1/%d of every batch on rank %d of %d\n", world,
                          facts.rank, facts.world);
    return;
  }
  const bool free = physical.cut && LanesAreFree(physical) && world > physical.lanes;
  const bool by_lanes = physical.cut && !free && !divided;
  const uint64_t whole = by_lanes ? physical.lanes : physical.batch.size;
  absl::StrAppendFormat(text, "  %-8s[%d, %d) of every batch on rank %d of %d\n",
                        by_lanes ? "lanes" : "rows", rank * whole / world,
                        (rank + 1) * whole / world, facts.rank, facts.world);
}

}  // namespace

std::string StreamCount::ToString() const {
  if (!count) return "without end";
  if (exact) return absl::StrCat(*count);
  if (*count >= kKnown) return "not known before they are looked at";
  return absl::StrCat("at most ", *count);
}

StreamCount CountAfter(StreamCount count, const std::vector<OrderStep>& steps) {
  for (const OrderStep& step : steps) {
    count.count = CountAfterStep(count.count, step);
    count.exact = count.exact && !step.by_bytes;
  }
  return count;
}

StreamCount CountOf(const OrderPlan& order, const SourceFacts& facts) {
  if (order.root != OrderPlan::Root::kSource) {
    return CountAfter(CountOfJoin(order, facts), order.steps);
  }
  const SourceFacts::Source& source = facts.sources[order.source];
  const uint64_t records = source.selected.value_or(source.records);
  return CountAfter(source.known ? StreamCount{records} : StreamCount::Unknown(), order.steps);
}

StreamCount CountOfSamples(const PhysicalPlan& physical, const SourceFacts& facts) {
  const OrderPlan& records = RecordOrderOf(physical);
  const StreamCount count = physical.zip
                                ? CountAfter(CountOfZip(*physical.zip, facts), records.steps)
                                : CountOf(records, facts);
  if (!physical.window) return count;
  return CountAfter(CountOfWindows(count, *physical.window), physical.order.steps);
}

std::vector<std::vector<OrderStep>> StepsOfSources(const PhysicalPlan& physical,
                                                   size_t num_sources) {
  std::vector<std::vector<OrderStep>> steps(num_sources);
  std::vector<OrderStep> behind;
  if (physical.window) behind = physical.order.steps;
  const OrderPlan& records = RecordOrderOf(physical);
  if (!physical.zip) StepsOf(records, behind, &steps);
  behind.insert(behind.begin(), records.steps.begin(), records.steps.end());
  for (size_t i = 0; physical.zip && i < physical.zip->inputs.size(); ++i) {
    StepsOf(physical.zip->inputs[i].order, behind, &steps);
  }
  return steps;
}

std::string FactsText(const PhysicalPlan& physical, const SourceFacts& facts) {
  std::string text;
  AppendSources(physical, facts, &text);
  text += InflateText(physical, facts);
  text += FetchText(physical, facts);
  StreamCount samples = CountOfSamples(physical, facts);
  const bool endless = !samples.count.has_value();
  if (physical.cut) samples = CountBehindCut(samples, *physical.cut);
  const StreamCount batches = CountAfter(BatchesOf(samples, physical.batch), physical.batch_order);
  absl::StrAppend(&text, "  samples ", samples.ToString(), "\n  batches ", batches.ToString(),
                  "\n");
  AppendShare(physical, facts, endless, &text);
  return text;
}

}  // namespace millrace::pipeline
