#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDING_NCCL_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDING_NCCL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "collectives/cuda/queue.h"
#include "collectives/device_communicator.h"
#include "tests/trainer/backend/cuda/order/recording.h"

namespace millrace::trainer::cuda::order {

// The tensor that a range is once ranks have summed it; updates read it for that.
inline constexpr char kSum[] = "sum over ranks";

// The queue of a communicator: a stream "nccl" of a recording. An event passes when it was asked
// for a number of times: the host then knows that it has passed.
class RecordingQueue final : public collectives::DeviceQueue {
 public:
  // `questions`: to which an event answers with "not yet".
  RecordingQueue(Recording& recording, int questions);

  void* stream() const override { return stream_; }
  absl::Status OnDevice(const std::function<absl::Status()>& body) override { return body(); }
  absl::StatusOr<void*> Record() override;
  absl::StatusOr<bool> Query(void* event) override;
  void Release(void* event) override;
  absl::Status Copy(void* to, const void* from, size_t bytes) override;
  absl::StatusOr<void*> Allocate(size_t bytes) override;
  void Free(void* memory) override;
  absl::Status Follow(void* stream) override;
  absl::Status Precede(void* stream) override;
  absl::Status CopyWithin(void* to, const void* from, size_t bytes) override;
  absl::Status Zero(void* memory, size_t bytes) override;
  absl::Status Set(int64_t* to, int64_t value) override;
  absl::Status Sum(const collectives::BlockSum& sum) override;
  absl::Status AddSquares(const void* data, DType type, size_t count, double* sum) override;
  absl::StatusOr<std::unique_ptr<DeviceQueue>> Another() override;

  // An item on the queue's stream.
  void Work(std::string_view name, const Uses& uses);

 private:
  Recording& recording_;
  const int questions_;
  Recording::Stream* const stream_;
};

// Ranks of which each has a recording; what they put on their streams must be alike, which is not
// checked here. Stands where MakeNccl's communicator does, so that the reducer itself is recorded.
class RecordingCommunicator final : public collectives::DeviceCommunicator {
 public:
  // `bootstrap` and `recording` outlive it. `gradient_stream`: as NcclOptions'.
  // `questions`: as the queue's; more than a step's MarkReady, and the host learns of a sum only
  // where it waits.
  RecordingCommunicator(collectives::Communicator& bootstrap, Recording& recording,
                        void* gradient_stream, int questions)
      : bootstrap_(bootstrap),
        recording_(recording),
        queue_(recording, questions),
        gradient_stream_(gradient_stream) {}

  int rank() const override { return bootstrap_.rank(); }
  int size() const override { return bootstrap_.size(); }
  int local_rank() const override { return rank(); }
  int local_size() const override { return size(); }
  std::string_view backend() const override { return "nccl"; }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  void Abort(const absl::Status& reason) override { bootstrap_.Abort(reason); }
  void Leave(const absl::Status& reason) override { bootstrap_.Leave(reason); }

  collectives::Communicator& bootstrap() override { return bootstrap_; }
  absl::StatusOr<void*> Allocate(size_t bytes) override;
  absl::Status Register(void* memory, size_t bytes) override;
  absl::Status Copy(void* to, const void* from, size_t bytes) override;
  void* gradient_stream() const override { return gradient_stream_; }
  collectives::DeviceQueue& queue() override { return queue_; }

 private:
  absl::Status RunChecked(const collectives::Request& request,
                          const absl::Status& arguments) override;
  std::unique_ptr<collectives::Pending> StartChecked(const collectives::Request& request,
                                                     const absl::Status& arguments) override;

  collectives::Communicator& bootstrap_;
  Recording& recording_;
  RecordingQueue queue_;
  void* const gradient_stream_;
};

}  // namespace millrace::trainer::cuda::order

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDING_NCCL_H_
