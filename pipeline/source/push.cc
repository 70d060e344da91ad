#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/philox.h"
#include "pipeline/push_source.h"
#include "pipeline/source/growing.h"

// A queue of records in memory, which the pipeline reads where they lie. Each has an owner: the
// copy that Push made, or the program's. Offsets count the bytes of all records pushed before.
// Records stay until the batches that they are in are delivered, for a plan with a cut reads them
// twice; behind a shuffle or a bucket that is in any order. One that stays long must not keep what
// came after it: released records leave holes, and before the holes are more than an eighth of the
// records, all of them are closed.
//
// An owner's end may be code of the program. Records are released while the executor holds its
// mutex, and the program may wait for that mutex with a lock that its code needs. So owners that
// are released are put aside, and end where no mutex is held (TakeReleased).

namespace millrace::pipeline {

namespace {

using Owner = ReleasedRecords::Owner;

// Copies a record; never null, so that one without bytes has a place too.
std::shared_ptr<const char[]> CopyOf(std::string_view record) {
  auto copy = std::make_shared_for_overwrite<char[]>(std::max<size_t>(record.size(), 1));
  if (!record.empty()) std::memcpy(copy.get(), record.data(), record.size());
  return copy;
}

}  // namespace

class PushQueue {
 public:
  explicit PushQueue(PushSourceOptions options) : options_(std::move(options)) {}

  const PushSourceOptions& options() const { return options_; }

  // The host program's side. Takes a copy, or the record itself with its owner. `limit`: how long
  // to wait; nullopt: as long as it takes.
  absl::StatusOr<bool> Push(std::string_view record, std::optional<std::chrono::nanoseconds> limit)
      MILLRACE_EXCLUDES(mu_);
  absl::StatusOr<bool> PushOwned(std::string_view record, Owner owner,
                                 std::optional<std::chrono::nanoseconds> limit)
      MILLRACE_EXCLUDES(mu_);
  void OnRoom(Owner call) MILLRACE_EXCLUDES(mu_);
  void End(absl::Status status) MILLRACE_EXCLUDES(mu_);

  // The pipeline's side.
  bool Attach() MILLRACE_EXCLUDES(mu_);
  uint64_t available() const MILLRACE_EXCLUDES(mu_);
  uint64_t held_bytes() const MILLRACE_EXCLUDES(mu_);
  bool ended() const MILLRACE_EXCLUDES(mu_);
  absl::Status status() const MILLRACE_EXCLUDES(mu_);
  readers::RecordRef Locate(uint64_t record) const MILLRACE_EXCLUDES(mu_);
  // Writes the bytes of the first of these records, until one is not held; returns their number.
  size_t View(std::span<const readers::RecordRef> refs, std::span<std::string_view> payloads) const
      MILLRACE_EXCLUDES(mu_);
  void SetOnGrow(std::function<void()> on_grow) MILLRACE_EXCLUDES(mu_);
  void Want(uint64_t before) MILLRACE_EXCLUDES(mu_);
  void Release(std::span<const uint64_t> records) MILLRACE_EXCLUDES(mu_);
  void SetUses(uint64_t record, uint64_t uses) MILLRACE_EXCLUDES(mu_);
  ReleasedRecords TakeReleased() MILLRACE_EXCLUDES(mu_);
  void Close() MILLRACE_EXCLUDES(mu_);
  // Ends the owners of all records, once nothing reads them any more; waits for those under way.
  void Abandon() MILLRACE_EXCLUDES(mu_);

 private:
  struct Entry {
    uint64_t record;
    uint64_t offset;
    uint64_t uses;  // until it is released; 0: a hole
    std::string_view payload;
    Owner owner;
  };
  using Entries = std::deque<Entry>;
  static constexpr uint64_t kEntryBytes = 64;  // what a record costs beside its payload
  static_assert(sizeof(Entry) + sizeof(Entry) / 8 <= kEntryBytes);

  bool HasRoomLocked(size_t bytes) const MILLRACE_REQUIRES(mu_);
  absl::Status CheckOpenLocked() const MILLRACE_REQUIRES(mu_);
  // Where entries_ has a record; nullopt: it is not held.
  std::optional<size_t> FindLocked(uint64_t record) const MILLRACE_REQUIRES(mu_);
  // Puts the owner of an entry without uses aside.
  void FreeLocked(Entry& entry) MILLRACE_REQUIRES(mu_);
  void CloseHolesLocked() MILLRACE_REQUIRES(mu_);
  // Waits for room: false when there was none in time, an error when the queue was closed.
  absl::StatusOr<bool> WaitForRoomLocked(size_t bytes,
                                         std::optional<std::chrono::nanoseconds> limit)
      MILLRACE_REQUIRES(mu_);
  template <typename Make>
  absl::StatusOr<bool> Take(size_t bytes, std::optional<std::chrono::nanoseconds> limit,
                            const Make& make) MILLRACE_EXCLUDES(mu_);
  void NotifyReader() MILLRACE_EXCLUDES(mu_);
  // Tells producers that there is room, or the end. TakeReleased calls those that do not wait.
  void NotifyProducersLocked() MILLRACE_REQUIRES(mu_);

  // Constant after construction.
  const PushSourceOptions options_;
  const std::shared_ptr<ReleasedRecords::Count> ending_ =
      std::make_shared<ReleasedRecords::Count>();  // synchronises itself

  mutable Mutex mu_;
  CondVar room_;                              // producers wait for room, or for the end
  CondVar called_;                            // SetOnGrow waits for calls_ == 0
  Entries entries_ MILLRACE_GUARDED_BY(mu_);  // ascending; the first is no hole
  size_t num_holes_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint64_t end_record_ MILLRACE_GUARDED_BY(mu_) = 0;  // records ever pushed
  uint64_t end_offset_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint64_t held_bytes_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint64_t wanted_ MILLRACE_GUARDED_BY(mu_) = 0;    // records below are taken in any case
  bool attached_ MILLRACE_GUARDED_BY(mu_) = false;  // true once a pipeline has it
  bool ended_ MILLRACE_GUARDED_BY(mu_) = false;     // true if no more records come
  bool closed_ MILLRACE_GUARDED_BY(mu_) = false;    // true once the pipeline closed it
  absl::Status status_ MILLRACE_GUARDED_BY(mu_);
  std::function<void()> on_grow_ MILLRACE_GUARDED_BY(mu_);
  int calls_ MILLRACE_GUARDED_BY(mu_) = 0;                // the calls of on_grow_ under way
  std::vector<Owner> released_ MILLRACE_GUARDED_BY(mu_);  // put aside
  std::vector<Owner> calls_on_room_ MILLRACE_GUARDED_BY(mu_);
  std::atomic<bool> has_released_ = false;  // true if released_ has some; release -> TakeReleased
};

bool PushQueue::HasRoomLocked(size_t bytes) const {
  if (entries_.empty() || end_record_ < wanted_) return true;
  const uint64_t cost = bytes + kEntryBytes;
  return cost <= options_.max_bytes && held_bytes_ <= options_.max_bytes - cost;
}

absl::Status PushQueue::CheckOpenLocked() const {
  if (closed_) return absl::CancelledError("the pipeline that reads the push source was closed");
  if (ended_) return absl::FailedPreconditionError("the push source was finished already");
  return absl::OkStatus();
}

absl::StatusOr<bool> PushQueue::WaitForRoomLocked(size_t bytes,
                                                  std::optional<std::chrono::nanoseconds> limit) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  while (true) {
    if (absl::Status status = CheckOpenLocked(); !status.ok()) return status;
    if (HasRoomLocked(bytes)) return true;
    if (!limit) {
      room_.Wait(mu_);
      continue;
    }
    const std::chrono::nanoseconds left = *limit - (Clock::now() - start);
    if (left <= std::chrono::nanoseconds::zero()) return false;
    // The clock cannot count further than a few centuries; a day at a time is enough.
    room_.WaitFor(mu_, std::min<std::chrono::nanoseconds>(left, std::chrono::hours(24)));
  }
}

absl::StatusOr<bool> PushQueue::Push(std::string_view record,
                                     std::optional<std::chrono::nanoseconds> limit) {
  return Take(record.size(), limit, [record] {
    const std::shared_ptr<const char[]> copy = CopyOf(record);
    return std::pair(std::string_view(copy.get(), record.size()), Owner(copy));
  });
}

absl::StatusOr<bool> PushQueue::PushOwned(std::string_view record, Owner owner,
                                          std::optional<std::chrono::nanoseconds> limit) {
  if (record.data() == nullptr) record = "";
  return Take(record.size(), limit, [&] { return std::pair(record, std::move(owner)); });
}

// Takes what `make` makes, once there is room for it.
template <typename Make>
absl::StatusOr<bool> PushQueue::Take(size_t bytes, std::optional<std::chrono::nanoseconds> limit,
                                     const Make& make) {
  {
    MutexLock lock(mu_);
    const absl::StatusOr<bool> room = WaitForRoomLocked(bytes, limit);
    if (!room.ok() || !*room) return room;
    auto [payload, owner] = make();
    entries_.push_back({end_record_++, end_offset_, 1, payload, std::move(owner)});
    end_offset_ += bytes;
    held_bytes_ += bytes + kEntryBytes;
  }
  NotifyReader();
  return true;
}

void PushQueue::NotifyReader() {
  std::function<void()> on_grow;
  {
    MutexLock lock(mu_);
    if (!on_grow_) return;
    on_grow = on_grow_;
    ++calls_;
  }
  on_grow();
  MutexLock lock(mu_);
  if (--calls_ == 0) called_.NotifyAll();
}

void PushQueue::NotifyProducersLocked() {
  room_.NotifyAll();
  if (calls_on_room_.empty()) return;
  std::ranges::move(calls_on_room_, std::back_inserter(released_));
  calls_on_room_.clear();
  has_released_ = true;
}

void PushQueue::OnRoom(Owner call) {
  MutexLock lock(mu_);
  if (!ended_ && !closed_) calls_on_room_.push_back(std::move(call));
}

void PushQueue::End(absl::Status status) {
  {
    MutexLock lock(mu_);
    if (ended_) return;
    ended_ = true;
    status_ = std::move(status);
    NotifyProducersLocked();
  }
  TakeReleased();
  NotifyReader();
}

bool PushQueue::Attach() {
  MutexLock lock(mu_);
  return !std::exchange(attached_, true);
}

uint64_t PushQueue::available() const {
  MutexLock lock(mu_);
  return end_record_;
}

uint64_t PushQueue::held_bytes() const {
  MutexLock lock(mu_);
  return held_bytes_;
}

bool PushQueue::ended() const {
  MutexLock lock(mu_);
  return ended_;
}

absl::Status PushQueue::status() const {
  MutexLock lock(mu_);
  return status_;
}

readers::RecordRef PushQueue::Locate(uint64_t record) const {
  MutexLock lock(mu_);
  readers::RecordRef ref;
  ref.ordinal = record;
  if (const std::optional<size_t> at = FindLocked(record)) {
    ref.offset = entries_[*at].offset;
    ref.length = entries_[*at].payload.size();
  }
  return ref;
}

size_t PushQueue::View(std::span<const readers::RecordRef> refs,
                       std::span<std::string_view> payloads) const {
  MutexLock lock(mu_);
  for (size_t i = 0; i < refs.size(); ++i) {
    const std::optional<size_t> at = FindLocked(refs[i].ordinal);
    if (!at) return i;
    payloads[i] = entries_[*at].payload;
  }
  return refs.size();
}

void PushQueue::SetOnGrow(std::function<void()> on_grow) {
  MutexLock lock(mu_);
  on_grow_ = std::move(on_grow);
  while (calls_ > 0) called_.Wait(mu_);
}

void PushQueue::Want(uint64_t before) {
  MutexLock lock(mu_);
  if (before <= wanted_) return;
  wanted_ = before;
  NotifyProducersLocked();
}

std::optional<size_t> PushQueue::FindLocked(uint64_t record) const {
  const auto entry = std::ranges::lower_bound(entries_, record, {}, &Entry::record);
  const bool held = entry != entries_.end() && entry->record == record && entry->uses > 0;
  return held ? std::optional(static_cast<size_t>(entry - entries_.begin())) : std::nullopt;
}

void PushQueue::FreeLocked(Entry& entry) {
  held_bytes_ -= entry.payload.size() + kEntryBytes;
  ++num_holes_;
  released_.push_back(std::move(entry.owner));
  has_released_ = true;
}

void PushQueue::CloseHolesLocked() {
  for (; !entries_.empty() && entries_.front().uses == 0; --num_holes_) entries_.pop_front();
  if (num_holes_ <= entries_.size() / 8) return;
  std::erase_if(entries_, [](const Entry& entry) { return entry.uses == 0; });
  num_holes_ = 0;
}

void PushQueue::Release(std::span<const uint64_t> records) {
  if (records.empty()) return;
  MutexLock lock(mu_);
  const size_t holes = num_holes_;
  for (const uint64_t record : records) {
    const std::optional<size_t> at = FindLocked(record);
    if (at && --entries_[*at].uses == 0) FreeLocked(entries_[*at]);
  }
  if (num_holes_ == holes) return;
  CloseHolesLocked();
  NotifyProducersLocked();
}

void PushQueue::SetUses(uint64_t record, uint64_t uses) {
  MutexLock lock(mu_);
  const std::optional<size_t> at = FindLocked(record);
  if (!at) return;
  entries_[*at].uses = uses;
  if (uses > 0) return;
  FreeLocked(entries_[*at]);
  CloseHolesLocked();
  NotifyProducersLocked();
}

ReleasedRecords PushQueue::TakeReleased() {
  if (!has_released_) return {};
  MutexLock lock(mu_);
  has_released_ = false;
  if (released_.empty()) return {};
  return {std::exchange(released_, {}), ending_};
}

void PushQueue::Abandon() {
  {
    MutexLock lock(mu_);
    for (Entry& entry : entries_) {
      if (entry.uses > 0) FreeLocked(entry);
    }
    entries_.clear();
    num_holes_ = 0;
  }
  TakeReleased();
  ending_->Wait();
}

void PushQueue::Close() {
  {
    MutexLock lock(mu_);
    closed_ = true;
    NotifyProducersLocked();
  }
  TakeReleased();
}

namespace {

class PushRecords final : public GrowingSource {
 public:
  explicit PushRecords(std::shared_ptr<PushQueue> queue)
      : queue_(std::move(queue)), names_({queue_->options().name}) {}
  ~PushRecords() override {
    queue_->Close();
    queue_->SetOnGrow({});
    queue_->Abandon();
  }

  uint64_t num_records() const override { return queue_->available(); }
  const std::vector<std::string>& files() const override { return names_; }
  readers::RecordRef Locate(uint64_t record) const override { return queue_->Locate(record); }
  bool in_place() const override { return true; }
  std::shared_ptr<const RandomAccessFile> file(uint32_t) const override { return nullptr; }
  uint64_t FramedBytes(const readers::RecordRef& ref) const override { return ref.length; }
  absl::StatusOr<std::string_view> Unframe(const readers::RecordRef& ref,
                                           std::span<const std::byte>) const override {
    std::string_view payload;
    if (queue_->View({&ref, 1}, {&payload, 1}) == 1) return payload;
    return absl::InternalError(
        absl::StrCat(names_[0], ": record ", ref.ordinal, " was released before it was read"));
  }
  size_t UnframeAll(std::span<const readers::RecordRef> refs, const std::byte*,
                    std::span<const size_t>, std::span<std::string_view> payloads) const override {
    return queue_->View(refs, payloads);
  }
  uint64_t Fingerprint() const override { return HashName(names_[0]); }
  uint64_t memory_bytes() const override { return queue_->options().max_bytes; }

  uint64_t available() const override { return queue_->available(); }
  bool ended() const override { return queue_->ended(); }
  absl::Status status() const override { return queue_->status(); }
  void SetOnGrow(std::function<void()> on_grow) override { queue_->SetOnGrow(std::move(on_grow)); }
  void Want(uint64_t before) override { queue_->Want(before); }
  void Release(std::span<const uint64_t> records) override { queue_->Release(records); }
  void SetUses(uint64_t record, uint64_t uses) override { queue_->SetUses(record, uses); }
  ReleasedRecords TakeReleased() override { return queue_->TakeReleased(); }
  void Close() override { queue_->Close(); }

 private:
  const std::shared_ptr<PushQueue> queue_;
  const std::vector<std::string> names_;
};

}  // namespace

std::shared_ptr<PushSource> PushSource::Make(PushSourceOptions options) {
  return std::shared_ptr<PushSource>(
      new PushSource(std::make_shared<PushQueue>(std::move(options))));
}

PushSource::~PushSource() {
  queue_->End(absl::AbortedError(
      absl::StrCat(name(), ": the push source was dropped before it was finished")));
}

absl::Status PushSource::Push(std::string_view record) {
  return queue_->Push(record, std::nullopt).status();
}

absl::StatusOr<bool> PushSource::TryPush(std::string_view record) {
  return queue_->Push(record, std::chrono::nanoseconds::zero());
}

absl::StatusOr<bool> PushSource::PushFor(std::string_view record, std::chrono::nanoseconds limit) {
  return queue_->Push(record, limit);
}

absl::Status PushSource::Push(std::string_view record, std::shared_ptr<const void> owner) {
  return queue_->PushOwned(record, std::move(owner), std::nullopt).status();
}

absl::StatusOr<bool> PushSource::TryPush(std::string_view record,
                                         std::shared_ptr<const void> owner) {
  return queue_->PushOwned(record, std::move(owner), std::chrono::nanoseconds::zero());
}

absl::StatusOr<bool> PushSource::PushFor(std::string_view record, std::shared_ptr<const void> owner,
                                         std::chrono::nanoseconds limit) {
  return queue_->PushOwned(record, std::move(owner), limit);
}

void PushSource::OnRoom(std::function<void()> call) {
  queue_->OnRoom(Owner(this, [call = std::move(call)](const void*) { call(); }));
}

void PushSource::Finish() { queue_->End(absl::OkStatus()); }

void PushSource::Fail(absl::Status status) { queue_->End(std::move(status)); }

const std::string& PushSource::name() const { return queue_->options().name; }

uint64_t PushSource::num_pushed() const { return queue_->available(); }

uint64_t PushSource::held_bytes() const { return queue_->held_bytes(); }

const std::shared_ptr<PushQueue>& QueueOf(const PushSource& source) { return source.queue_; }

absl::StatusOr<std::unique_ptr<GrowingSource>> OpenPushSource(const PushSource& source) {
  if (!QueueOf(source)->Attach()) {
    return absl::FailedPreconditionError(
        absl::StrCat("push source \"", source.name(), "\" is read by a pipeline already"));
  }
  return std::make_unique<PushRecords>(QueueOf(source));
}

}  // namespace millrace::pipeline
