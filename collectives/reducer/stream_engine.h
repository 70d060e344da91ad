#ifndef MILLRACE_COLLECTIVES_REDUCER_STREAM_ENGINE_H_
#define MILLRACE_COLLECTIVES_REDUCER_STREAM_ENGINE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/cuda/queue.h"
#include "collectives/device_communicator.h"
#include "collectives/reducer/device_memory.h"
#include "collectives/reducer/device_sums.h"
#include "collectives/reducer/private_options.h"
#include "collectives/reducer/reduction_engine.h"
#include "collectives/reducer/user_buffers.h"

namespace millrace::collectives {

// UNIMPLEMENTED if `options` ask for a thread of the host to do what the device does.
absl::Status CheckDeviceOptions(const ReducerOptions& options);

struct ReleaseMark {
  void operator()(void* mark) const { queue->Release(mark); }
  DeviceQueue* queue = nullptr;
};

// The reductions of gradients in a device's memory: a full bucket's sum is put on the
// communicator's stream, behind what is there, and the device does the rest by itself.
//
// While Drain waits for a bucket, this rank shows Phase::kBackward until its own device has come to
// the bucket's sum, and only then Phase::kWaiting: a watchdog excuses ranks that wait in the same
// bucket, and would find nobody where one rank's device stands still. Late sums (StaleReducer) are
// waited for in the same way. The other waits show what the caller has shown. One behind a
// micro-batch needs no peer, and callers do not say that they wait. In one for gathered parts they
// do, so they await their device before. A device that waits for peers on the stream of the
// gradients, in work that is not the reducer's, counts as one that stands still.
class StreamEngine final : public ReductionEngine {
 public:
  // `memory` is the caller's gradients, or null. All but `options` outlive the engine. With
  // ProgressPolicy::kInline nothing is begun before Drain, or that of another one of the team.
  StreamEngine(const BucketPlan& plan, const PrivateReducerOptions& options, Waiting waiting,
               DeviceMemory& memory_of_device, const UserBuffers* memory);

  absl::Status Connect() override;
  absl::Status AddMicroBatch(size_t i, const TensorView& gradient, bool first, bool last) override;
  absl::Status EndMicroBatch() override { return AwaitStream(); }
  void SetRows(int64_t rows) override { rows_ = rows; }
  absl::Status Publish(uint32_t count) override;
  absl::Status Poll(bool counts) override;
  absl::Status Drain() override;
  absl::Status AwaitDone(uint32_t) override { return absl::OkStatus(); }
  Totals totals() const override { return totals_; }
  Range OwnPart(size_t bucket) const override;
  absl::Status GatherParts(uint32_t count) override;
  void Leave(const absl::Status& departure, bool quiet) override;

 private:
  using Mark = std::unique_ptr<void, ReleaseMark>;

  struct Call {
    size_t bucket = 0;
    std::unique_ptr<Pending> pending;
    // Passes when the device has come to this call: once those before it have ended, as soon as the
    // gradients are there. Null: it has, or nobody asks.
    Mark reached;
  };

  // `counts`: true if the time counts as the caller's before Finish.
  absl::Status BeginFull(bool counts);
  absl::Status Begin(size_t bucket);
  absl::StatusOr<Mark> Record();
  // True if a watchdog may ask what this rank waits for.
  bool is_watched() const { return options_.progress != nullptr && device_.size() > 1; }
  // `reached`: passes when the device has come to the first of the calls; may be null.
  void Await(size_t bucket, DeviceSums::Calls& calls, Mark reached = nullptr);
  // Shows what keeps the first call from ending: this rank's device, or the others.
  void ShowFirst();
  absl::Status EndFirst();
  // Waits for the calls that were begun, but the last `most`. `sums`: true if it says for which
  // bucket.
  absl::Status AwaitCalls(bool sums, size_t most = 0);
  // Waits for all that was begun.
  absl::Status EndCalls();
  // Waits for the work on the stream behind the calls of NCCL, which needs no peer.
  absl::Status AwaitStream();
  absl::Status CheckPeers();
  // True if no step waits for its own sums.
  bool goes_on() const;
  // Waits for the step's sums, and reads its totals.
  absl::Status EndSums();
  // Puts the gradients' stream behind the sums. Waits for those of the step before.
  absl::Status GoOn();
  // Asks every 50 ms whether a peer has left.
  absl::Status HearPeers();
  // `failure`, or the lost rank if a peer has named it.
  absl::Status Explained(const absl::Status& failure);

  DeviceMemory& memory_;
  DeviceCommunicator& device_;
  DeviceSums sums_;

  // The running step.
  uint32_t base_ = 0;  // buckets of all steps before
  int64_t rows_ = 0;   // the rows of this rank
  size_t full_ = 0;
  size_t begun_ = 0;
  size_t num_calls_ = 0;  // that it has begun
  std::chrono::steady_clock::time_point heard_;
  std::deque<Call> calls_;  // calls that have not ended, in the order of the stream

  Totals totals_;  // the totals of the step that has ended
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_STREAM_ENGINE_H_
