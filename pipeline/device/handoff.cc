#include "pipeline/device/handoff.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::pipeline {
namespace {

constexpr size_t kTensorAlignment = 256;
// Between two looks at a copy that Next has to wait for, which happens only when host slabs are so
// scarce that none can be filled before this copy is done. A driver's blocking wait could not be
// cancelled.
constexpr std::chrono::microseconds kCopyPoll{200};
// A longer one could overflow the clock.
constexpr std::chrono::nanoseconds kLongestWait = std::chrono::hours(24 * 365);

size_t AlignedBytes(const ConstTensorView& tensor) {
  return (tensor.size_bytes() + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

size_t DeviceBytes(const Batch& host) {
  size_t bytes = kTensorAlignment;
  for (size_t i = 0; i < host.names().size(); ++i) bytes += AlignedBytes(host.tensor(i));
  return bytes;
}

// Gives a slab back, unless another has taken it over.
class SlabHolder {
 public:
  SlabHolder(DeviceSlabs& slabs, DeviceSlab slab) : slabs_(&slabs), slab_(slab) {}
  SlabHolder(const SlabHolder&) = delete;
  SlabHolder& operator=(const SlabHolder&) = delete;
  ~SlabHolder() {
    if (slabs_ != nullptr) slabs_->GiveBack(slab_, {});
  }
  void Release() { slabs_ = nullptr; }

 private:
  DeviceSlabs* slabs_;
  const DeviceSlab slab_;
};

int64_t NowNs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

absl::Status CancelledError() { return absl::CancelledError("the feed was cancelled"); }

absl::Status CopyError(uint64_t index, const absl::Status& status) {
  return Annotate(status, ToStd(absl::StrCat("batch ", index, ": copy to the device")));
}

}  // namespace

absl::StatusOr<bool> BatchCopy::Done() const {
  absl::StatusOr<bool> done = slabs->device().Query(ready);
  if (!done.ok()) return CopyError(index, done.status());
  return done;
}

DeviceBatchData::DeviceBatchData(std::shared_ptr<BatchCopy> copy_in, DeviceSlab slab_in,
                                 const Batch& from)
    : copy(std::move(copy_in)),
      slab(slab_in),
      names(from.names().begin(), from.names().end()),
      ids(from.ids().begin(), from.ids().end()),
      valid(from.valid().begin(), from.valid().end()),
      damaged(from.damaged().begin(), from.damaged().end()),
      index(from.index()),
      epoch(from.epoch()),
      ends_epoch(from.ends_epoch()),
      num_valid_rows(from.num_valid_rows()),
      num_global_valid_rows(from.num_global_valid_rows()),
      first_global_row(from.first_global_row()),
      resume_token(from.resume_token()) {
  std::byte* memory = slab.memory;
  for (size_t i = 0; i < names.size(); ++i) {
    const ConstTensorView tensor = from.tensor(i);
    tensors.push_back({memory, tensor.dtype, tensor.shape});
    memory += AlignedBytes(tensor);
  }
}

DeviceBatchData::~DeviceBatchData() {
  MutexLock lock(mu);
  copy->slabs->GiveBack(slab, std::move(use_events));
}

absl::Status DeviceBatchData::RecordUse(void* stream) {
  DeviceSlabs& slabs = *copy->slabs;
  MutexLock lock(mu);
  const auto known = std::ranges::find(use_streams, stream);
  if (known != use_streams.end()) {
    return slabs.device().Record(use_events[static_cast<size_t>(known - use_streams.begin())],
                                 stream);
  }
  use_streams.reserve(use_streams.size() + 1);
  use_events.reserve(use_events.size() + 1);
  MILLRACE_ASSIGN_OR_RETURN(void* const event, slabs.TakeEvent());
  const absl::Status status = slabs.device().Record(event, stream);
  if (status.ok()) {
    use_streams.push_back(stream);
    use_events.push_back(event);
  } else {
    slabs.GiveBackEvent(event);
  }
  return status;
}

absl::StatusOr<std::unique_ptr<Handoff>> Handoff::Make(std::shared_ptr<Device> device,
                                                       std::unique_ptr<Pipeline> pipeline,
                                                       const DeviceFeedOptions& options) {
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  MILLRACE_ASSIGN_OR_RETURN(
      std::shared_ptr<DeviceSlabs> slabs,
      DeviceSlabs::Make(std::move(device), options.ring, options.max_device_bytes));
  return std::unique_ptr<Handoff>(new Handoff(std::move(slabs), std::move(pipeline), options));
}

Handoff::Handoff(std::shared_ptr<DeviceSlabs> slabs, std::unique_ptr<Pipeline> pipeline,
                 const DeviceFeedOptions& options)
    : slabs_(std::move(slabs)),
      pipeline_(std::move(pipeline)),
      ring_(static_cast<size_t>(options.ring)),
      keeps_host_(options.keeps_host),
      token_(pipeline_->Save()) {}

Handoff::~Handoff() {
  Cancel();
  DropCopies();
  slabs_->Close();
}

// Drops the batches that were not delivered. No caller is left for the error of a copy that fails
// here; it only has to be over.
void Handoff::DropCopies() {
  parked_.reset();
  queue_.clear();
  if (!copying_.empty()) slabs_->device().Synchronize(slabs_->copy_stream()).IgnoreError();
  copying_.clear();
}

void Handoff::Cancel() {
  pipeline_->Cancel();
  MutexLock lock(mu_);
  cancelled_.store(true, std::memory_order_release);
  cancel_.NotifyAll();
}

absl::Status Handoff::Restore(const std::string& token) {
  MILLRACE_RETURN_IF_ERROR(pipeline_->Restore(token));
  Restart();
  return absl::OkStatus();
}

absl::Status Handoff::Seek(uint64_t batch) {
  MILLRACE_RETURN_IF_ERROR(pipeline_->Seek(batch));
  Restart();
  return absl::OkStatus();
}

// Begins anew where the pipeline stands.
void Handoff::Restart() {
  DropCopies();
  ended_ = false;
  failed_index_ = std::numeric_limits<uint64_t>::max();
  result_.reset();
  token_ = pipeline_->Save();
  copies_.Clear();
}

absl::StatusOr<std::optional<DeviceBatch>> Handoff::Next() { return *NextBy(std::nullopt); }

std::optional<absl::StatusOr<std::optional<DeviceBatch>>> Handoff::NextFor(
    std::chrono::nanoseconds limit) {
  const auto now = std::chrono::steady_clock::now();
  return NextBy(now + std::clamp(limit, std::chrono::nanoseconds::zero(), kLongestWait));
}

// Nullopt: the time has passed.
std::optional<absl::StatusOr<std::optional<DeviceBatch>>> Handoff::NextBy(End end) {
  using Delivery = absl::StatusOr<std::optional<DeviceBatch>>;
  if (cancelled_.load(std::memory_order_acquire)) return Delivery(CancelledError());
  SettleCopies();
  if (!result_.has_value() && queue_.empty()) {
    const absl::StatusOr<bool> filled = FillQueue(end);
    if (!filled.ok()) return Delivery(filled.status());
    if (!*filled) return std::nullopt;
  }
  if (!result_.has_value()) return Deliver();
  return result_->ok() ? Delivery(std::optional<DeviceBatch>()) : Delivery(*result_);
}

void Handoff::Poll() {
  SettleCopies();
  LookAhead(ring_);
}

// Where there is no memory, the batch stays in the queue. REQUIRES: the queue is not empty.
absl::StatusOr<std::optional<DeviceBatch>> Handoff::Deliver() {
  if (!queue_.front().error.ok()) {
    result_ = queue_.front().error;
    queue_.pop_front();
    return *result_;
  }
  std::string token = queue_.front().data->resume_token;
  LookAhead(ring_ + 1);
  const Entry entry = std::move(queue_.front());
  queue_.pop_front();
  token_.swap(token);
  return std::optional<DeviceBatch>(DeviceBatch(entry.data));
}

// Gives back host slabs whose copies are done, and finds copies that failed. A copy that cannot be
// queried may still read its slab.
void Handoff::SettleCopies() {
  while (!copying_.empty()) {
    const absl::StatusOr<bool> done = copying_.front().copy->Done();
    if (done.ok() && !*done) return;
    if (!done.ok()) slabs_->device().Synchronize(slabs_->copy_stream()).IgnoreError();
    const Copying copying = std::move(copying_.front());
    copying_.pop_front();
    if (!done.ok()) Fail(*copying.copy, done.status());
  }
}

// The error takes the place of its batch, or, when that was delivered, of all batches that were
// not. A device that is lost fails every copy: the lowest batch counts.
void Handoff::Fail(const BatchCopy& copy, const absl::Status& error) {
  if (copy.index >= failed_index_) return;
  failed_index_ = copy.index;
  ended_ = true;
  parked_.reset();
  const auto place =
      std::ranges::find(queue_, &copy, [](const Entry& entry) { return entry.copy.get(); });
  if (place == queue_.end()) {
    queue_.clear();
    result_ = error;
    return;
  }
  *place = {.error = error};
  queue_.erase(place + 1, queue_.end());
}

// Waits until the queue has an entry or there is a result; false: the time has passed.
absl::StatusOr<bool> Handoff::FillQueue(End end) {
  while (queue_.empty() && !result_.has_value()) {
    if (ended_) {
      result_ = absl::OkStatus();
    } else if (copying_.size() > ring_) {
      MILLRACE_ASSIGN_OR_RETURN(const bool is_done, WaitForCopy(end));
      if (!is_done) return false;
    } else if (parked_.has_value()) {
      if (!Issue()) return HeldError();
    } else {
      MILLRACE_ASSIGN_OR_RETURN(const bool is_taken, TakeNext(end));
      if (!is_taken) return false;
    }
  }
  return true;
}

// Takes the pipeline's next outcome, or waits for a copy to give back its host slab; false: the
// time has passed.
absl::StatusOr<bool> Handoff::TakeNext(End end) {
  std::optional<Outcome> outcome = PipelineNext(end);
  if (!outcome.has_value()) return false;
  if (IsRetryable(outcome->status()) && !copying_.empty()) {
    return WaitForCopy(end);  // of the host slabs held some are ours
  }
  MILLRACE_RETURN_IF_ERROR(Take(*std::move(outcome)));
  return true;
}

std::optional<Handoff::Outcome> Handoff::PipelineNext(End end) {
  if (!end.has_value()) return pipeline_->Next();
  return pipeline_->NextFor(*end - std::chrono::steady_clock::now());
}

// Issues all that can be issued without waiting, until the queue has `most` entries. An outcome of
// the pipeline that is no batch is kept for the call that comes to it, or said again then.
void Handoff::LookAhead(size_t most) {
  while (!ended_ && queue_.size() < most && copying_.size() <= ring_) {
    if (parked_.has_value()) {
      if (!Issue()) return;
      continue;
    }
    std::optional<Outcome> outcome = pipeline_->TryNext();
    if (!outcome.has_value() || !Take(*std::move(outcome)).ok()) return;
  }
}

// Returns the outcomes that are not the stream's: cancelled, or too many batches held.
absl::Status Handoff::Take(Outcome outcome) {
  if (outcome.ok()) {
    parked_ = *std::move(outcome);
    ended_ = !parked_.has_value();
    return absl::OkStatus();
  }
  if (absl::IsCancelled(outcome.status()) || IsRetryable(outcome.status())) {
    return outcome.status();
  }
  queue_.push_back({.error = outcome.status()});
  ended_ = true;
  return absl::OkStatus();
}

// Issues the copies of the parked batch; false when the device has no room for it.
bool Handoff::Issue() {
  absl::StatusOr<std::optional<DeviceSlab>> slab = slabs_->Take(DeviceBytes(*parked_));
  if (slab.ok() && !slab->has_value()) return false;
  const absl::Status status = slab.ok() ? IssueTo(*parked_, **slab) : slab.status();
  if (!status.ok()) {
    queue_.push_back({.error = CopyError(parked_->index(), status)});
    ended_ = true;
    failed_index_ = parked_->index();
  }
  parked_.reset();
  return true;
}

// Takes over the slab, also where it fails.
absl::StatusOr<Handoff::Entry> Handoff::MakeEntry(const Batch& host, DeviceSlab slab) {
  SlabHolder holder(*slabs_, slab);
  Entry entry;
  entry.copy = std::make_shared<BatchCopy>(slabs_, host.index());
  MILLRACE_ASSIGN_OR_RETURN(entry.copy->ready, slabs_->TakeEvent());
  entry.data = std::make_shared<DeviceBatchData>(entry.copy, slab, host);
  holder.Release();
  if (keeps_host_) entry.data->host = host;
  return entry;
}

// Copies issued before a call failed may still read the host's slab. When the ready event
// cannot be recorded behind it, the device is lost or nearly so, and is waited for.
//
// Memory is taken before the copies: behind them the batch must be in both queues.
absl::Status Handoff::IssueTo(const Batch& host, DeviceSlab slab) {
  MILLRACE_ASSIGN_OR_RETURN(const Entry entry, MakeEntry(host, slab));
  copying_.push_back({entry.copy, host});  // its event has passed until it is recorded
  queue_.push_back(entry);
  Device& device = slabs_->device();
  absl::Status status = IssueCopies(entry, host);
  const absl::Status recorded = device.Record(entry.copy->ready, slabs_->copy_stream());
  if (!recorded.ok()) {
    device.Synchronize(slabs_->copy_stream()).IgnoreError();
    copying_.pop_back();
  }
  status.Update(recorded);
  if (!status.ok()) queue_.pop_back();
  return status;
}

absl::Status Handoff::IssueCopies(const Entry& entry, const Batch& host) {
  const int64_t begin_ns = NowNs();
  int64_t bytes = 0;
  for (size_t i = 0; i < entry.data->tensors.size(); ++i) {
    const DeviceTensorView& tensor = entry.data->tensors[i];
    if (tensor.size_bytes() == 0) continue;
    MILLRACE_RETURN_IF_ERROR(slabs_->device().Copy(static_cast<std::byte*>(tensor.data),
                                                   host.tensor(i).data, tensor.size_bytes(),
                                                   slabs_->copy_stream()));
    bytes += static_cast<int64_t>(tensor.size_bytes());
  }
  copies_.AddIssued(bytes, NowNs() - begin_ns);
  return absl::OkStatus();
}

// Waits until a copy is done; false: the time has passed. REQUIRES: a copy is under way.
absl::StatusOr<bool> Handoff::WaitForCopy(End end) {
  const int64_t begin_ns = NowNs();
  absl::StatusOr<bool> waited = AwaitCopy(end);
  copies_.AddWait(NowNs() - begin_ns);
  return waited;
}

absl::StatusOr<bool> Handoff::AwaitCopy(End end) {
  while (true) {
    const absl::StatusOr<bool> done = copying_.front().copy->Done();
    if (!done.ok() || *done) break;
    if (end.has_value() && std::chrono::steady_clock::now() >= *end) return false;
    MutexLock lock(mu_);
    if (cancelled_.load(std::memory_order_acquire)) return CancelledError();
    cancel_.WaitFor(mu_, kCopyPoll);
  }
  SettleCopies();
  return true;
}

absl::Status Handoff::HeldError() const {
  return MarkRetryable(absl::ResourceExhaustedError(
      absl::StrCat("the next batch needs ", DeviceBytes(*parked_),
                   " B on the device, but batches held take ", slabs_->allocated_bytes(),
                   " of max_device_bytes ", slabs_->max_bytes(), ": drop batches, or raise it")));
}

}  // namespace millrace::pipeline
