// The reducer's front: what backward and the optimizer see. Which buckets are full is counted here,
// by the caller's thread; what becomes of full ones is the engine's, on the caller's thread
// (inline) or on one of its own. The two meet in the counters of the host's boards, and the engine
// sees to it that one of them reduces at a time.

#include "collectives/reducer/planned_reducer.h"

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "base/caught.h"
#include "base/host.h"
#include "base/status.h"
#include "collectives/peer_lost.h"
#include "collectives/reducer/bucket_engine.h"
#include "collectives/reducer/slot_engine.h"
#include "collectives/reducer/stream_engine.h"

namespace millrace::collectives {
namespace {

constexpr std::string_view kReducerFailed = "its reducer has failed";

const char* NameOf(ProgressPolicy policy) {
  if (policy == ProgressPolicy::kStream) return "on the device's stream";
  return policy == ProgressPolicy::kThread ? "on a thread" : "inline";
}

}  // namespace

PlannedReducer::PlannedReducer(std::vector<GradientSpec> gradients, BucketPlan plan, uint64_t hash,
                               const PrivateReducerOptions& options,
                               std::unique_ptr<HostLinks> links, int rank,
                               const std::optional<std::vector<TensorView>>& memory,
                               std::unique_ptr<DeviceMemory> device,
                               std::chrono::nanoseconds timeout)
    : TeamMember(options.team),
      rank_(rank),
      gradients_(std::move(gradients)),
      plan_(std::move(plan)),
      hash_(hash),
      options_(options),
      device_(std::move(device)),
      links_(std::move(links)),
      step_(options.first_step) {
  if (memory.has_value()) memory_ = std::make_unique<UserBuffers>(plan_, *memory);
  engine_ = MakeEngine(timeout);
  if (links_ != nullptr && links_->cross != nullptr) WatchExchanges();
  policy_ = MakePolicy();
  const bool works = engine_->has_share() && !plan_.buckets.empty();
  if (policy_.policy == ProgressPolicy::kThread && works) StartThread();
  FindShards();
  StartMicroBatch();
}

std::unique_ptr<ReductionEngine> PlannedReducer::MakeEngine(std::chrono::nanoseconds timeout) {
  ReductionEngine::Waiting waiting = {timeout, [this] { return Stopped(); },
                                      [this] { return GoesOnForOthers(); }, options_.clock};
  if (device_ != nullptr) {
    return std::make_unique<StreamEngine>(plan_, options_, std::move(waiting), *device_,
                                          memory_.get());
  }
  if (memory_ != nullptr && !is_staged()) {
    return std::make_unique<SlotEngine>(plan_, *links_, options_, std::move(waiting), *memory_);
  }
  return std::make_unique<BucketEngine>(plan_, *links_, options_, std::move(waiting));
}

ChosenPolicy PlannedReducer::MakePolicy() const {
  if (device_ != nullptr) return ChooseDevicePolicy(options_);
  std::optional<Capabilities> between_hosts;
  if (links_->cross != nullptr) between_hosts = links_->cross->capabilities();
  return ChoosePolicy(options_, ReadCores().usable, links_->host->size(), between_hosts);
}

void PlannedReducer::CopyShardsIn() {
  for (const GradientShard& shard : shards_) {
    const size_t element = SizeOf(gradients_[shard.gradient].dtype);
    const size_t offset = plan_.offsets[shard.gradient] + shard.begin * element;
    memory_->CopyIn(offset, (shard.end - shard.begin) * element, copy() + offset);
  }
}

void PlannedReducer::CopyShardsOut() {
  for (const GradientShard& shard : shards_) {
    const size_t element = SizeOf(gradients_[shard.gradient].dtype);
    const size_t offset = plan_.offsets[shard.gradient] + shard.begin * element;
    memory_->CopyOut(offset, (shard.end - shard.begin) * element, copy() + offset);
  }
}

// The parts of gradients that lie in this rank's parts of buckets.
void PlannedReducer::FindShards() {
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const size_t element = SizeOf(gradients_[i].dtype);
    const size_t begin = plan_.offsets[i];
    const size_t end = begin + plan_.counts[i] * element;
    ReductionEngine::Range part = {begin, end - begin};
    if (options_.shard) part = engine_->OwnPart(plan_.bucket_of[i]);
    const size_t from = std::max(begin, part.offset);
    const size_t to = std::min(end, part.offset + part.bytes);
    if (from < to) shards_.push_back({i, (from - begin) / element, (to - begin) / element});
  }
}

void PlannedReducer::StartThread() {
  MutexLock lock(mu_);  // for RunThread looks at thread_
  try {
    thread_ = std::thread([this] { RunThread(); });
  } catch (const std::system_error& error) {
    policy_ = {ProgressPolicy::kInline, absl::StrCat("no thread: ", error.what())};
  }
}

void PlannedReducer::RunThread() {
  { MutexLock lock(mu_); }  // StartThread has set thread_ then
  absl::Status status;
  while (status.ok()) status = Caught([this] { return engine_->Follow(); });
  absl::Status departure;
  bool quiet = false;
  {
    MutexLock lock(mu_);
    thread_failed_ = status;
    thread_ended_.store(true, std::memory_order_release);
    departure = departure_;
    quiet = quiet_;
  }
  if (departure.ok()) departure = Departure(engine_->place(), kReducerFailed, status);
  engine_->Leave(departure, quiet);
}

PlannedReducer::~PlannedReducer() {
  if (failed_.ok()) {
    GiveUp(Departure(CallersPlace(), "it has destroyed its reducer", absl::OkStatus()),
           IsBetweenSteps());
  }
  MutexLock lock(mu_);
  if (!quiet_) engine_->KeepMemory();
}

void PlannedReducer::Leave(const absl::Status& why) {
  if (why.ok() || !failed_.ok()) return;
  failed_ = why;
  // Peers may be in a step that this rank has not begun.
  GiveUp(Departure(CallersPlace(), "it has failed", why), /*quiet=*/false);
}

bool PlannedReducer::IsBetweenSteps() const {
  return published_ == 0 && micro_batch_ == 0 && std::ranges::find(ready_, true) == ready_.end();
}

PeerLost PlannedReducer::CallersPlace() const {
  if (IsBetweenSteps()) return {.step = step_, .phase = Phase::kUpdating};
  const size_t last = std::max<size_t>(1, plan_.buckets.size()) - 1;
  return {.step = step_,
          .bucket = static_cast<int>(std::min(published_, last)),
          .phase = published_ <= last ? Phase::kBackward : Phase::kWaiting};
}

absl::Status PlannedReducer::Departure(PeerLost place, std::string_view what,
                                       const absl::Status& why) const {
  if (PeerLostOf(why).has_value() || absl::IsCancelled(why)) return why;
  place.rank = rank_;
  std::string text(what);
  if (!why.ok()) {
    absl::StrAppend(&text, ": ", why.ToString(absl::StatusToStringMode::kWithNoExtraData));
  }
  return PeerLostError(place, text);
}

void PlannedReducer::GiveUp(const absl::Status& departure, bool quiet) {
  {
    MutexLock lock(mu_);
    if (departure_.ok()) {
      departure_ = departure;
      quiet_ = quiet;
    }
  }
  stopping_.store(true, std::memory_order_release);
  if (!thread_.joinable()) return engine_->Leave(departure, quiet);
  // The caller's communicators are its own again: all that the thread waits for asks Stopped.
  engine_->WakeAll();
  thread_.join();
}

absl::Status PlannedReducer::Failed(const absl::Status& status) {
  if (status.ok() || !failed_.ok()) return failed_;
  failed_ = status;
  GiveUp(Departure(CallersPlace(), kReducerFailed, status), /*quiet=*/false);
  return failed_;
}

// An exchange that was begun between hosts has no other way to learn that this rank gives up.
void PlannedReducer::WatchExchanges() {
  WaitLimits limits = links_->cross->limits();
  const auto watch = std::move(limits.watch);
  limits.watch = [this, watch]() -> absl::Status {
    if (stopping_.load(std::memory_order_acquire)) {
      MutexLock lock(mu_);
      return departure_;
    }
    return watch ? watch() : absl::OkStatus();
  };
  links_->cross->set_limits(std::move(limits));
}

absl::Status PlannedReducer::Stopped() {
  if (on_caller()) AdvanceOthers();
  if (stopping_.load(std::memory_order_acquire)) {
    MutexLock lock(mu_);
    return departure_;
  }
  return ThreadFailure();
}

absl::Status PlannedReducer::ThreadFailure() {
  if (!thread_ended_.load(std::memory_order_acquire)) return absl::OkStatus();
  MutexLock lock(mu_);
  return thread_failed_;
}

void PlannedReducer::StartMicroBatch() {
  ready_.assign(gradients_.size(), false);
  missing_.clear();
  for (const BucketPlan::Bucket& bucket : plan_.buckets)
    missing_.push_back(bucket.gradients.size());
  rows_.reset();
}

absl::Status PlannedReducer::CheckMark(size_t i) const {
  MILLRACE_RETURN_IF_ERROR(failed_);
  if (i >= gradients_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient ", i, " of ", gradients_.size(), " does not exist"));
  }
  if (ready_[i]) {
    return absl::FailedPreconditionError(
        absl::StrCat("gradient '", gradients_[i].name, "' was marked twice in one step"));
  }
  if (options_.average_by_rows && !rows_.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "gradient '", gradients_[i].name, "' was marked before the batch's rows were set"));
  }
  return absl::OkStatus();
}

absl::Status PlannedReducer::MarkReady(size_t i) {
  MILLRACE_RETURN_IF_ERROR(CheckMark(i));
  ready_[i] = true;
  const bool fills = --missing_[plan_.bucket_of[i]] == 0;
  if (options_.micro_batches > 1) {
    MILLRACE_RETURN_IF_ERROR(
        Failed(engine_->AddMicroBatch(i, gradient(i), micro_batch_ == 0, is_last_micro_batch())));
  }
  if (!is_last_micro_batch()) return absl::OkStatus();
  if (is_staged()) {
    memory_->CopyIn(plan_.offsets[i], gradient(i).size_bytes(), copy() + plan_.offsets[i]);
  }
  if (fills) MILLRACE_RETURN_IF_ERROR(Failed(Publish()));
  MILLRACE_RETURN_IF_ERROR(Failed(Poll(/*counts=*/true)));
  AdvanceOthers();
  return failed_;
}

absl::Status PlannedReducer::Publish() {
  const size_t before = published_;
  while (published_ < missing_.size() && missing_[published_] == 0) ++published_;
  if (published_ == before) return absl::OkStatus();
  if (before == 0) engine_->SetRows(step_rows_ + rows_.value_or(0));
  if (options_.progress != nullptr) {
    for (size_t bucket = before; bucket < published_; ++bucket) {
      options_.progress->BucketReady(step_, static_cast<int>(bucket));
    }
  }
  return engine_->Publish(base_ + static_cast<uint32_t>(published_));
}

absl::Status PlannedReducer::Finish() {
  MILLRACE_RETURN_IF_ERROR(failed_);
  const auto missing = std::find(ready_.begin(), ready_.end(), false);
  if (missing != ready_.end()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "gradient '", gradients_[missing - ready_.begin()].name, "' was not marked in this step"));
  }
  outcome_ = StepOutcome();
  outcome_.complete = is_last_micro_batch();
  if (outcome_.complete) {
    MILLRACE_RETURN_IF_ERROR(Failed(EndStep()));
  } else {
    MILLRACE_RETURN_IF_ERROR(Failed(engine_->EndMicroBatch()));
    step_rows_ += rows_.value_or(0);
    ++micro_batch_;
  }
  StartMicroBatch();
  return absl::OkStatus();
}

absl::Status PlannedReducer::EndStep() {
  if (options_.progress != nullptr) options_.progress->Finishing(step_);
  const int64_t start = StepTimes::Now();
  MILLRACE_RETURN_IF_ERROR(thread_.joinable() ? engine_->AwaitDone(base_) : engine_->Drain());
  if (is_staged()) CopyShardsOut();
  engine_->times().AddTo(counters_, start, StepTimes::Now());
  ReadOutcome();
  base_ += static_cast<uint32_t>(plan_.buckets.size());
  step_ += options_.step_stride;
  published_ = 0;
  micro_batch_ = 0;
  step_rows_ = 0;
  return absl::OkStatus();
}

absl::Status PlannedReducer::GatherShards() {
  if (!options_.shard || !failed_.ok()) return failed_;
  const int64_t start = StepTimes::Now();
  if (is_staged()) CopyShardsIn();
  MILLRACE_RETURN_IF_ERROR(Failed(engine_->GatherParts(++gathers_)));
  if (is_staged()) memory_->CopyOut(0, plan_.total_bytes, copy());
  counters_.gather_seconds += static_cast<double>(StepTimes::Now() - start) / 1e9;
  return absl::OkStatus();
}

void PlannedReducer::ReadOutcome() {
  if (plan_.buckets.empty()) return;
  const ReductionEngine::Totals totals = engine_->totals();
  outcome_.rows = totals.rows;
  outcome_.norm = std::sqrt(totals.squares);
  outcome_.skip = options_.skip_non_finite && !std::isfinite(totals.squares);
  if (options_.clip_norm > 0 && outcome_.norm > options_.clip_norm) {
    outcome_.clip_factor = static_cast<float>(options_.clip_norm / outcome_.norm);
  }
}

std::string PlannedReducer::Summary() const {
  std::string text = absl::StrCat(num_buckets(), num_buckets() == 1 ? " bucket" : " buckets");
  const char* separator = ": ";
  for (const BucketPlan::Bucket& bucket : plan_.buckets) {
    absl::StrAppend(&text, separator, BytesText(static_cast<double>(bucket.bytes)));
    separator = ", ";
  }
  if (links_ != nullptr && links_->host->size() > 1) {
    absl::StrAppend(&text, "; ", links_->host->size(), " ranks of this host share memory");
  }
  if (has_several_hosts()) {
    const HostGroups& groups = links_->groups;
    absl::StrAppend(
        &text, "; ", groups.host_of.size(), " ranks in ", groups.num_hosts(),
        links_->note.empty() ? " hosts" : " groups, for memory is not shared: ", links_->note);
  }
  if (device_ != nullptr && device_->device().size() > 1) {
    absl::StrAppend(&text, "; ", device_->device().size(), " ranks over NCCL");
  }
  if (memory_ != nullptr) {
    const bool one_by_one = device_ != nullptr && device_->buckets() == nullptr;
    const bool copied = device_ != nullptr || is_staged();
    absl::StrAppend(&text, "; gradients in the caller's memory, ",
                    one_by_one ? "summed one by one"
                    : copied   ? "copied to buckets and back"
                               : "summed through slots");
  }
  absl::StrAppend(&text, "; reduced ", NameOf(policy_.policy), " (", policy_.reason, ")",
                  options_.exact ? ", exactly" : "");
  absl::StrAppendFormat(&text, "; plan 0x%016x", hash_);
  return text;
}

}  // namespace millrace::collectives
