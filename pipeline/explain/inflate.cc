#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "pipeline/explain/explain.h"

// A read in the middle of a compressed shard inflates the span that it lies in, unless that is kept
// still. How many bytes are inflated for each that is read follows from how far the order jumps
// (reach), how much it reads in one place, and how much is kept; spans and places are taken to lie
// at random to each other, so that a place of p bytes is in p / span + 1 spans.

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;

constexpr double kWorthTelling = 1.1;

// Inflated bytes by bytes read.
double InflatedFor(double place, double reach, double kept, double span) {
  const double missed = reach <= kept ? 0 : 1 - kept / reach;
  return std::max(1.0, missed * (place + span) / place);
}

// global_shuffle { block_bytes: block }: each block is inflated once if a window of them is kept.
double OfBlocks(double block, double record, double kept, const readers::SpanFacts& spans) {
  const auto span = static_cast<double>(spans.span_bytes);
  if (static_cast<double>(spans.bytes) <= kept) return 1;
  const double window = kWindowBlocks * (block + span);
  return std::max((block + span) / block, InflatedFor(record, window, kept, span));
}

double OfStep(const OrderStep& step, double record, const readers::SpanFacts& spans) {
  const auto kept = static_cast<double>(spans.kept_bytes);
  const auto span = static_cast<double>(spans.span_bytes);
  const auto all = static_cast<double>(spans.bytes);
  const auto count = static_cast<double>(step.count);
  switch (step.kind) {
    case Kind::kGlobalShuffle:
      if (step.count != 0) return OfBlocks(count, record, kept, spans);
      return InflatedFor(record, all, kept, span);
    case Kind::kShuffle:
      return InflatedFor(record, std::min(count * record, all), kept, span);
    case Kind::kInterleave:
      return InflatedFor(static_cast<double>(std::max<uint64_t>(step.second, 1)) * record,
                         std::min(count * span, all), kept, span);
    default:
      return 1;
  }
}

std::string TextOf(const OrderStep& step, double inflated, double record,
                   const readers::SpanFacts& spans) {
  std::string text = absl::StrFormat(
      "  inflate %.1f bytes for each that is read: spans of %s, %s of them are kept  [%s]\n",
      inflated, BytesText(spans.span_bytes), BytesText(spans.kept_bytes), step.stage);
  // The largest blocks that leave room for a window of them.
  const auto most = static_cast<double>(spans.most_kept_bytes);
  const auto span = static_cast<double>(spans.span_bytes);
  const double block = std::max(span, most / kWindowBlocks - span);
  const double better = OfBlocks(block, record, most, spans);
  if (better < inflated) {
    absl::StrAppendFormat(&text, "          global_shuffle { block_bytes: %d }: %.1f\n",
                          static_cast<uint64_t>(block), better);
  }
  return text;
}

}  // namespace

std::string InflateText(const PhysicalPlan& physical, const SourceFacts& facts) {
  const std::vector<std::vector<OrderStep>> steps = StepsOfSources(physical, facts.sources.size());
  std::string text;
  for (size_t i = 0; i < facts.sources.size(); ++i) {
    const SourceFacts::Source& source = facts.sources[i];
    if (!source.spans.has_value() || source.records == 0) continue;
    const double record = static_cast<double>(std::max<uint64_t>(source.bytes, 1)) /
                          static_cast<double>(source.records);
    const OrderStep* worst = nullptr;
    double most = kWorthTelling;
    for (const OrderStep& step : steps[i]) {
      const double inflated = OfStep(step, record, *source.spans);
      if (inflated > most) {
        most = inflated;
        worst = &step;
      }
    }
    if (worst != nullptr) text += TextOf(*worst, most, record, *source.spans);
  }
  return text;
}

}  // namespace millrace::pipeline
