#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/metric_table.h"
#include "base/record_error.h"
#include "base/status.h"
#include "pipeline/executor/executor.h"
#include "pipeline/executor/locked.h"

// The consumer's side of the executor: its wait for the next batch, and the delivery.

namespace millrace::pipeline {
namespace {

constexpr auto kNoLimit = std::chrono::nanoseconds::max();
// Longer than any wait, and still small enough to be added to a time.
constexpr std::chrono::nanoseconds kLongestLimit = std::chrono::hours(24 * 365 * 100);

// The begin of a call that is not measured.
constexpr int64_t kNotMeasured = -1;

}  // namespace

absl::StatusOr<std::optional<Batch>> Executor::Next() { return *Await(kNoLimit); }

std::optional<absl::StatusOr<std::optional<Batch>>> Executor::NextFor(
    std::chrono::nanoseconds limit) {
  return Await(std::min(limit, kLongestLimit));
}

// The outcome of Next, or nullopt once it has waited for `limit`.
std::optional<absl::StatusOr<std::optional<Batch>>> Executor::Await(
    std::chrono::nanoseconds limit) {
  using Outcome = absl::StatusOr<std::optional<Batch>>;
  if (absl::Status status = parts_.context->CheckNotForked(); !status.ok()) return Outcome(status);
  int64_t call_ns = BeginCall();
  auto next = AwaitNext(limit, call_ns);
  fetch_watch_.Look();
  EndCall(call_ns, next);
  return next;
}

int64_t Executor::BeginCall() {
  if constexpr (!kProfiles) return kNotMeasured;
  return hand_over_.Samples() ? Now() : kNotMeasured;
}

// Nothing near the mutex is read: a worker has it by now.
void Executor::EndCall(int64_t call_ns,
                       const std::optional<absl::StatusOr<std::optional<Batch>>>& outcome) {
  if (call_ns == kNotMeasured) return;
  const bool has_batch = outcome.has_value() && outcome->ok() && (*outcome)->has_value();
  if (has_batch) hand_over_.Add(Now() - call_ns);
}

// The same without the checks around it. `call_ns`: the time at which the call began; not measured
// any more if it waits.
std::optional<absl::StatusOr<std::optional<Batch>>> Executor::AwaitNext(
    std::chrono::nanoseconds limit, int64_t& call_ns) {
  Locked lock(*this);
  bool in_time = limit.count() > 0;
  while (true) {
    auto outcome = TryNextLocked();
    if (!outcome.has_value() && lock.Call()) continue;
    if (outcome.has_value() || !in_time) {
      EndWaitLocked();
      return outcome;
    }
    call_ns = kNotMeasured;
    in_time = WaitLocked(limit);
  }
}

// Waits until the consumer is called; false once it has waited for `limit` since it began to.
bool Executor::WaitLocked(std::chrono::nanoseconds limit) {
  if (!state_.ring.consumer_waits()) {
    counters_.waits.Add();
    const int64_t now_ns = Now();
    state_.ring.BeginWait(now_ns);
    if constexpr (kProfiles) {
      state_.profiler.waits().Begin(now_ns, choice_.CauseOfWait(state_));
    }
  }
  if (limit == kNoLimit) {
    batch_ready_.Wait(mu_);
    return true;
  }
  const std::chrono::nanoseconds waited(Now() - state_.ring.wait_begins_ns());
  return waited < limit && batch_ready_.WaitFor(mu_, limit - waited);
}

void Executor::EndWaitLocked() {
  if (!state_.ring.consumer_waits()) return;
  const int64_t now_ns = Now();
  const int64_t waited = state_.ring.EndWait(now_ns);
  state_.profiler.waits().End(now_ns);
  state_.demand.Waited(waited);
  counters_.wait_nanoseconds.Add(waited);
}

std::optional<absl::StatusOr<std::optional<Batch>>> Executor::TryNext() {
  if (absl::Status status = parts_.context->CheckNotForked(); !status.ok()) return status;
  const int64_t call_ns = BeginCall();
  std::optional<absl::StatusOr<std::optional<Batch>>> next;
  {
    Locked lock(*this);
    next = TryNextLocked();
  }
  if (next.has_value()) fetch_watch_.Look();
  EndCall(call_ns, next);
  return next;
}

// The outcome of Next, or nullopt if it has to wait for work that is under way.
std::optional<absl::StatusOr<std::optional<Batch>>> Executor::TryNextLocked() {
  using Outcome = absl::StatusOr<std::optional<Batch>>;
  if (state_.stopped) return result_.ok() ? Outcome(std::nullopt) : Outcome(result_);
  if (!state_.ring.empty()) {
    if (!state_.ring.front_is_ready()) return std::nullopt;
    return DeliverLocked();
  }
  if (state_.ring.opening()) return std::nullopt;
  if (choice_.AtEnd(state_)) {
    StopLocked(EndStatusLocked());
    return result_.ok() ? Outcome(std::nullopt) : Outcome(result_);
  }
  while (true) {
    WakeWorkersLocked();
    if (!NothingUnderWayLocked()) return std::nullopt;
    if (!choice_.HasNext(state_)) return StopIfStuckLocked();
    // Nothing was begun: consumers held too much. Those of other pipelines may have let go since,
    // and would not wake this one.
    if (choice_.AdmissionOfNext(state_) == Choice::Admission::kHeldByConsumer) {
      return Outcome(HeldErrorLocked());
    }
  }
}

// No batch is known and nothing is under way. Nullopt: a source that grows has yet to bring more.
std::optional<absl::StatusOr<std::optional<Batch>>> Executor::StopIfStuckLocked() {
  using Outcome = absl::StatusOr<std::optional<Batch>>;
  if (scanner_ != nullptr) CheckProgressLocked();
  if (state_.stopped) return Outcome(result_);
  const EmptyStreamWatch& empty_stream = state_.pass_one.empty_stream();
  if (!empty_stream.found()) return std::nullopt;
  StopLocked(absl::FailedPreconditionError(absl::StrCat(
      "no batch can be made any more: ", empty_stream.reason(), "; change the predicate")));
  return Outcome(result_);
}

absl::StatusOr<std::optional<Batch>> Executor::DeliverLocked() {
  std::unique_ptr<OpenBatch> batch = state_.ring.TakeFront();
  if (!batch->error.ok()) {
    // Not when they are found: how many later batches are under way depends on timing.
    counters_.records_bad.Add(batch->num_bad_rows);
    StopLocked(batch->error);
    return batch->error;
  }
  std::shared_ptr<BatchData> data = std::move(batch->data);
  if (absl::Status status = damage_.Count(*data); !status.ok()) {
    StopLocked(status);
    return status;
  }
  CountDamage(*data);
  data->held = true;
  budget_->Hold(data->reserved_bytes);
  counters_.batches.Add();
  // A consumer that waits takes the batch as soon as it is ready.
  const bool waited = state_.ring.consumer_waits();
  const int64_t now_ns = waited ? state_.profiler.ready_since_ns() : ProfileNow();
  state_.profiler.Delivered(now_ns, data->num_valid_rows);
  state_.profiler.SetReady(now_ns, state_.ring.num_ready());
  state_.ring.Delivered(std::move(batch), data->resume_token);
  if (parts_.growing != nullptr) ReleaseRows(*parts_.growing, *data);
  // To wake workers takes Next several microseconds.
  if (state_.ring.RefillIsDue()) WakeWorkersLocked();
  return std::optional<Batch>(Batch(std::move(data)));
}

void Executor::CountDamage(const BatchData& data) {
  counters_.records_bad.Add(static_cast<int64_t>(data.damaged.size()));
  for (const DamagedSample& one : data.damaged) {
    const std::string_view reason = RecordErrorReasonName(GetRecordError(one.error)->reason);
    parts_.context->metrics().counter(metric::kRecordsDamaged, reason).Add();
  }
}

absl::Status Executor::HeldErrorLocked() const {
  return MarkRetryable(absl::ResourceExhaustedError(absl::StrCat(
      "the next batch needs ", choice_.NextBatchBytes(state_),
      " B, but batches held by consumers take ", budget_->held_bytes(), " of the ",
      budget_->work_limit_bytes(), " B that the memory budget of ", budget_->limit_bytes(),
      " B has for batches: drop some, or raise memory_budget_bytes")));
}

absl::Status Executor::EndStatusLocked() const {
  return state_.growth.EndStatus(scanner_ == nullptr || state_.pass_one.reached_end());
}

}  // namespace millrace::pipeline
