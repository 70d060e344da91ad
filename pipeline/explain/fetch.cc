#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "pipeline/explain/explain.h"

// How many bytes of shards behind URLs are fetched for each byte of records. Records that are
// fetched by themselves cost their own bytes. Of blocks, whole ones are fetched wherever the order
// reads a place: p bytes of every t bytes are in p / block + 1 blocks, and no more than all bytes
// are fetched.

namespace millrace::pipeline {
namespace {

using Kind = OrderStep::Kind;

double FetchedFor(double place, double stride, double block) {
  return std::max(1.0, std::min(stride / place, (place + block) / place));
}

// The ranks that share the records of a batch. With a cut each looks at those of all, unless lanes
// are free, lengths are kept, or its own lanes tell it all.
int RanksThatShare(const PhysicalPlan& physical, const SourceFacts& facts) {
  if (!physical.cut || physical.lengths || LanesAreFree(physical)) return facts.world;
  const bool endless = !CountOfSamples(physical, facts).count;
  return RanksKnowBatches(physical, endless) ? 1 : facts.world;
}

// Bytes fetched by bytes of records, where `steps` lie between the records and the batch.
double OfBlocks(const std::vector<OrderStep>& steps, double record,
                const readers::FetchFacts& fetches, double rows, int ranks) {
  const auto block = static_cast<double>(fetches.block_bytes);
  double fetched = 1;
  double stride = record;  // between two records that follow each other in the order
  for (const OrderStep& step : steps) {
    const auto count = static_cast<double>(step.count);
    if (step.kind == Kind::kShard && !step.by_bytes) {
      fetched *= FetchedFor(stride, stride * count, block);
      stride *= count;
    }
  }
  const double batch = std::max(rows, 1.0) * stride;
  return fetched * FetchedFor(batch / ranks, batch, block);
}

const OrderStep* BlockShuffleOf(const std::vector<OrderStep>& steps) {
  const auto step = std::ranges::find_if(steps, [](const OrderStep& one) {
    return one.kind == Kind::kGlobalShuffle && one.count != 0;
  });
  return step == steps.end() ? nullptr : &*step;
}

std::string SingleText(const PhysicalPlan& physical, const SourceFacts::Source& source,
                       const std::vector<OrderStep>& steps, double record, int world) {
  const bool has_lanes = physical.cut && physical.lanes > 1;
  const OrderStep* const blocks = has_lanes ? nullptr : BlockShuffleOf(steps);
  if (blocks == nullptr)
    return "each record by itself, neighbours that are near in the order together";
  const double window = blocks->second != 0 ? static_cast<double>(blocks->second) * record
                                            : kWindowBlocks * static_cast<double>(blocks->count);
  const double bytes = std::min(window, static_cast<double>(source.bytes)) / world;
  return absl::StrFormat("each block once, two windows of %s are kept", BytesText(bytes));
}

std::string BlocksText(const readers::FetchFacts& fetches, double fetched) {
  std::string text = absl::StrFormat("blocks of %s, %s of them are kept",
                                     BytesText(static_cast<double>(fetches.block_bytes)),
                                     BytesText(static_cast<double>(fetches.kept_bytes)));
  if (fetched > readers::kMostFetched) {
    absl::StrAppend(&text, "; more than ", readers::kMostFetched,
                    ", for the order leaves out most of a block: shard { by_bytes: true } or "
                    "global_shuffle does not");
  }
  return text;
}

}  // namespace

std::string FetchText(const PhysicalPlan& physical, const SourceFacts& facts) {
  const std::vector<std::vector<OrderStep>> steps = StepsOfSources(physical, facts.sources.size());
  const int ranks = RanksThatShare(physical, facts);
  std::string text;
  for (size_t i = 0; i < facts.sources.size(); ++i) {
    const SourceFacts::Source& source = facts.sources[i];
    if (!source.fetches.has_value() || source.records == 0) continue;
    const double record = static_cast<double>(std::max<uint64_t>(source.bytes, 1)) /
                          static_cast<double>(source.records);
    const bool single = source.fetches->single;
    const double fetched = single ? 1
                                  : OfBlocks(steps[i], record, *source.fetches,
                                             static_cast<double>(physical.batch.size), ranks);
    absl::StrAppendFormat(&text, "  fetch   %.2f bytes for each byte of records: %s  [%s]\n",
                          fetched,
                          single ? SingleText(physical, source, steps[i], record, facts.world)
                                 : BlocksText(*source.fetches, fetched),
                          physical.sources[i].stage);
  }
  return text;
}

}  // namespace millrace::pipeline
