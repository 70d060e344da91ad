#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/executor/executor.h"
#include "pipeline/op_table.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/order/resume_token.h"
#include "pipeline/stages/batch_mixing.h"
#include "readers/quarantine.h"

namespace millrace::pipeline {
namespace {

constexpr int kMaxPrefetch = 1024;

absl::StatusOr<std::unique_ptr<BatchOp>> MakeBatchOp(const BatchOpSpec& spec,
                                                     const OpenOptions& options) {
  if (spec.mixing) return MakeBatchMixing(*spec.mixing);
  if (options.ops != nullptr) {
    return options.ops->MakeBatch(spec.op, spec.version, spec.options, spec.stage);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("custom op \"", spec.op, "\", and OpenOptions.ops is empty"));
}

// Resolves the ops over whole batches; they must not change fields.
absl::StatusOr<std::vector<std::unique_ptr<BatchOp>>> MakeBatchOps(const PhysicalPlan& plan,
                                                                   const OpenOptions& options) {
  std::vector<std::unique_ptr<BatchOp>> ops;
  for (const BatchOpSpec& spec : plan.batch_ops) {
    absl::StatusOr<std::unique_ptr<BatchOp>> op = MakeBatchOp(spec, options);
    absl::Status status = op.status();
    if (status.ok()) status = (*op)->Resolve(plan.batch_schema).status();
    const uint64_t units = plan.cut.has_value() ? plan.lanes : plan.batch.size;
    if (status.ok()) {
      status = CheckGroupRows((*op)->group_rows(), plan.batch.size, units, options.world);
    }
    if (!status.ok()) {
      if (spec.mixing) return AtStage(spec.where, spec.stage, status);
      return Annotate(status, absl::StrCat("stage \"", spec.stage, "\""));
    }
    ops.push_back(*std::move(op));
  }
  return ops;
}

// Fills in what only plans with a cut have, or only those without.
absl::Status FillRows(const OpenOptions& options, ExecutorParts& parts) {
  const PhysicalPlan& plan = parts.plan;
  const auto world = static_cast<uint64_t>(options.world);
  BatchLayout layout;
  if (!plan.cut.has_value()) {
    if (world > plan.batch.size) {
      return absl::InvalidArgumentError(absl::StrCat("world ", options.world,
                                                     " is larger than the global batch of ",
                                                     plan.batch.size, " rows"));
    }
    parts.slice = SliceOfRank(plan.batch.size, options.rank, options.world);
    MILLRACE_ASSIGN_OR_RETURN(layout, MakeBatchLayout(plan.batch_schema, parts.slice.padded_rows));
  } else {
    if (plan.lanes == 0 || plan.batch.size % plan.lanes != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "lanes: ", plan.lanes, " do not divide the batch of ", plan.batch.size, " rows"));
    }
    // Slots of the rank with most lanes.
    const uint64_t lanes = plan.lanes / world + (plan.lanes % world != 0 ? 1 : 0);
    if (plan.batch.kind == BatchSpec::Kind::kFixed) {
      MILLRACE_ASSIGN_OR_RETURN(
          layout, MakeBatchLayout(plan.batch_schema, lanes * (plan.batch.size / plan.lanes)));
    } else {
      MILLRACE_ASSIGN_OR_RETURN(layout, MakeClosedLayout(plan, ClosedBatch()));
    }
  }
  parts.layout = std::make_shared<const BatchLayout>(std::move(layout));
  return absl::OkStatus();
}

// Substitutes are drawn from all there is.
absl::Status CheckReplace(const ExecutorParts& parts) {
  const bool replaces = parts.plan.damage.policy == DamageSpec::Policy::kReplace;
  if (!replaces || parts.num_records() != kInfinite) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "on_damage: policy \"replace\" draws from all records of the source, which has no end; take "
      "\"skip\" or \"mask\"");
}

class ExecutorPipeline final : public Pipeline {
 public:
  // `quarantine` may be null.
  ExecutorPipeline(ExecutorParts parts, bool force_resume,
                   std::unique_ptr<readers::QuarantineLog> quarantine)
      : context_(parts.context),
        force_resume_(force_resume),
        quarantine_(std::move(quarantine)),
        executor_(std::make_unique<Executor>(std::move(parts))) {}
  ~ExecutorPipeline() override {
    // The threads that would finish the work are not in a forked child: waiting would hang there,
    // and its copies of their buffers have no owner. They go with the process.
    if (!context_->CheckNotForked().ok()) static_cast<void>(executor_.release());
  }

  absl::StatusOr<std::optional<Batch>> Next() override { return Quarantined(executor_->Next()); }
  std::optional<absl::StatusOr<std::optional<Batch>>> TryNext() override {
    auto next = executor_->TryNext();
    if (next.has_value()) next = Quarantined(*std::move(next));
    return next;
  }
  void Cancel() override { executor_->Cancel(); }
  const Schema& schema() const override { return executor_->parts().plan.batch_schema; }
  uint64_t data_fingerprint() const override { return executor_->parts().data_fingerprint; }
  uint64_t num_records() const override {
    const uint64_t records = executor_->parts().num_records();
    return records == kInfinite ? 0 : records;
  }

  StreamLength length() const override {
    const ExecutorParts& parts = executor_->parts();
    StreamLength length = parts.order.length();
    if (!parts.plan.cut.has_value() && parts.growing == nullptr) return length;
    // It may end all the same, if the stream before the cut does not: by a take behind it.
    return {.infinite = parts.growing == nullptr && length.infinite && !EndsBehindCut(parts.plan),
            .known = false,
            .batches = 0,
            .batches_per_epoch = 0};
  }
  RecordError Locate(const SampleId& id) const override {
    const readers::RecordSource& source = *executor_->parts().source;
    const readers::RecordRef ref = LocateSample(source, executor_->parts().zip.get(), id);
    RecordError where;
    where.file = source.files()[ref.shard];
    where.offset = static_cast<int64_t>(ref.offset);
    where.ordinal = static_cast<int64_t>(ref.ordinal);
    return where;
  }

  std::string Save() const override { return executor_->Save(); }
  absl::Status Restore(const std::string& token) override {
    MILLRACE_RETURN_IF_ERROR(CheckMovable());
    MILLRACE_ASSIGN_OR_RETURN(StreamPlace place, PlaceOf(token));
    return Start(std::move(place));
  }
  absl::Status Seek(uint64_t batch) override {
    MILLRACE_RETURN_IF_ERROR(CheckMovable());
    if (executor_->parts().plan.cut.has_value()) {
      return absl::FailedPreconditionError(
          "the plan has a stage that changes how many samples there are by looking at them, so "
          "only a resume token says where a batch begins: use Save and Restore");
    }
    MILLRACE_RETURN_IF_ERROR(CheckBatch(batch, "Seek"));
    ResumeToken token = Here();
    token.next_batch = batch;
    return Start({.batch = batch, .state = "", .token = token.ToString()});
  }

  // Begins at the token, or at the start when it is empty.
  absl::Status Begin(const std::string& token) {
    StreamPlace place{.batch = 0, .state = "", .token = Here().ToString()};
    if (!token.empty()) {
      MILLRACE_ASSIGN_OR_RETURN(place, PlaceOf(token));
    }
    return Start(std::move(place));
  }

 private:
  absl::Status Start(StreamPlace place) {
    MILLRACE_RETURN_IF_ERROR(executor_->Start(std::move(place)));
    delivered_token_ = executor_->Save();
    return absl::OkStatus();
  }

  static bool EndsBehindCut(const PhysicalPlan& plan) {
    return std::ranges::find(plan.cut->settle, SettleStep::Kind::kTake, &SettleStep::kind) !=
           plan.cut->settle.end();
  }

  absl::Status CheckMovable() const {
    MILLRACE_RETURN_IF_ERROR(context_->CheckNotForked());
    if (executor_->parts().growing == nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError("a push source cannot be read again from another place");
  }

  // Writes down what is damaged; where that fails the batch is not delivered.
  absl::StatusOr<std::optional<Batch>> Quarantined(absl::StatusOr<std::optional<Batch>> next) {
    if (quarantine_ == nullptr) return next;
    std::vector<RecordError> errors;
    if (!next.ok() && IsDamage(next.status())) errors.push_back(*GetRecordError(next.status()));
    if (next.ok() && next->has_value()) {
      for (const DamagedSample& one : (*next)->damaged()) {
        errors.push_back(*GetRecordError(one.error));
      }
    }
    absl::Status written = quarantine_->Add(errors);
    if (written.ok()) {
      delivered_token_ = executor_->Save();
      return next;
    }
    written = Annotate(written, "quarantine");
    executor_->Withdraw(written, delivered_token_);
    return written;
  }

  // The token of this stream's start.
  ResumeToken Here() const {
    const PhysicalPlan& plan = executor_->parts().plan;
    return {plan.semantics_version, plan.plan_fingerprint, data_fingerprint(), 0, ""};
  }

  absl::Status CheckBatch(uint64_t batch, std::string_view who) const {
    const ExecutorParts& parts = executor_->parts();
    if (batch <= std::min(parts.order.num_batches(), kMaxCount / parts.plan.batch.size)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(who), " names batch ", batch, ", behind the end of the stream"));
  }

  absl::StatusOr<StreamPlace> PlaceOf(const std::string& text) const {
    MILLRACE_ASSIGN_OR_RETURN(ResumeToken token, ResumeToken::Parse(text));
    const absl::Status same = token.CheckSameStream(Here());
    const bool semantics = token.semantics_version == Here().semantics_version;
    if (!same.ok() && (!force_resume_ || !semantics)) return same;
    const bool cut = executor_->parts().plan.cut.has_value();
    if (cut ? token.state.empty() && token.next_batch != 0 : !token.state.empty()) {
      return absl::InvalidArgumentError(
          cut ? "the resume token is of a plan without a cut: it holds no state"
              : "the resume token is of a plan with a cut, and this one has none");
    }
    if (!cut) MILLRACE_RETURN_IF_ERROR(CheckBatch(token.next_batch, "the resume token"));
    if (!same.ok()) LogLoss(token, same);
    return StreamPlace{.batch = token.next_batch, .state = std::move(token.state), .token = text};
  }

  // " of epoch 3"; nothing where that is known only by looking at the samples, and at the end.
  std::string OfEpoch(uint64_t batch) const {
    const ExecutorParts& parts = executor_->parts();
    const uint64_t end = std::min(parts.order.num_batches(), kMaxCount / parts.plan.batch.size);
    if (parts.plan.cut.has_value() || parts.growing != nullptr || batch >= end) return "";
    return absl::StrCat(" of epoch ", parts.order.Place(batch).epoch);
  }

  void LogLoss(const ResumeToken& token, const absl::Status& difference) const {
    const bool plan = token.plan_fingerprint != Here().plan_fingerprint;
    const bool data = token.data_fingerprint != Here().data_fingerprint;
    const char* changed = plan && data ? "plan and data" : plan ? "plan" : "data";
    context_->Log(
        LogLevel::kWarning,
        ToStd(absl::StrCat("resuming by force: ", difference.message(),
                           ". The stream goes on with batch ", token.next_batch,
                           OfEpoch(token.next_batch), ". Samples of this epoch before that batch ",
                           "are not delivered again; of the changed ", changed,
                           " samples may be missing or come twice. Results are not those of a run ",
                           "that was not interrupted")));
  }

  const std::shared_ptr<Context> context_;
  const bool force_resume_;
  const std::unique_ptr<readers::QuarantineLog> quarantine_;
  std::string delivered_token_;  // with a quarantine: behind the last batch that was let through
  std::unique_ptr<Executor> executor_;
};

// Says so where what stands leaves work less than all the rest of the budget.
void WarnOfStanding(const Context& context) {
  const MemoryBudget& budget = *context.memory_budget();
  if (budget.standing_bytes() <= budget.limit_bytes() - budget.work_limit_bytes()) return;
  context.Log(LogLevel::kWarning,
              ToStd(absl::StrCat(
                  "indexes, shuffles and pushed records of the open pipelines may take ",
                  budget.standing_bytes(), " B of the memory budget of ", budget.limit_bytes(),
                  " B. Reads and batches have ", budget.work_limit_bytes(),
                  " B beside them, which may be slow: raise memory_budget_bytes")));
}

}  // namespace

absl::Status OpenOptions::Validate() const {
  if (world < 1) return absl::InvalidArgumentError("OpenOptions.world must be at least 1");
  if (rank < 0 || rank >= world) {
    return absl::InvalidArgumentError(
        absl::StrCat("OpenOptions.rank is ", rank, ", must be in [0, ", world, ")"));
  }
  if (prefetch_batches < 0 || prefetch_batches > kMaxPrefetch) {
    return absl::InvalidArgumentError("OpenOptions.prefetch_batches must be in [0, 1024]");
  }
  if (cpu_budget < 0) {
    return absl::InvalidArgumentError("OpenOptions.cpu_budget must be at least 0");
  }
  return Annotate(http.Validate(), "OpenOptions.http");
}

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
  MILLRACE_ASSIGN_OR_RETURN(BatchOrder order, BatchOrder::Make(plan, sources.facts));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<BatchOp>> batch_ops,
                            MakeBatchOps(plan, options));
  const uint64_t data_fingerprint = sources.Fingerprint();
  const uint64_t standing_bytes = sources.MemoryBytes() + order.records().MemoBytes();
  const int prefetch =
      options.prefetch_batches != 0 ? options.prefetch_batches : plan.prefetch_batches;
  ExecutorParts parts{.plan = std::move(plan),
                      .source = std::move(sources.source),
                      .growing = sources.growing,
                      .zip = std::move(zip),
                      .data_fingerprint = data_fingerprint,
                      .selection = std::move(sources.selection),
                      .standing_bytes = static_cast<int64_t>(standing_bytes),
                      .order = std::move(order),
                      .layout = nullptr,
                      .slice = {},
                      .batch_ops = std::move(batch_ops),
                      .rank = options.rank,
                      .world = options.world,
                      .prefetch_batches = std::clamp(prefetch, 0, kMaxPrefetch),
                      .cpu_budget = options.cpu_budget,
                      .adapt = options.adapt,
                      .rows_per_run = 0,
                      .clock = {},
                      .allocator = MakeHostAllocator(*context),
                      .context = std::move(context)};
  MILLRACE_RETURN_IF_ERROR(FillRows(options, parts));
  MILLRACE_RETURN_IF_ERROR(CheckReplace(parts));
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
    MILLRACE_ASSIGN_OR_RETURN(quarantine, readers::QuarantineLog::Open(options.quarantine_file));
  }
  auto pipeline = std::make_unique<ExecutorPipeline>(std::move(parts), options.force_resume,
                                                     std::move(quarantine));
  WarnOfStanding(*context);
  MILLRACE_RETURN_IF_ERROR(pipeline->Begin(options.resume_token));
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
