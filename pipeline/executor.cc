#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/executor_internal.h"

namespace millrace::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

int64_t NanosecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

}  // namespace

Executor::Counters::Counters(Metrics& metrics)
    : records_read(metrics.counter("millrace_records_read_total")),
      records_bad(metrics.counter("millrace_records_bad_total")),
      bytes_read(metrics.counter("millrace_bytes_read_total")),
      batches(metrics.counter("millrace_batches_total")),
      work_nanoseconds(metrics.counter("millrace_work_nanoseconds_total")),
      wait_nanoseconds(metrics.counter("millrace_consumer_wait_nanoseconds_total")),
      waits(metrics.counter("millrace_consumer_waits_total")) {}

Executor::Executor(ExecutorParts parts)
    : parts_(std::move(parts)),
      processor_(parts_.plan, *parts_.source),
      budget_(parts_.context->memory_budget()),
      num_threads_(parts_.context->workers().num_threads()),
      read_ahead_runs_(2 * num_threads_ + 8),
      pool_(std::make_shared<SlabPool>(parts_.allocator, parts_.layout->slab_bytes,
                                       static_cast<size_t>(parts_.prefetch_batches) + 1)),
      counters_(parts_.context->metrics()),
      next_batch_(parts_.first_batch) {}

Executor::~Executor() {
  Cancel();
  {
    MutexLock lock(mu_);
    while (tasks_ > 0 || reads_ > 0) idle_.Wait(mu_);
    ring_.clear();
    for (const auto& run : runs_) budget_->Release(run->reserved_bytes);
    for (const auto& scratch : idle_scratch_) budget_->Release(scratch->reserved_bytes);
  }
  pool_->Close();
}

void Executor::Start() {
  MutexLock lock(mu_);
  WakeWorkersLocked();
}

void Executor::Cancel() {
  MutexLock lock(mu_);
  if (absl::IsCancelled(result_)) return;
  stopped_ = true;
  result_ = absl::CancelledError("the pipeline was cancelled");
  batch_ready_.NotifyAll();
}

void Executor::StopLocked(absl::Status result) {
  stopped_ = true;
  result_ = std::move(result);
}

absl::StatusOr<std::optional<Batch>> Executor::Next() {
  if (absl::Status status = parts_.context->CheckNotForked(); !status.ok()) return status;
  MutexLock lock(mu_);
  if (auto outcome = TryNextLocked()) return *std::move(outcome);
  counters_.waits.Add();
  const Clock::time_point start = Clock::now();
  while (true) {
    batch_ready_.Wait(mu_);
    if (auto outcome = TryNextLocked()) {
      counters_.wait_nanoseconds.Add(NanosecondsSince(start));
      return *std::move(outcome);
    }
  }
}

// What Next returns now, or nullopt when it has to wait for work that is under way.
std::optional<absl::StatusOr<std::optional<Batch>>> Executor::TryNextLocked() {
  using Outcome = absl::StatusOr<std::optional<Batch>>;
  if (stopped_) return result_.ok() ? Outcome(std::nullopt) : Outcome(result_);
  if (!ring_.empty()) {
    if (ring_.front()->remaining_rows > 0) return std::nullopt;
    return DeliverLocked();
  }
  if (opening_) return std::nullopt;
  if (next_batch_ == parts_.order.num_batches()) {
    StopLocked(absl::OkStatus());
    return Outcome(std::nullopt);
  }
  if (BatchAdmissionLocked() == Admission::kHeldByConsumer) return Outcome(HeldErrorLocked());
  WakeWorkersLocked();
  return std::nullopt;
}

absl::StatusOr<std::optional<Batch>> Executor::DeliverLocked() {
  const std::unique_ptr<OpenBatch> batch = std::move(ring_.front());
  ring_.pop_front();
  if (!batch->error.ok()) {
    // Not when they are found: how many later batches are under way depends on timing.
    counters_.records_bad.Add(batch->num_bad_rows);
    StopLocked(batch->error);
    return batch->error;
  }
  batch->data->held = true;
  budget_->Hold(static_cast<int64_t>(parts_.layout->slab_bytes));
  counters_.batches.Add();
  WakeWorkersLocked();
  return std::optional<Batch>(Batch(batch->data));
}

absl::Status Executor::HeldErrorLocked() const {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the next batch needs ", parts_.layout->slab_bytes, " B, but batches held by consumers take ",
      budget_->held_bytes(), " of the ", budget_->limit_bytes(),
      " B of the memory budget: drop batches, or raise memory_budget_bytes"));
}

}  // namespace millrace::pipeline
