#include "pipeline/device/slabs.h"

#include <algorithm>
#include <bit>

#include "base/status.h"

namespace millrace::pipeline {
namespace {

constexpr size_t kSmallestSlab = 4096;

// `bytes` rounded up to the next of 4, 5, 6 and 7 quarters of a power of two.
size_t SizeClass(size_t bytes) {
  if (bytes <= kSmallestSlab) return kSmallestSlab;
  const size_t step = std::bit_floor(bytes) / 4;
  return (bytes + step - 1) / step * step;
}

}  // namespace

absl::StatusOr<std::shared_ptr<DeviceSlabs>> DeviceSlabs::Make(std::shared_ptr<Device> device,
                                                               int ring, int64_t max_bytes) {
  MILLRACE_ASSIGN_OR_RETURN(void* const stream, device->CreateStream());
  return std::shared_ptr<DeviceSlabs>(new DeviceSlabs(std::move(device), stream, ring, max_bytes));
}

DeviceSlabs::DeviceSlabs(std::shared_ptr<Device> device, void* copy_stream, int ring,
                         int64_t max_bytes)
    : device_(std::move(device)),
      copy_stream_(copy_stream),
      ring_(static_cast<size_t>(ring)),
      max_bytes_(max_bytes) {}

DeviceSlabs::~DeviceSlabs() {
  Close();
  MutexLock lock(mu_);
  for (void* event : events_) device_->DestroyEvent(event);
  device_->DestroyStream(copy_stream_);
}

int64_t DeviceSlabs::allocated_bytes() const {
  MutexLock lock(mu_);
  return allocated_;
}

bool DeviceSlabs::RoomLocked(size_t bytes) const {
  return allocated_ == 0 || allocated_ + static_cast<int64_t>(bytes) <= max_bytes_;
}

bool DeviceSlabs::PassedLocked(Idle& idle) {
  while (!idle.uses.empty()) {
    const absl::StatusOr<bool> passed = device_->Query(idle.uses.back());
    if (!passed.ok() || !*passed) return false;
    events_.push_back(idle.uses.back());
    idle.uses.pop_back();
  }
  return true;
}

absl::Status DeviceSlabs::WaitLocked(Idle& idle) {
  while (!idle.uses.empty()) {
    MILLRACE_RETURN_IF_ERROR(device_->Wait(copy_stream_, idle.uses.back()));
    events_.push_back(idle.uses.back());
    idle.uses.pop_back();
  }
  return absl::OkStatus();
}

DeviceSlab DeviceSlabs::RemoveLocked(size_t i) {
  const DeviceSlab slab = idle_[i].slab;
  idle_.erase(idle_.begin() + static_cast<ptrdiff_t>(i));
  return slab;
}

// When the wait cannot be issued the device is lost, and its memory goes with it.
void DeviceSlabs::FreeLocked(size_t i) {
  const absl::Status waited = WaitLocked(idle_[i]);
  for (void* event : idle_[i].uses) events_.push_back(event);
  const DeviceSlab slab = RemoveLocked(i);
  if (waited.ok()) device_->Free(slab.memory, copy_stream_);
  allocated_ -= static_cast<int64_t>(slab.bytes);
  --num_slabs_;
}

absl::StatusOr<std::optional<DeviceSlab>> DeviceSlabs::AllocateLocked(size_t bytes) {
  idle_.reserve(num_slabs_ + 1);
  absl::StatusOr<std::byte*> memory = device_->Allocate(bytes, copy_stream_);
  if (absl::IsResourceExhausted(memory.status()) && !idle_.empty()) {
    while (!idle_.empty()) FreeLocked(0);
    memory = device_->Allocate(bytes, copy_stream_);
  }
  if (!memory.ok()) return memory.status();
  allocated_ += static_cast<int64_t>(bytes);
  ++num_slabs_;
  return std::optional<DeviceSlab>(DeviceSlab{*memory, bytes});
}

absl::StatusOr<std::optional<DeviceSlab>> DeviceSlabs::Take(size_t bytes) {
  const size_t size = SizeClass(bytes);
  MutexLock lock(mu_);
  const size_t none = idle_.size();
  size_t passed = none, pending = none, num_pending = 0;
  for (size_t i = 0; i < idle_.size(); ++i) {
    const size_t have = idle_[i].slab.bytes;
    const bool fits = have >= bytes && have / 2 <= size;
    if (!PassedLocked(idle_[i])) {
      ++num_pending;
      if (fits && pending == none) pending = i;
    } else if (fits && (passed == none || have < idle_[passed].slab.bytes)) {
      passed = i;
    }
  }
  if (passed != none) return std::optional<DeviceSlab>(RemoveLocked(passed));
  const bool leave_alone = RoomLocked(size) && num_pending < ring_;
  if (pending != none && !leave_alone) {
    MILLRACE_RETURN_IF_ERROR(WaitLocked(idle_[pending]));
    return std::optional<DeviceSlab>(RemoveLocked(pending));
  }
  while (!idle_.empty() && !RoomLocked(size)) FreeLocked(0);
  if (!RoomLocked(size)) return std::optional<DeviceSlab>();
  return AllocateLocked(size);
}

void DeviceSlabs::GiveBack(DeviceSlab slab, std::vector<void*> uses) {
  MutexLock lock(mu_);
  idle_.push_back({slab, std::move(uses)});
  if (closed_) FreeLocked(0);
  while (idle_.size() > ring_ + 1 && PassedLocked(idle_[0])) FreeLocked(0);
}

absl::StatusOr<void*> DeviceSlabs::TakeEvent() {
  MutexLock lock(mu_);
  if (events_.empty()) {
    events_.reserve(num_events_ + 1);
    MILLRACE_ASSIGN_OR_RETURN(void* const made, device_->CreateEvent());
    ++num_events_;
    return made;
  }
  void* const event = events_.back();
  events_.pop_back();
  return event;
}

void DeviceSlabs::GiveBackEvent(void* event) {
  MutexLock lock(mu_);
  events_.push_back(event);
}

void DeviceSlabs::Close() {
  MutexLock lock(mu_);
  closed_ = true;
  while (!idle_.empty()) FreeLocked(0);
}

}  // namespace millrace::pipeline
