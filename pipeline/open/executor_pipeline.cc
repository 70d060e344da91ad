#include "pipeline/open/executor_pipeline.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/caught.h"
#include "base/record_error.h"
#include "base/status.h"
#include "pipeline/batch/damage.h"
#include "pipeline/run/records.h"

namespace millrace::pipeline {
namespace {

// True if the stream ends behind the cut, even if the one before it does not: by a take.
bool EndsBehindCut(const PhysicalPlan& plan) {
  return std::ranges::find(plan.cut->settle, SettleStep::Kind::kTake, &SettleStep::kind) !=
         plan.cut->settle.end();
}

}  // namespace

ExecutorPipeline::ExecutorPipeline(ExecutorParts parts, bool force_resume,
                                   std::unique_ptr<readers::QuarantineLog> quarantine)
    : context_(parts.context),
      force_resume_(force_resume),
      quarantine_(std::move(quarantine)),
      executor_(std::make_unique<Executor>(std::move(parts))),
      profile_metrics_(context_->metrics()),
      refresh_(context_->metrics().AddRefresh([this, pid = ::getpid()] {
        if (::getpid() == pid) profile_metrics_.Update(executor_->Profile());
      })) {}

ExecutorPipeline::~ExecutorPipeline() {
  if (context_->CheckNotForked().ok()) {
    context_->metrics().RemoveRefresh(refresh_);
    // Without memory for it the newest counts are lost.
    (void)Caught([this] { profile_metrics_.Update(executor_->Profile()); });
  } else {
    // The threads that would finish the work are not in a forked child: waiting would hang there,
    // and its copies of their buffers have no owner. They go with the process.
    static_cast<void>(executor_.release());
  }
}

absl::StatusOr<std::optional<Batch>> ExecutorPipeline::Next() {
  return Quarantined(executor_->Next());
}

std::optional<absl::StatusOr<std::optional<Batch>>> ExecutorPipeline::NextFor(
    std::chrono::nanoseconds limit) {
  auto next = executor_->NextFor(limit);
  if (next.has_value()) next = Quarantined(*std::move(next));
  return next;
}

std::optional<absl::StatusOr<std::optional<Batch>>> ExecutorPipeline::TryNext() {
  auto next = executor_->TryNext();
  if (next.has_value()) next = Quarantined(*std::move(next));
  return next;
}

uint64_t ExecutorPipeline::num_records() const {
  const uint64_t records = executor_->parts().num_records();
  return records == kInfinite ? 0 : records;
}

StreamLength ExecutorPipeline::length() const {
  const ExecutorParts& parts = executor_->parts();
  StreamLength length = parts.order.length();
  if (!parts.plan.cut.has_value() && parts.growing == nullptr) return length;
  // It may end all the same, if the stream before the cut does not: by a take behind it.
  return {.infinite = parts.growing == nullptr && length.infinite && !EndsBehindCut(parts.plan),
          .known = false,
          .batches = 0,
          .batches_per_epoch = 0};
}

RecordError ExecutorPipeline::Locate(const SampleId& id) const {
  const readers::RecordSource& source = *executor_->parts().source;
  const readers::RecordRef ref = LocateSample(source, executor_->parts().sample_parts(), id);
  RecordError where;
  where.file = source.files()[ref.shard];
  where.offset = static_cast<int64_t>(ref.offset);
  where.ordinal = static_cast<int64_t>(ref.ordinal);
  return where;
}

absl::Status ExecutorPipeline::Restore(const std::string& token) {
  MILLRACE_RETURN_IF_ERROR(CheckMovable());
  MILLRACE_ASSIGN_OR_RETURN(StreamPlace place, PlaceOf(token));
  return Start(std::move(place));
}

absl::Status ExecutorPipeline::Seek(uint64_t batch) {
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
absl::Status ExecutorPipeline::Begin(const std::string& token) {
  StreamPlace place{.batch = 0, .state = "", .token = Here().ToString()};
  if (!token.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(place, PlaceOf(token));
  }
  return Start(std::move(place));
}

absl::Status ExecutorPipeline::Start(StreamPlace place) {
  profile_metrics_.Update(executor_->Profile());
  MILLRACE_RETURN_IF_ERROR(executor_->Start(std::move(place)));
  delivered_token_ = executor_->Save();
  return absl::OkStatus();
}

absl::Status ExecutorPipeline::CheckMovable() const {
  MILLRACE_RETURN_IF_ERROR(context_->CheckNotForked());
  if (executor_->parts().growing == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError("a push source cannot be read again from another place");
}

// Writes down what is damaged; where that fails the batch is not delivered.
absl::StatusOr<std::optional<Batch>> ExecutorPipeline::Quarantined(
    absl::StatusOr<std::optional<Batch>> next) {
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
ResumeToken ExecutorPipeline::Here() const {
  const PhysicalPlan& plan = executor_->parts().plan;
  return {plan.semantics_version, plan.plan_fingerprint, data_fingerprint(), 0, ""};
}

absl::Status ExecutorPipeline::CheckBatch(uint64_t batch, std::string_view who) const {
  const ExecutorParts& parts = executor_->parts();
  if (batch <= std::min(parts.order.num_batches(), kMaxCount / parts.plan.batch.size)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(ToAbsl(who), " names batch ", batch, ", behind the end of the stream"));
}

absl::StatusOr<StreamPlace> ExecutorPipeline::PlaceOf(const std::string& text) const {
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
std::string ExecutorPipeline::OfEpoch(uint64_t batch) const {
  const ExecutorParts& parts = executor_->parts();
  const uint64_t end = std::min(parts.order.num_batches(), kMaxCount / parts.plan.batch.size);
  if (parts.plan.cut.has_value() || parts.growing != nullptr || batch >= end) return "";
  return absl::StrCat(" of epoch ", parts.order.Place(batch).epoch);
}

void ExecutorPipeline::LogLoss(const ResumeToken& token, const absl::Status& difference) const {
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

}  // namespace millrace::pipeline
