// The kernels and the copies of a CUDA device's queue. Without a GPU, or in a build without CUDA,
// all cases are skipped and counted.

#include "tests/collectives/cuda/device_queue_cases.h"

namespace millrace::collectives {
namespace {

absl::StatusOr<std::unique_ptr<DeviceQueue>> MakeGpuQueue() { return MakeCudaQueue(0, nullptr); }

const auto kGpu = testing::Values(QueueUnderTest{"queue", MakeGpuQueue});

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceQueueCases, kGpu, QueueName);

class DeviceQueueGpuTest : public DeviceQueueCases {};
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceQueueGpuTest, kGpu, QueueName);

TEST_P(DeviceQueueGpuTest, MemoryThatIsNotThereIsRefusedAndNothingElse) {
  const auto memory = queue_->Allocate(size_t{1} << 50);
  EXPECT_TRUE(absl::IsResourceExhausted(memory.status())) << memory.status();
  EXPECT_EQ(SquaresOf(ToElements(DType::kF32, {3, 4}), DType::kF32), 25);
}

}  // namespace
}  // namespace millrace::collectives
