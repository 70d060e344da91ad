#ifndef MILLRACE_COLLECTIVES_STREAM_ENGINE_INTERNAL_H_
#define MILLRACE_COLLECTIVES_STREAM_ENGINE_INTERNAL_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "collectives/foreign_memory_internal.h"
#include "collectives/nccl_communicator.h"
#include "collectives/reduction_engine_internal.h"

namespace millrace::collectives {

// What the sums of a device do not have: UNIMPLEMENTED names the option.
absl::Status CheckDeviceOptions(const ReducerOptions& options);

// The reductions of gradients in a device's memory: a full bucket's sum is put on the communicator's
// stream, behind what is there, and the device does the rest by itself.
class StreamEngine final : public ReductionEngine {
 public:
  // `buckets` is the memory of all buckets, or null where each gradient is in `memory`. All but `options`
  // outlive the engine. With ProgressPolicy::kInline nothing is begun before Drain.
  StreamEngine(const BucketPlan& plan, HostLinks& links, const ReducerOptions& options,
               Waiting waiting, NcclCommunicator& device, std::byte* buckets,
               const ForeignMemory* memory);

  absl::Status Publish(uint32_t count) override;
  absl::Status Poll(bool counts) override;
  absl::Status Drain() override;
  absl::Status AwaitDone(uint32_t) override { return absl::OkStatus(); }
  Range OwnPart(size_t bucket) const override;
  absl::Status GatherParts(uint32_t) override { return absl::OkStatus(); }
  void Leave(const absl::Status& departure, bool quiet) override;

 private:
  struct Sum {
    size_t bucket = 0;
    std::unique_ptr<Pending> pending;
  };

  void Begin(size_t bucket);
  void BeginSum(size_t bucket, const TensorView& data);
  absl::Status EndFirst();
  // That a peer has left, asked each 50 ms.
  absl::Status HearPeers();
  // `failure`, or who is lost where a peer has said so.
  absl::Status Explained(const absl::Status& failure);

  NcclCommunicator& device_;
  std::byte* const buckets_;
  const ForeignMemory* const memory_;

  // Of the running step.
  uint32_t base_ = 0;  // buckets of all steps before
  size_t begun_ = 0;
  std::chrono::steady_clock::time_point heard_;
  std::deque<Sum> sums_;  // that have not ended, in the order of the stream
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_STREAM_ENGINE_INTERNAL_H_
