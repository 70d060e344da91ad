#include "pipeline/open/open.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/op_table.h"
#include "pipeline/open/executor_pipeline.h"
#include "pipeline/open/lookahead_sizes.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/stages/batch_mixing.h"
#include "readers/quarantine.h"

namespace millrace::pipeline {
namespace {

absl::StatusOr<std::unique_ptr<BatchOp>> MakeBatchOp(const BatchOpSpec& spec,
                                                     const OpenOptions& options) {
  if (spec.mixing) return MakeBatchMixing(*spec.mixing);
  if (options.ops != nullptr) {
    return options.ops->MakeBatch(spec.op, spec.version, spec.options, spec.stage);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("custom op \"", spec.op, "\", and OpenOptions.ops is empty"));
}

// Checks that no group of rows is torn, and that each has the same rows in every world. `by_rows`:
// true if ranks divide the rows of a batch; then the slices of a batch of several lanes' buckets
// begin at whole groups if those of each bucket would.
absl::Status CheckGroups(const PhysicalPlan& plan, uint64_t group_rows, bool by_rows, int world) {
  const uint64_t lanes = plan.cut.has_value() ? plan.lanes : 1;
  std::vector<uint64_t> sizes = {plan.batch.size};
  if (plan.batch.kind == BatchSpec::Kind::kBucket) sizes = plan.batch.bucket_sizes;
  for (const uint64_t size : sizes) {
    const bool is_lane = by_rows && plan.batch.kind == BatchSpec::Kind::kBucket;
    const uint64_t rows = is_lane ? size / lanes : size;
    MILLRACE_RETURN_IF_ERROR(CheckGroupRows(group_rows, rows, by_rows ? rows : lanes, world));
  }
  const bool moves = plan.cut.has_value() && by_rows &&
                     plan.damage.policy == DamageSpec::Policy::kSkip && group_rows > 1;
  if (!moves) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "world ", world,
      ": with on_damage policy \"skip\" rows move up within a rank's slice where there are more "
      "ranks than lanes, so that which rows are mixed would depend on the world; take \"mask\", or "
      "set lanes: ",
      world));
}

// Resolves the ops over whole batches; they must not change fields.
absl::StatusOr<std::vector<std::unique_ptr<BatchOp>>> MakeBatchOps(const PhysicalPlan& plan,
                                                                   const OpenOptions& options,
                                                                   bool by_rows) {
  std::vector<std::unique_ptr<BatchOp>> ops;
  for (const BatchOpSpec& spec : plan.batch_ops) {
    absl::StatusOr<std::unique_ptr<BatchOp>> op = MakeBatchOp(spec, options);
    absl::Status status = op.status();
    if (status.ok()) status = (*op)->Resolve(plan.batch_schema).status();
    if (status.ok()) status = CheckGroups(plan, (*op)->group_rows(), by_rows, options.world);
    if (!status.ok()) {
      if (spec.mixing) return AtStage(spec.where, spec.stage, status);
      return Annotate(status, absl::StrCat("stage \"", spec.stage, "\""));
    }
    ops.push_back(*std::move(op));
  }
  return ops;
}

// Deals as many lanes as the world needs, where the plan leaves that free.
absl::Status DealLanes(const OpenOptions& options, PhysicalPlan& plan) {
  const auto world = static_cast<uint64_t>(options.world);
  const uint64_t smallest = SmallestBatch(plan);
  if (world > smallest) {
    return absl::InvalidArgumentError(absl::StrCat(
        "world ", options.world, " is larger than the ",
        smallest < plan.batch.size ? "smallest of the global batches, of " : "global batch of ",
        smallest, " rows"));
  }
  const uint64_t lanes = LanesAreFree(plan) ? LanesForWorld(plan, world) : plan.lanes;
  if (lanes != plan.lanes) plan.token_lanes = std::exchange(plan.lanes, lanes);
  return absl::OkStatus();
}

// Fills in what only plans with a cut have, or only those without. `by_rows`: as of CheckGroups.
absl::Status FillRows(const OpenOptions& options, bool by_rows, ExecutorParts& parts) {
  const PhysicalPlan& plan = parts.plan;
  BatchLayout layout;
  if (!plan.cut.has_value()) {
    parts.slice = SliceOfRank(plan.batch.size, options.rank, options.world);
    MILLRACE_ASSIGN_OR_RETURN(layout, MakeBatchLayout(plan.batch_schema, parts.slice.padded_rows));
  } else {
    if (plan.lanes == 0 || plan.batch.size % plan.lanes != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "lanes: ", plan.lanes, " do not divide the batch of ", plan.batch.size, " rows"));
    }
    if (plan.batch.kind == BatchSpec::Kind::kFixed) {
      // Slots of the rank with most rows or lanes.
      const uint64_t units = by_rows ? plan.batch.size : plan.lanes;
      const uint64_t most = SliceOfRank(units, 0, options.world).padded_rows;
      MILLRACE_ASSIGN_OR_RETURN(
          layout, MakeBatchLayout(plan.batch_schema, most * (plan.batch.size / units)));
    } else {
      MILLRACE_ASSIGN_OR_RETURN(layout, MakeClosedLayout(plan, ClosedBatch()));
    }
  }
  parts.layout = std::make_shared<const BatchLayout>(std::move(layout));
  return absl::OkStatus();
}

// Of all sources together, with frames; known where the order has blocks of bytes.
uint64_t MeanRecordBytes(const OpenedSources& sources) {
  uint64_t bytes = 0;
  uint64_t records = 0;
  for (const OrderSource& facts : sources.facts) {
    bytes += facts.total_bytes;
    records += facts.num_records;
  }
  return records == 0 ? 0 : bytes / records;
}

// Substitutes are drawn from all there is.
absl::Status CheckReplace(const ExecutorParts& parts) {
  const bool replaces = parts.plan.damage.policy == DamageSpec::Policy::kReplace;
  if (!replaces || parts.num_records() != kInfinite) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "on_damage: policy \"replace\" draws from all records of the source, which has no end; take "
      "\"skip\" or \"mask\"");
}

// Warns if permanent memory (indexes, shuffles, pushed records) leaves too little of the budget for
// reads and batches.
void WarnOfStandingMemory(const Context& context) {
  const MemoryBudget& budget = *context.memory_budget();
  if (budget.standing_bytes() <= budget.limit_bytes() - budget.work_limit_bytes()) return;
  context.Log(LogLevel::kWarning,
              ToStd(absl::StrCat(
                  "indexes, shuffles and pushed records of the open pipelines may take ",
                  budget.standing_bytes(), " B of the memory budget of ", budget.limit_bytes(),
                  " B. Reads and batches have ", budget.work_limit_bytes(),
                  " B beside them, which may be slow: raise memory_budget_bytes")));
}

// Names the file of a token that is refused.
absl::Status OfResumeFile(const absl::Status& begun, const OpenOptions& options) {
  const bool is_refused = absl::IsInvalidArgument(begun) || absl::IsFailedPrecondition(begun);
  if (options.resume_token.empty() || options.resume_file.empty() || !is_refused) return begun;
  return Annotate(begun, options.resume_file);
}

}  // namespace

absl::StatusOr<ExecutorParts> MakeExecutorParts(PhysicalPlan plan, OpenedSources sources,
                                                std::shared_ptr<Context> context,
                                                const OpenOptions& options) {
  MILLRACE_RETURN_IF_ERROR(context->CheckNotForked());
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  assert(!plan.select.has_value() || sources.selection != nullptr);
  std::unique_ptr<const Zip> zip;
  if (plan.zip.has_value()) {
    MILLRACE_ASSIGN_OR_RETURN(
        zip, Zip::Make(*plan.zip, sources.facts, plan.seed, context->memory_budget()));
    sources.facts = {zip->facts()};
  }
  std::unique_ptr<const SampleWindows> windows;
  if (plan.window.has_value()) {
    MILLRACE_ASSIGN_OR_RETURN(windows, SampleWindows::Make(*plan.window, sources.facts, plan.seed,
                                                           context->memory_budget()));
    sources.facts = {windows->facts()};
  }
  MILLRACE_RETURN_IF_ERROR(DealLanes(options, plan));
  MILLRACE_ASSIGN_OR_RETURN(BatchOrder order, BatchOrder::Make(plan, sources.facts));
  const bool endless = order.records().size() == kInfinite && sources.growing == nullptr;
  const bool by_rows = !plan.cut.has_value() || plan.token_lanes != 0 ||
                       RanksDivideRows(plan, options.world, endless);
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<BatchOp>> batch_ops,
                            MakeBatchOps(plan, options, by_rows));
  const uint64_t mean_record_bytes = MeanRecordBytes(sources);
  const uint64_t data_fingerprint = sources.Fingerprint();
  const uint64_t standing_bytes = sources.MemoryBytes() + order.records().MemoBytes();
  const int prefetch =
      options.prefetch_batches != 0 ? options.prefetch_batches : plan.prefetch_batches;
  ExecutorParts parts{.plan = std::move(plan),
                      .source = std::move(sources.source),
                      .growing = sources.growing,
                      .zip = std::move(zip),
                      .windows = std::move(windows),
                      .data_fingerprint = data_fingerprint,
                      .selection = std::move(sources.selection),
                      .lengths = std::move(sources.lengths),
                      .standing_bytes = static_cast<int64_t>(standing_bytes),
                      .order = std::move(order),
                      .layout = nullptr,
                      .slice = {},
                      .batch_ops = std::move(batch_ops),
                      .rank = options.rank,
                      .world = options.world,
                      .prefetch_batches = std::clamp(prefetch, 0, kMaxPrefetch),
                      .cpu_budget = options.cpu_budget,
                      .read_ahead_runs = options.read_ahead_runs,
                      .run_us = options.run_us,
                      .adapt = options.adapt,
                      .rows_per_run = 0,
                      .clock = {},
                      .allocator = MakeHostAllocator(*context, options.pinned_for),
                      .context = std::move(context)};
  MILLRACE_RETURN_IF_ERROR(FillRows(options, by_rows, parts));
  MILLRACE_RETURN_IF_ERROR(CheckReplace(parts));
  MILLRACE_ASSIGN_OR_RETURN(parts.lookahead, SizesOfLookahead(parts, mean_record_bytes));
  if (parts.lookahead.has_value()) {  // it has a memo of its own
    parts.standing_bytes +=
        static_cast<int64_t>(parts.lookahead->limit_bytes + parts.order.records().MemoBytes());
  }
  if (parts.prefetch_batches == 0) parts.prefetch_batches = DefaultPrefetch(*parts.layout);
  return parts;
}

absl::StatusOr<std::unique_ptr<Pipeline>> OpenParts(ExecutorParts parts,
                                                    const OpenOptions& options) {
  const std::shared_ptr<const Context> context = parts.context;
  std::unique_ptr<readers::QuarantineLog> quarantine;
  if (!options.quarantine_file.empty()) {
    if (parts.plan.zip.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "quarantine_file: stage \"", parts.plan.zip->stage,
          "\" is a zip, and which of its inputs a bad sample comes from is not known"));
    }
    if (parts.plan.window.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "quarantine_file: stage \"", parts.plan.window->stage,
          "\" is a window, and which of its elements a bad sample comes from is not always "
          "known"));
    }
    MILLRACE_ASSIGN_OR_RETURN(quarantine, readers::QuarantineLog::Open(options.quarantine_file));
  }
  auto pipeline = std::make_unique<ExecutorPipeline>(std::move(parts), options.force_resume,
                                                     std::move(quarantine));
  WarnOfStandingMemory(*context);
  MILLRACE_RETURN_IF_ERROR(OfResumeFile(pipeline->Begin(options.resume_token), options));
  return pipeline;
}

absl::StatusOr<std::unique_ptr<Pipeline>> OpenPhysical(PhysicalPlan plan, OpenedSources sources,
                                                       std::shared_ptr<Context> context,
                                                       const OpenOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(
      ExecutorParts parts,
      MakeExecutorParts(std::move(plan), std::move(sources), std::move(context), options));
  return OpenParts(std::move(parts), options);
}

}  // namespace millrace::pipeline
