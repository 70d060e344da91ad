#ifndef MILLRACE_TESTS_COLLECTIVES_CUDA_HOST_QUEUE_H_
#define MILLRACE_TESTS_COLLECTIVES_CUDA_HOST_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/core/reduce.h"
#include "collectives/cuda/queue.h"
#include "tests/collectives/cuda/host_stream.h"

namespace millrace::collectives {

inline void RunSum(const BlockSum& sum) {
  const auto block = [&sum](int b) {
    return static_cast<const std::byte*>(sum.blocks) + b * sum.count * SizeOf(sum.in_type);
  };
  std::vector<float> total(sum.count);  // of its own: `out` may be any of the addends
  if (sum.first != nullptr) {
    std::copy_n(sum.first, sum.count, total.data());
  } else {
    BeginReduction(sum.in_type, total.data(), block(0), sum.count);
  }
  for (int b = sum.first != nullptr ? 0 : 1; b < sum.num_blocks; ++b) {
    Accumulate(sum.in_type, ReduceOp::kSum, total.data(), block(b), sum.count);
  }
  if (sum.rows != nullptr) {
    const auto divisor = static_cast<float>(std::max<int64_t>(1, *sum.rows));
    for (float& value : total) value /= divisor;
  }
  EndReduction(sum.out_type, ReduceOp::kSum, 1, total.data(), sum.out, sum.count);
}

inline void RunAddSquares(const void* data, DType type, size_t count, double* sum) {
  std::vector<float> values(count);
  BeginReduction(type, values.data(), data, count);
  double squares = 0;
  for (const double value : values) squares += value * value;
  *sum += squares;
}

// The host as a device.
class HostQueue : public DeviceQueue {
 public:
  void* stream() const override { return stream_.get(); }
  absl::Status OnDevice(const std::function<absl::Status()>& body) override { return body(); }
  absl::StatusOr<void*> Record() override { return new uint64_t(stream_->issued()); }
  absl::StatusOr<bool> Query(void* event) override {
    return stream_->HasDone(*static_cast<uint64_t*>(event));
  }
  void Release(void* event) override { delete static_cast<uint64_t*>(event); }
  absl::Status Copy(void* to, const void* from, size_t bytes) override {
    const absl::Status status = CopyWithin(to, from, bytes);
    stream_->Wait();
    return status;
  }

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    constexpr size_t kAlignment = 256;  // as a device's
    const size_t room = (std::max<size_t>(1, bytes) + kAlignment - 1) / kAlignment * kAlignment;
    void* const memory = std::aligned_alloc(kAlignment, room);
    if (memory == nullptr) return absl::ResourceExhaustedError("aligned_alloc");
    std::fill_n(static_cast<std::byte*>(memory), room, std::byte{0});
    return memory;
  }
  void Free(void* memory) override {
    (void)Enqueue([memory] { std::free(memory); });
  }

  absl::Status Follow(void* stream) override {
    auto* const followed = static_cast<HostStream*>(stream);
    return Enqueue([followed, issued = followed->issued()] { followed->WaitFor(issued); });
  }
  absl::Status Precede(void* stream) override {
    static_cast<HostStream*>(stream)->Enqueue(
        [mine = stream_.get(), issued = stream_->issued()] { mine->WaitFor(issued); });
    return absl::OkStatus();
  }
  absl::Status CopyWithin(void* to, const void* from, size_t bytes) override {
    return Enqueue([=] {
      std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
    });
  }
  absl::Status Zero(void* memory, size_t bytes) override {
    return Enqueue([=] { std::fill_n(static_cast<std::byte*>(memory), bytes, std::byte{0}); });
  }
  absl::Status Set(int64_t* to, int64_t value) override {
    return Enqueue([=] { *to = value; });
  }
  absl::Status Sum(const BlockSum& sum) override {
    return Enqueue([sum] { RunSum(sum); });
  }
  absl::Status AddSquares(const void* data, DType type, size_t count, double* sum) override {
    return Enqueue([=] { RunAddSquares(data, type, count, sum); });
  }

  absl::StatusOr<std::unique_ptr<DeviceQueue>> Another() override {
    return std::make_unique<HostQueue>();
  }

 private:
  absl::Status Enqueue(std::function<void()> task) {
    stream_->Enqueue(std::move(task));
    return absl::OkStatus();
  }

  const std::unique_ptr<HostStream> stream_ = std::make_unique<HostStream>();
};

inline absl::StatusOr<std::unique_ptr<DeviceQueue>> MakeHostQueue() {
  return std::make_unique<HostQueue>();
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_CUDA_HOST_QUEUE_H_
