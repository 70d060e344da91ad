#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/philox.h"
#include "pipeline/push_source.h"
#include "pipeline/source/growing.h"

// A queue of records in memory that the pipeline reads like a file. Offsets count the bytes of all
// records ever pushed, each with the zero byte behind it that std::string keeps anyway: so a record
// has a frame of at least one byte, and records that follow each other can be fetched by one read,
// as the executor does with files. Records stay until the batches that they are in are delivered,
// for a plan with a cut reads them twice; behind a shuffle or a bucket that is in any order. One
// that stays long must not keep what came after it: released records leave holes, and before the
// holes are more than an eighth of the records, all of them are closed.

namespace millrace::pipeline {

namespace {

// Stands in the place of released records, where a held one has its last byte, 0.
constexpr std::byte kReleased{0xFF};

}  // namespace

class PushQueue {
 public:
  explicit PushQueue(PushSourceOptions options) : options_(std::move(options)) {}

  const PushSourceOptions& options() const { return options_; }

  // The host program's side. `limit`: how long to wait; nullopt: as long as it takes.
  absl::StatusOr<bool> Push(std::string_view record, std::optional<std::chrono::nanoseconds> limit)
      MILLRACE_EXCLUDES(mu_);
  void End(absl::Status status) MILLRACE_EXCLUDES(mu_);

  // The pipeline's side.
  bool Attach() MILLRACE_EXCLUDES(mu_);
  uint64_t available() const MILLRACE_EXCLUDES(mu_);
  uint64_t num_bytes() const MILLRACE_EXCLUDES(mu_);
  uint64_t held_bytes() const MILLRACE_EXCLUDES(mu_);
  bool ended() const MILLRACE_EXCLUDES(mu_);
  absl::Status status() const MILLRACE_EXCLUDES(mu_);
  readers::RecordRef Locate(uint64_t record) const MILLRACE_EXCLUDES(mu_);
  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const
      MILLRACE_EXCLUDES(mu_);
  void SetOnGrow(std::function<void()> on_grow) MILLRACE_EXCLUDES(mu_);
  void Want(uint64_t before) MILLRACE_EXCLUDES(mu_);
  void Release(std::span<const uint64_t> records) MILLRACE_EXCLUDES(mu_);
  void SetUses(uint64_t record, uint64_t uses) MILLRACE_EXCLUDES(mu_);
  void Close() MILLRACE_EXCLUDES(mu_);

 private:
  struct Entry {
    uint64_t record;
    uint64_t offset;
    uint64_t uses;  // until it is released; 0: a hole
    std::string payload;
  };
  using Entries = std::deque<Entry>;
  static constexpr uint64_t kEntryBytes = 64;  // what a record costs beside its payload
  static_assert(sizeof(Entry) + sizeof(Entry) / 8 <= kEntryBytes);

  bool HasRoomLocked(size_t bytes) const MILLRACE_REQUIRES(mu_);
  absl::Status CheckOpenLocked() const MILLRACE_REQUIRES(mu_);
  // Where entries_ has a record; nullopt: it is not held.
  std::optional<size_t> FindLocked(uint64_t record) const MILLRACE_REQUIRES(mu_);
  // Takes the payload of an entry without uses.
  std::string FreeLocked(Entry& entry) MILLRACE_REQUIRES(mu_);
  void CloseHolesLocked() MILLRACE_REQUIRES(mu_);
  // Waits for room: false when there was none in time, an error when the queue was closed.
  absl::StatusOr<bool> WaitForRoomLocked(size_t bytes,
                                         std::optional<std::chrono::nanoseconds> limit)
      MILLRACE_REQUIRES(mu_);
  void NotifyReader() MILLRACE_EXCLUDES(mu_);

  // Constant after construction.
  const PushSourceOptions options_;

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
  int calls_ MILLRACE_GUARDED_BY(mu_) = 0;  // the calls of on_grow_ under way
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
  {
    MutexLock lock(mu_);
    const absl::StatusOr<bool> room = WaitForRoomLocked(record.size(), limit);
    if (!room.ok() || !*room) return room;
    entries_.push_back({end_record_++, end_offset_, 1, std::string(record)});
    end_offset_ += record.size() + 1;
    held_bytes_ += record.size() + kEntryBytes;
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

void PushQueue::End(absl::Status status) {
  {
    MutexLock lock(mu_);
    if (ended_) return;
    ended_ = true;
    status_ = std::move(status);
    room_.NotifyAll();
  }
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

uint64_t PushQueue::num_bytes() const {
  MutexLock lock(mu_);
  return end_offset_;
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

// Begins in a record that is held. What lies between records that are held is filled up.
absl::StatusOr<size_t> PushQueue::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  MutexLock lock(mu_);
  if (offset >= end_offset_ || out.empty()) return 0;
  auto entry = std::ranges::upper_bound(entries_, offset, {}, &Entry::offset);
  const bool held = entry != entries_.begin() && (--entry)->uses > 0 &&
                    offset - entry->offset <= entry->payload.size();
  if (!held) {
    return absl::FailedPreconditionError(
        absl::StrCat(options_.name, ": the record at offset ", offset, " was released already"));
  }
  const size_t size = std::min<uint64_t>(out.size(), end_offset_ - offset);
  size_t done = 0;
  for (; entry != entries_.end() && entry->offset < offset + size; ++entry) {
    if (entry->uses == 0) continue;
    const uint64_t skip = offset > entry->offset ? offset - entry->offset : 0;
    const size_t place = static_cast<size_t>(entry->offset + skip - offset);
    const size_t length = std::min<size_t>(entry->payload.size() + 1 - skip, size - place);
    std::ranges::fill(out.subspan(done, place - done), kReleased);
    std::memcpy(out.data() + place, entry->payload.c_str() + skip, length);
    done = place + length;
  }
  std::ranges::fill(out.subspan(done, size - done), kReleased);
  return size;
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
  room_.NotifyAll();
}

std::optional<size_t> PushQueue::FindLocked(uint64_t record) const {
  const auto entry = std::ranges::lower_bound(entries_, record, {}, &Entry::record);
  const bool held = entry != entries_.end() && entry->record == record && entry->uses > 0;
  return held ? std::optional(static_cast<size_t>(entry - entries_.begin())) : std::nullopt;
}

std::string PushQueue::FreeLocked(Entry& entry) {
  held_bytes_ -= entry.payload.size() + kEntryBytes;
  ++num_holes_;
  return std::move(entry.payload);
}

void PushQueue::CloseHolesLocked() {
  for (; !entries_.empty() && entries_.front().uses == 0; --num_holes_) entries_.pop_front();
  if (num_holes_ <= entries_.size() / 8) return;
  std::erase_if(entries_, [](const Entry& entry) { return entry.uses == 0; });
  num_holes_ = 0;
}

void PushQueue::Release(std::span<const uint64_t> records) {
  if (records.empty()) return;
  std::vector<std::string> freed;  // outside the lock
  MutexLock lock(mu_);
  for (const uint64_t record : records) {
    const std::optional<size_t> at = FindLocked(record);
    if (at && --entries_[*at].uses == 0) freed.push_back(FreeLocked(entries_[*at]));
  }
  if (freed.empty()) return;
  CloseHolesLocked();
  room_.NotifyAll();
}

void PushQueue::SetUses(uint64_t record, uint64_t uses) {
  std::string freed;  // outside the lock
  MutexLock lock(mu_);
  const std::optional<size_t> at = FindLocked(record);
  if (!at) return;
  entries_[*at].uses = uses;
  if (uses > 0) return;
  freed = FreeLocked(entries_[*at]);
  CloseHolesLocked();
  room_.NotifyAll();
}

void PushQueue::Close() {
  MutexLock lock(mu_);
  closed_ = true;
  room_.NotifyAll();
}

namespace {

// The queue as the one file of its source.
class PushFile final : public RandomAccessFile {
 public:
  explicit PushFile(std::shared_ptr<const PushQueue> queue) : queue_(std::move(queue)) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    return queue_->ReadAt(offset, out);
  }
  uint64_t size() const override { return queue_->num_bytes(); }
  const std::string& path() const override { return queue_->options().name; }

 private:
  const std::shared_ptr<const PushQueue> queue_;
};

class PushRecords final : public GrowingSource {
 public:
  explicit PushRecords(std::shared_ptr<PushQueue> queue)
      : queue_(std::move(queue)),
        names_({queue_->options().name}),
        file_(std::make_shared<PushFile>(queue_)) {}
  ~PushRecords() override {
    queue_->Close();
    queue_->SetOnGrow({});
  }

  uint64_t num_records() const override { return queue_->available(); }
  const std::vector<std::string>& files() const override { return names_; }
  readers::RecordRef Locate(uint64_t record) const override { return queue_->Locate(record); }
  std::shared_ptr<const RandomAccessFile> file(uint32_t) const override { return file_; }
  uint64_t FramedBytes(const readers::RecordRef& ref) const override { return ref.length + 1; }
  absl::StatusOr<std::string_view> Unframe(const readers::RecordRef& ref,
                                           std::span<const std::byte> framed) const override {
    if (framed.size() != ref.length + 1) {
      return absl::InternalError(absl::StrCat(names_[0], ": the frame of record ", ref.ordinal,
                                              " has ", framed.size(), " B, not ", ref.length + 1));
    }
    if (framed.back() == kReleased) {
      return absl::InternalError(
          absl::StrCat(names_[0], ": record ", ref.ordinal, " was released before it was read"));
    }
    return std::string_view(reinterpret_cast<const char*>(framed.data()), ref.length);
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
  void Close() override { queue_->Close(); }

 private:
  const std::shared_ptr<PushQueue> queue_;
  const std::vector<std::string> names_;
  const std::shared_ptr<const RandomAccessFile> file_;
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
