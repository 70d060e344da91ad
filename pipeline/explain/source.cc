#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/explain/explain.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/performance.h"
#include "pipeline/pipeline.h"
#include "pipeline/select/selection.h"
#include "pipeline/source/open.h"

// Explain with the real ops and the real source; the text itself is made in explain.cc.

namespace millrace::pipeline {
namespace {

absl::StatusOr<SourceFacts::Source> FactsOf(const SourceSpec& spec, ReadWindow window,
                                            Context* context, const OpenOptions& options) {
  window.records = 0;  // no blocks are kept for a look
  MILLRACE_ASSIGN_OR_RETURN(const auto source, OpenSource(spec, window, context, options));
  SourceFacts::Source facts;
  facts.shards = source->files().size();
  facts.records = source->num_records();
  facts.spans = source->spans();
  facts.fetches = source->fetches();
  for (uint32_t shard = 0; shard < facts.shards; ++shard) {
    facts.bytes += source->file(shard)->size();
  }
  return facts;
}

// Records of the host program's that are not here, as in the command.
bool IsMissing(const SourceSpec& spec, const OpenOptions& options) {
  return spec.kind == SourceSpec::Kind::kMemory && options.memory.empty();
}

absl::StatusOr<SourceFacts> OpenFacts(const PhysicalPlan& plan, Context* context,
                                      const OpenOptions& options) {
  SourceFacts facts;
  facts.rank = options.rank;
  facts.world = options.world;
  for (const SourceSpec& spec : plan.sources) {
    SourceFacts::Source source;
    if (spec.kind == SourceSpec::Kind::kRange) {
      source.records = spec.count;
    } else if (spec.kind == SourceSpec::Kind::kPush || IsMissing(spec, options)) {
      source.known = false;
    } else {
      MILLRACE_ASSIGN_OR_RETURN(
          source, FactsOf(spec, WindowOfOrder(plan, options.world), context, options));
    }
    facts.sources.push_back(source);
  }
  return facts;
}

// How many records of each source the plan's materialized filters keep, if it has any.
absl::Status AddSelected(const Plan& logical, const PhysicalPlan& plan,
                         std::shared_ptr<Context> context, const OpenOptions& options,
                         SourceFacts* facts) {
  if (!plan.select.has_value()) return absl::OkStatus();
  const auto is_missing = [&](const SourceSpec& spec) { return IsMissing(spec, options); };
  if (std::ranges::any_of(plan.sources, is_missing)) return absl::OkStatus();
  if (context == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(context, MakeContext(logical));
  }
  MILLRACE_ASSIGN_OR_RETURN(OpenedSources sources, OpenSources(plan, *context, options));
  MILLRACE_RETURN_IF_ERROR(sources.Select(plan, *context, options));
  uint64_t first = 0;
  for (SourceFacts::Source& source : facts->sources) {
    source.selected = sources.selection->KeptOf(first, source.records);
    first += source.records;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> Explain(const Plan& plan, std::shared_ptr<Context> context,
                                    const OpenOptions& given) {
  const OpenOptions options = WithPerformanceOf(plan, given);
  if (context != nullptr) MILLRACE_RETURN_IF_ERROR(context->CheckNotForked());
  OptimizerOptions optimizer;
  optimizer.custom = CustomOpsOf(options);
  MILLRACE_ASSIGN_OR_RETURN(PhysicalPlan physical, BuildPhysicalPlan(plan, optimizer));
  if (options.prefetch_batches > 0) physical.prefetch_batches = options.prefetch_batches;
  if (options.rank == kNoRank) return ExplainText(plan, physical, std::nullopt);
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  MILLRACE_ASSIGN_OR_RETURN(SourceFacts facts, OpenFacts(physical, context.get(), options));
  MILLRACE_RETURN_IF_ERROR(AddSelected(plan, physical, std::move(context), options, &facts));
  return ExplainText(plan, physical, facts);
}

}  // namespace millrace::pipeline
