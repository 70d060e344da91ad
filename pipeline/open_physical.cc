#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/executor_internal.h"
#include "pipeline/resume_token_internal.h"

namespace millrace::pipeline {
namespace {

constexpr int kMaxPrefetch = 1024;

class ExecutorPipeline final : public Pipeline {
 public:
  explicit ExecutorPipeline(ExecutorParts parts)
      : context_(parts.context), executor_(std::make_unique<Executor>(std::move(parts))) {
    executor_->Start();
  }
  ~ExecutorPipeline() override {
    // The threads that would finish the work are not in a forked child: waiting would hang there,
    // and its copies of their buffers have no owner. They go with the process.
    if (!context_->CheckNotForked().ok()) static_cast<void>(executor_.release());
  }

  absl::StatusOr<std::optional<Batch>> Next() override { return executor_->Next(); }
  std::optional<absl::StatusOr<std::optional<Batch>>> TryNext() override {
    return executor_->TryNext();
  }
  void Cancel() override { executor_->Cancel(); }
  const Schema& schema() const override { return executor_->parts().plan.batch_schema; }
  StreamLength length() const override { return executor_->parts().order.length(); }
  uint64_t data_fingerprint() const override { return executor_->parts().source->Fingerprint(); }
  RecordError Locate(const SampleId& id) const override {
    const readers::RecordSource& source = *executor_->parts().source;
    const readers::RecordRef ref = source.Locate(id.record);
    RecordError where;
    where.file = source.files()[ref.shard];
    where.offset = static_cast<int64_t>(ref.offset);
    where.ordinal = static_cast<int64_t>(ref.ordinal);
    return where;
  }

 private:
  const std::shared_ptr<Context> context_;
  std::unique_ptr<Executor> executor_;
};

absl::StatusOr<uint64_t> FirstBatch(const PhysicalPlan& plan, const readers::RecordSource& source,
                                    const BatchOrder& order, const std::string& text) {
  if (text.empty()) return 0;
  MILLRACE_ASSIGN_OR_RETURN(const ResumeToken token, ResumeToken::Parse(text));
  MILLRACE_RETURN_IF_ERROR(token.CheckSameStream(
      {plan.semantics_version, plan.plan_fingerprint, source.Fingerprint(), token.next_batch}));
  if (token.next_batch > std::min(order.num_batches(), kMaxCount / plan.batch.size)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the resume token names batch ", token.next_batch, ", behind the end of the stream"));
  }
  return token.next_batch;
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
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Pipeline>> OpenPhysical(
    PhysicalPlan plan, std::unique_ptr<readers::RecordSource> source,
    std::shared_ptr<Context> context, const OpenOptions& options) {
  MILLRACE_RETURN_IF_ERROR(context->CheckNotForked());
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  MILLRACE_ASSIGN_OR_RETURN(BatchOrder order, BatchOrder::Make(plan, source->num_records()));
  if (static_cast<uint64_t>(options.world) > plan.batch.size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "world ", options.world, " is larger than the global batch of ", plan.batch.size, " rows"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t first_batch,
                            FirstBatch(plan, *source, order, options.resume_token));
  const RankSlice slice = SliceOfRank(plan.batch.size, options.rank, options.world);
  MILLRACE_ASSIGN_OR_RETURN(BatchLayout layout,
                            MakeBatchLayout(plan.batch_schema, slice.padded_rows));
  const int prefetch =
      options.prefetch_batches != 0 ? options.prefetch_batches : plan.prefetch_batches;
  std::shared_ptr<HostAllocator> allocator = MakeHostAllocator(*context);
  return std::make_unique<ExecutorPipeline>(
      ExecutorParts{.plan = std::move(plan),
                    .source = std::move(source),
                    .order = std::move(order),
                    .layout = std::make_shared<const BatchLayout>(std::move(layout)),
                    .slice = slice,
                    .prefetch_batches = std::clamp(prefetch, 1, kMaxPrefetch),
                    .first_batch = first_batch,
                    .allocator = std::move(allocator),
                    .context = std::move(context)});
}

}  // namespace millrace::pipeline
