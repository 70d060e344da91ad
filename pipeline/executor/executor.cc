#include "pipeline/executor/executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"

namespace millrace::pipeline {
namespace {

constexpr int64_t kKeptShare = 8;  // of the memory budget, for records between the two passes

int MaxThreads(const ExecutorParts& parts) {
  const int threads = parts.context->workers().num_threads();
  return parts.cpu_budget == 0 ? threads : std::min(threads, parts.cpu_budget);
}

// Positions that each lane has in all passes over the batch stage that there can be.
std::vector<uint64_t> LaneEnds(const ExecutorParts& parts) {
  uint64_t passes = 1;
  for (const OrderStep& step : parts.plan.batch_order) {
    if (step.kind != OrderStep::Kind::kRepeat) continue;
    if (step.count == 0 || __builtin_mul_overflow(passes, step.count, &passes)) passes = kMaxCount;
  }
  // What has to grow first is told later.
  const uint64_t elements = parts.growing != nullptr ? 0 : parts.order.records().size();
  std::vector<uint64_t> ends = LaneSizes(parts.plan, elements);
  for (uint64_t& end : ends) {
    const bool huge = __builtin_mul_overflow(end, passes, &end) || end >= kMaxCount;
    if (huge) end = kInfinite;
  }
  return ends;
}

int64_t StandingBytes(const ExecutorParts& parts, const Examiner* examiner) {
  if (examiner == nullptr) return parts.standing_bytes;
  return parts.standing_bytes +
         static_cast<int64_t>(
             SettlerBytes(parts.plan, examiner->extents_per_row(), parts.order.records().size()));
}

}  // namespace

Executor::Counters::Counters(Metrics& metrics)
    : records_read(metrics.counter("millrace_records_read_total")),
      records_examined(metrics.counter("millrace_records_examined_total")),
      records_bad(metrics.counter("millrace_records_bad_total")),
      bytes_read(metrics.counter("millrace_bytes_read_total")),
      batches(metrics.counter("millrace_batches_total")),
      work_nanoseconds(metrics.counter("millrace_work_nanoseconds_total")),
      wait_nanoseconds(metrics.counter("millrace_consumer_wait_nanoseconds_total")),
      waits(metrics.counter("millrace_consumer_waits_total")),
      threads(metrics.gauge("millrace_worker_target")),
      ring(metrics.gauge("millrace_ring_target_batches")) {}

Executor::Executor(ExecutorParts parts)
    : parts_(std::move(parts)),
      processor_(parts_.plan, *parts_.source),
      examiner_(parts_.plan.cut.has_value() ? std::make_unique<Examiner>(parts_.plan) : nullptr),
      budget_(parts_.context->memory_budget()),
      standing_(budget_, StandingBytes(parts_, examiner_.get())),
      max_threads_(MaxThreads(parts_)),
      own_lanes_(SliceOfRank(parts_.plan.lanes, parts_.rank, parts_.world)),
      pool_(std::make_shared<SlabPool>(parts_.allocator, budget_,
                                       static_cast<size_t>(parts_.prefetch_batches) + 1)),
      counters_(parts_.context->metrics()),
      keeper_(budget_->limit_bytes() / kKeptShare),
      memo_(parts_.order.records()),
      memo_order_(&parts_.order),
      ring_target_(parts_.prefetch_batches),
      damage_(&parts_.plan.damage),
      thread_target_(max_threads_),
      adapter_({.threads = max_threads_, .ring = parts_.prefetch_batches}),
      adapting_(parts_.adapt) {
  counters_.threads.Add(thread_target_);
  counters_.ring.Add(ring_target_);
  if (parts_.growing == nullptr) return;
  parts_.growing->SetOnGrow([this] {
    Locked lock(*this);
    WakeWorkersLocked();
    if (ring_.empty()) consumer_to_call_ = true;
  });
}

Executor::~Executor() {
  Cancel();
  if (parts_.growing != nullptr) parts_.growing->SetOnGrow({});
  {
    MutexLock lock(mu_);
    WaitIdleAndClearLocked();
    for (const auto& scratch : idle_scratch_) budget_->Release(scratch->reserved_bytes);
    counters_.threads.Add(-thread_target_);
    counters_.ring.Add(-ring_target_);
  }
  pool_->Close();
}

absl::Status Executor::Start(StreamPlace place) {
  std::unique_ptr<Settler> settler;
  if (examiner_ != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(settler, MakeSettler(place.state));
  }
  std::optional<LeftOut> left_out;
  if (parts_.growing != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(left_out, LeftOut::Make(parts_.plan, parts_.slice));
  }
  Locked lock(*this);
  stopped_ = true;
  WaitIdleAndClearLocked();
  if (cancelled_) return result_;
  stopped_ = false;
  result_ = absl::OkStatus();
  next_batch_ = place.batch;
  last_token_ = std::move(place.token);
  damage_ = DamageBudget(&parts_.plan.damage);
  settler_ = std::move(settler);
  left_out_ = std::move(left_out);
  if (settler_ != nullptr) {
    board_.Reset(*settler_, LaneEnds(parts_));
    const Order& records = parts_.order.records();
    const bool comes_round = records.size() == kInfinite && parts_.growing == nullptr;
    barren_ = BarrenWatch(parts_.plan, comes_round, records.EpochSize(), parts_.num_records());
    settled_ = settler_->ended();
    more_closed_ = true;  // perhaps; its first turn tells
  }
  WakeWorkersLocked();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Settler>> Executor::MakeSettler(const std::string& state) const {
  SettlerOptions options;
  options.rank = parts_.rank;
  options.world = parts_.world;
  options.num_lanes = parts_.plan.lanes;
  options.seed = parts_.plan.seed;
  options.extents_per_row = examiner_->extents_per_row();
  const uint64_t elements = parts_.order.records().size();
  options.lane_sizes = LaneSizes(parts_.plan, elements);
  options.grows = parts_.growing != nullptr;
  options.endless = elements == kInfinite && !options.grows;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Settler> settler,
                            Settler::Make(parts_.plan, std::move(options)));
  if (!state.empty()) MILLRACE_RETURN_IF_ERROR(settler->Restore(state));
  return settler;
}

// Waits for tasks and reads under way, and forgets what they were for. REQUIRES: stopped_.
void Executor::WaitIdleAndClearLocked() {
  while (tasks_ > 0 || reads_ > 0) idle_.Wait(mu_);
  ring_.clear();
  closed_.clear();
  keeper_.Clear();
  rows_ = RunPass();
  scan_ = RunPass();
  retry_.clear();
  filled_.clear();
  idle_runs_.clear();
  for (const auto& run : runs_) {
    budget_->Release(std::exchange(run->reserved_bytes, 0));
    run->Clear();
    idle_runs_.push_back(run.get());
  }
  opening_ = planning_ = settling_ = error_seen_ = more_closed_ = settled_ = wake_due_ = false;
  examined_rows_ = kept_rows_ = 0;
  ready_batches_ = 0;
}

void Executor::Cancel() {
  if (parts_.growing != nullptr) parts_.growing->Close();
  MutexLock lock(mu_);
  if (cancelled_) return;
  cancelled_ = true;
  StopLocked(absl::CancelledError("the pipeline was cancelled"));
  batch_ready_.NotifyAll();
}

void Executor::Withdraw(absl::Status error, std::string token) {
  MutexLock lock(mu_);
  if (!cancelled_) StopLocked(std::move(error));
  last_token_ = std::move(token);
}

std::string Executor::Save() const {
  MutexLock lock(mu_);
  return last_token_;
}

void Executor::SetTargets(int threads, int batches) {
  Locked lock(*this);
  adapting_ = false;
  ObeyLocked({.threads = threads, .ring = batches});
}

void Executor::StopLocked(absl::Status result) {
  stopped_ = true;
  result_ = std::move(result);
}

absl::StatusOr<std::optional<Batch>> Executor::Next() {
  if (absl::Status status = parts_.context->CheckNotForked(); !status.ok()) return status;
  Locked lock(*this);
  while (true) {
    if (auto outcome = TryNextLocked()) {
      EndWaitLocked();
      return *std::move(outcome);
    }
    if (lock.Call()) continue;
    if (wait_begins_ < 0) {
      counters_.waits.Add();
      wait_begins_ = Now();
    }
    batch_ready_.Wait(mu_);
  }
}

void Executor::EndWaitLocked() {
  if (wait_begins_ < 0) return;
  const int64_t waited = Now() - std::exchange(wait_begins_, -1);
  waited_ns_ += waited;
  counters_.wait_nanoseconds.Add(waited);
}

std::optional<absl::StatusOr<std::optional<Batch>>> Executor::TryNext() {
  if (absl::Status status = parts_.context->CheckNotForked(); !status.ok()) return status;
  Locked lock(*this);
  return TryNextLocked();
}

// What Next returns now, or nullopt when it has to wait for work that is under way.
std::optional<absl::StatusOr<std::optional<Batch>>> Executor::TryNextLocked() {
  using Outcome = absl::StatusOr<std::optional<Batch>>;
  if (stopped_) return result_.ok() ? Outcome(std::nullopt) : Outcome(result_);
  if (!ring_.empty()) {
    if (!ring_.front()->ready) return std::nullopt;
    return DeliverLocked();
  }
  if (opening_) return std::nullopt;
  if (AtEndLocked()) {
    StopLocked(EndStatusLocked());
    return result_.ok() ? Outcome(std::nullopt) : Outcome(result_);
  }
  while (true) {
    WakeWorkersLocked();
    if (tasks_ > 0 || reads_ > 0) return std::nullopt;
    if (!HasNextLocked()) {
      if (examiner_ != nullptr) CheckProgressLocked();
      if (stopped_) return Outcome(result_);
      if (!barren_.barren()) return std::nullopt;
      StopLocked(absl::FailedPreconditionError(absl::StrCat(
          "no batch can be made any more: ", barren_.reason(), "; change the predicate")));
      return Outcome(result_);
    }
    // Nothing was begun: consumers held too much. Those of other pipelines may have let go since,
    // and would not wake this one.
    if (BatchAdmissionLocked() == Admission::kHeldByConsumer) return Outcome(HeldErrorLocked());
  }
}

absl::StatusOr<std::optional<Batch>> Executor::DeliverLocked() {
  std::unique_ptr<OpenBatch> batch = std::move(ring_.front());
  ring_.pop_front();
  wake_due_ = false;
  --ready_batches_;
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
  last_token_ = data->resume_token;
  if (parts_.growing != nullptr) ReleaseRows(*data);
  idle_batches_.push_back(std::move(batch));
  // A ring of short work is filled again in no time, so that half of it may go before workers are
  // woken, which would take Next several microseconds.
  if (ready_batches_ <= ring_target_ / 2 || !items_are_short_) WakeWorkersLocked();
  return std::optional<Batch>(Batch(std::move(data)));
}

void Executor::CountDamage(const BatchData& data) {
  counters_.records_bad.Add(static_cast<int64_t>(data.damaged.size()));
  for (const DamagedSample& one : data.damaged) {
    const std::string name = DamageCounterName(GetRecordError(one.error)->reason);
    parts_.context->metrics().counter(name).Add();
  }
}

absl::Status Executor::HeldErrorLocked() const {
  return MarkRetryable(absl::ResourceExhaustedError(absl::StrCat(
      "the next batch needs ", NextBatchBytesLocked(), " B, but batches held by consumers take ",
      budget_->held_bytes(), " of the ", budget_->work_limit_bytes(),
      " B that the memory budget of ", budget_->limit_bytes(),
      " B has for batches: drop some, or raise memory_budget_bytes")));
}

}  // namespace millrace::pipeline
