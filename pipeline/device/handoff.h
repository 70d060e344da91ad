#ifndef MILLRACE_PIPELINE_DEVICE_HANDOFF_H_
#define MILLRACE_PIPELINE_DEVICE_HANDOFF_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "pipeline/device/slabs.h"
#include "pipeline/device_feed.h"
#include "pipeline/pipeline.h"

// The hand-off: the way of a batch from Pipeline::Next to DeviceFeed::Next.
//
//   pipeline -> [parked] -> issue: slab, copies, ready event -> queue (<= ring) -> consumer
//                             `-> copying: holds the host slab until the event has passed
//
// A batch is parked if it came from the pipeline and the device has no room for it. Copies are
// issued in order on one stream, so they finish in order too.

namespace millrace::pipeline {

// The copies of one batch. Shared by its host slab's keeper and its DeviceBatch.
struct BatchCopy {
  BatchCopy(std::shared_ptr<DeviceSlabs> slabs_in, uint64_t index_in)
      : slabs(std::move(slabs_in)), index(index_in) {}
  ~BatchCopy() {
    if (ready != nullptr) slabs->GiveBackEvent(ready);
  }
  BatchCopy(const BatchCopy&) = delete;
  BatchCopy& operator=(const BatchCopy&) = delete;

  // The same as DeviceBatch::Ready; an error names the batch.
  absl::StatusOr<bool> Done() const;

  const std::shared_ptr<DeviceSlabs> slabs;
  const uint64_t index;   // the number of the batch
  void* ready = nullptr;  // recorded behind the copies; constant from then on
};

// The data that a DeviceBatch is a handle of. It owns its slab and its events of use, and gives
// them back when the last handle drops.
struct DeviceBatchData {
  // Takes over the slab when it succeeds.
  DeviceBatchData(std::shared_ptr<BatchCopy> copy_in, DeviceSlab slab_in, const Batch& from);
  ~DeviceBatchData();
  DeviceBatchData(const DeviceBatchData&) = delete;
  DeviceBatchData& operator=(const DeviceBatchData&) = delete;

  // As DeviceBatch::RecordUse.
  absl::Status RecordUse(void* stream) MILLRACE_EXCLUDES(mu);

  // Constant after construction.
  const std::shared_ptr<BatchCopy> copy;
  const DeviceSlab slab;
  std::vector<std::string> names;
  std::vector<DeviceTensorView> tensors;
  std::vector<SampleId> ids;
  std::vector<uint8_t> valid;
  std::vector<DamagedSample> damaged;
  uint64_t index = 0;
  uint64_t epoch = 0;
  bool ends_epoch = false;  // true if the epoch changes, or the stream ends, behind this batch
  int64_t num_valid_rows = 0;
  int64_t num_global_valid_rows = 0;
  int64_t first_global_row = 0;
  std::string resume_token;
  std::optional<Batch> host;  // nullopt: it is not kept

  Mutex mu;
  // Streams, and of each the event behind its last use.
  std::vector<void*> use_streams MILLRACE_GUARDED_BY(mu);
  std::vector<void*> use_events MILLRACE_GUARDED_BY(mu);
};

// Counts copies. Thread-safe.
class CopyCounts {
 public:
  void AddIssued(int64_t bytes, int64_t ns) {
    Add(batches_, 1);
    Add(bytes_, bytes);
    Add(issue_ns_, ns);
  }
  void AddWait(int64_t ns) { Add(wait_ns_, ns); }
  void Clear() {
    for (Number* const number : {&batches_, &bytes_, &issue_ns_, &wait_ns_}) {
      number->store(0, std::memory_order_relaxed);
    }
  }
  CopyProfile profile() const { return {Of(batches_), Of(bytes_), Of(issue_ns_), Of(wait_ns_)}; }

 private:
  // Of the thread in Next -> any thread, relaxed: counts.
  using Number = std::atomic<int64_t>;
  static void Add(Number& number, int64_t more) {
    number.fetch_add(more, std::memory_order_relaxed);
  }
  static int64_t Of(const Number& number) { return number.load(std::memory_order_relaxed); }

  Number batches_{0};
  Number bytes_{0};
  Number issue_ns_{0};
  Number wait_ns_{0};
};

// Behind DeviceFeed, whose comments hold for the methods here. Cancel and copies are called by any
// thread, all else by one thread at a time.
class Handoff {
 public:
  //   INVALID_ARGUMENT  an option
  //   the errors of Device
  static absl::StatusOr<std::unique_ptr<Handoff>> Make(std::shared_ptr<Device> device,
                                                       std::unique_ptr<Pipeline> pipeline,
                                                       const DeviceFeedOptions& options);
  ~Handoff();

  absl::StatusOr<std::optional<DeviceBatch>> Next();
  std::optional<absl::StatusOr<std::optional<DeviceBatch>>> NextFor(std::chrono::nanoseconds limit);
  void Poll();
  void Cancel();

  std::string Save() const { return token_; }
  absl::Status Restore(const std::string& token);
  absl::Status Seek(uint64_t batch);

  Pipeline& pipeline() const { return *pipeline_; }
  CopyProfile copies() const { return copies_.profile(); }

 private:
  // A batch for the consumer, or the error in its place.
  struct Entry {
    std::shared_ptr<BatchCopy> copy = nullptr;
    std::shared_ptr<DeviceBatchData> data = nullptr;
    absl::Status error = absl::OkStatus();
  };
  // A host slab that the device may be reading.
  struct Copying {
    std::shared_ptr<BatchCopy> copy;
    Batch host;
  };
  using Outcome = absl::StatusOr<std::optional<Batch>>;
  // The time at which a wait ends; nullopt: none.
  using End = std::optional<std::chrono::steady_clock::time_point>;

  Handoff(std::shared_ptr<DeviceSlabs> slabs, std::unique_ptr<Pipeline> pipeline,
          const DeviceFeedOptions& options);

  std::optional<absl::StatusOr<std::optional<DeviceBatch>>> NextBy(End end);
  void DropCopies();
  void Restart();
  void SettleCopies();
  void Fail(const BatchCopy& copy, const absl::Status& error);
  absl::StatusOr<bool> FillQueue(End end);
  absl::StatusOr<bool> TakeNext(End end);
  std::optional<Outcome> PipelineNext(End end);
  void LookAhead(size_t most);
  absl::Status Take(Outcome outcome);
  bool Issue();
  absl::StatusOr<Entry> MakeEntry(const Batch& host, DeviceSlab slab);
  absl::Status IssueTo(const Batch& host, DeviceSlab slab);
  absl::Status IssueCopies(const Entry& entry, const Batch& host);
  absl::StatusOr<bool> WaitForCopy(End end);
  absl::StatusOr<bool> AwaitCopy(End end);
  absl::Status HeldError() const;
  absl::StatusOr<std::optional<DeviceBatch>> Deliver();

  // Constant after construction.
  const std::shared_ptr<DeviceSlabs> slabs_;
  const std::unique_ptr<Pipeline> pipeline_;
  const size_t ring_;
  const bool keeps_host_;

  CopyCounts copies_;  // synchronises itself

  // Owned by the thread that calls Next.
  std::deque<Entry> queue_;
  std::deque<Copying> copying_;
  std::optional<Batch> parked_;
  bool ended_ = false;  // true if nothing more is taken from the pipeline
  uint64_t failed_index_ = std::numeric_limits<uint64_t>::max();  // the lowest whose copy failed
  std::optional<absl::Status> result_;  // the result of Next from now on; OK: the end
  std::string token_;                   // of the batch delivered last, or of the beginning

  // True once Cancel was called. Any thread -> the one in Next, acquire and release.
  std::atomic<bool> cancelled_{false};
  Mutex mu_;
  CondVar cancel_;  // wakes WaitForCopy; with cancelled_
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_DEVICE_HANDOFF_H_
