#ifndef MILLRACE_PIPELINE_DEVICE_SLABS_H_
#define MILLRACE_PIPELINE_DEVICE_SLABS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "pipeline/device/device.h"

// Device memory for batches, reused in the order of streams rather than in that of the host.
//
// A slab that its consumer dropped may still be read by work that the device has not come to. The
// host could wait for that work, and the device would then have nothing to copy; instead the slab
// keeps the consumer's events, and when it is needed before they have passed, the copy stream waits
// for them. So no host thread waits for a slab. Slabs whose events have passed are preferred, and
// up to `ring` others are left alone while there is room for a new one, because a wait on the copy
// stream holds up every later copy.
//
// Sizes come in four classes per power of two (at most a quarter is waste), and a slab serves
// batches down to half its size, so that batches padded to their longest row share a few slabs.

namespace millrace::pipeline {

struct DeviceSlab {
  std::byte* memory = nullptr;
  size_t bytes = 0;
};

// Thread-safe. Shared by a feed and its batches: the last of them frees all memory. Destroying it
// does not wait.
class DeviceSlabs {
 public:
  // Creates the copy stream.
  //   the errors of Device
  static absl::StatusOr<std::shared_ptr<DeviceSlabs>> Make(std::shared_ptr<Device> device, int ring,
                                                           int64_t max_bytes);
  ~DeviceSlabs();
  DeviceSlabs(const DeviceSlabs&) = delete;
  DeviceSlabs& operator=(const DeviceSlabs&) = delete;

  Device& device() const { return *device_; }
  void* copy_stream() const { return copy_stream_; }
  int64_t max_bytes() const { return max_bytes_; }

  // Returns a slab of at least `bytes` that work issued on the copy stream from now on may write.
  //   nullopt  no room: it is taken by slabs that were not given back
  //   the errors of Device
  absl::StatusOr<std::optional<DeviceSlab>> Take(size_t bytes);
  // `uses` are events of TakeEvent; the slab is not written before they have passed. Needs no
  // memory of the host.
  void GiveBack(DeviceSlab slab, std::vector<void*> uses);

  // Events, pooled. Giving one back needs no memory.
  absl::StatusOr<void*> TakeEvent();
  void GiveBackEvent(void* event);

  // Frees idle slabs, and from now on those that come back.
  void Close();
  // The bytes of all slabs.
  int64_t allocated_bytes() const;

 private:
  struct Idle {
    DeviceSlab slab;
    std::vector<void*> uses;
  };
  DeviceSlabs(std::shared_ptr<Device> device, void* copy_stream, int ring, int64_t max_bytes);

  bool RoomLocked(size_t bytes) const MILLRACE_REQUIRES(mu_);
  // Takes the events that have passed from `idle`; true if none is left. A query that fails does
  // not say that an event has passed.
  bool PassedLocked(Idle& idle) MILLRACE_REQUIRES(mu_);
  // Makes the copy stream wait for the slab's uses. Where that fails, the slab keeps those that are
  // not waited for.
  absl::Status WaitLocked(Idle& idle) MILLRACE_REQUIRES(mu_);
  DeviceSlab RemoveLocked(size_t i) MILLRACE_REQUIRES(mu_);
  void FreeLocked(size_t i) MILLRACE_REQUIRES(mu_);
  absl::StatusOr<std::optional<DeviceSlab>> AllocateLocked(size_t bytes) MILLRACE_REQUIRES(mu_);

  // Constant after construction.
  const std::shared_ptr<Device> device_;
  void* const copy_stream_;
  const size_t ring_;
  const int64_t max_bytes_;

  mutable Mutex mu_;
  bool closed_ MILLRACE_GUARDED_BY(mu_) = false;  // true once Close was called
  int64_t allocated_ MILLRACE_GUARDED_BY(mu_) = 0;
  // Both have room for all that there are, so that giving back needs no memory.
  std::vector<Idle> idle_ MILLRACE_GUARDED_BY(mu_);  // the longest idle first
  std::vector<void*> events_ MILLRACE_GUARDED_BY(mu_);
  size_t num_slabs_ MILLRACE_GUARDED_BY(mu_) = 0;
  size_t num_events_ MILLRACE_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_DEVICE_SLABS_H_
