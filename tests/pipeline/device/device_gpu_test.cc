#include <algorithm>
#include <cstdint>
#include <cstring>

#include "pipeline/batch/host_allocator.h"
#include "pipeline/device/device.h"
#include "pipeline/device_feed.h"
#include "tests/pipeline/device/device_conformance.h"
#include "tests/pipeline/device/gpu.h"
#include "tests/pipeline/executor/executor_fixture.h"

// Needs a GPU; without one, or without its driver, the cases are skipped and counted.

namespace millrace::pipeline {
namespace {

INSTANTIATE_TEST_SUITE_P(CudaDevice, DeviceConformanceTest, testing::Values([] {
                           return DeviceUnderTest{.device = MakeCudaDevice(0),
                                                  .read_back = ReadBackFromGpu};
                         }));

class DeviceFeedGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto device = MakeCudaDevice(0);
    if (absl::IsFailedPrecondition(device.status())) GTEST_SKIP() << device.status();
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *device;
  }
  static std::unique_ptr<Pipeline> OpenShuffled(const FakeData& data, const OpenOptions& options) {
    return OpenFake(
        MakePlan(64, {Step(OrderStep::Kind::kGlobalShuffle), Step(OrderStep::Kind::kRepeat, 3)}),
        data, FakeContext(4), options);
  }
  static std::unique_ptr<DeviceFeed> OpenFeed(const FakeData& data, int ring) {
    OpenOptions options;
    options.pinned_for = 0;
    auto feed = DeviceFeed::Open(OpenShuffled(data, options), {.ring = ring});
    EXPECT_TRUE(feed.ok()) << feed.status();
    return *std::move(feed);
  }
  // Compares every tensor with that of the host's batch, on `stream`.
  void ExpectSame(const DeviceBatch& got, const Batch& expected, void* stream) {
    ASSERT_TRUE(got.WaitOn(stream).ok());
    ASSERT_TRUE(std::ranges::equal(got.names(), expected.names()));
    EXPECT_TRUE(std::ranges::equal(got.ids(), expected.ids()));
    for (size_t i = 0; i < got.names().size(); ++i) {
      const ConstTensorView tensor = expected.tensor(i);
      EXPECT_EQ(got.tensor(i).shape, tensor.shape);
      std::vector<std::byte> bytes(tensor.size_bytes());
      ASSERT_TRUE(ReadBackFromGpu(bytes.data(), got.tensor(i).data, bytes.size(), stream).ok());
      EXPECT_EQ(std::memcmp(bytes.data(), tensor.data, bytes.size()), 0) << got.names()[i];
    }
    ASSERT_TRUE(got.RecordUse(stream).ok());
  }
  std::shared_ptr<Device> device_;
};

// S-HANDOFF-1.
TEST_F(DeviceFeedGpuTest, BytesOnTheDeviceAreThoseOfTheHost) {
  const FakeData data = MakeFakeData(3000);
  const auto reference = OpenShuffled(data, {});
  const auto feed = OpenFeed(data, 3);
  void* const stream = *device_->CreateStream();
  int64_t batches = 0;
  while (true) {
    const auto expected = reference->Next();
    const auto got = feed->Next();
    ASSERT_TRUE(expected.ok() && got.ok()) << got.status();
    ASSERT_EQ(got->has_value(), expected->has_value());
    if (!got->has_value()) break;
    // Now and then on the legacy default stream.
    ExpectSame(**got, **expected, batches++ % 5 == 0 ? nullptr : stream);
  }
  EXPECT_EQ(batches, 141);  // ceil(9000 / 64)
  device_->DestroyStream(stream);
}

// S-HANDOFF-7.
TEST_F(DeviceFeedGpuTest, BatchesOutliveTheFeed) {
  const FakeData data = MakeFakeData(640);
  const auto reference = OpenShuffled(data, {});
  auto feed = OpenFeed(data, 2);
  std::vector<DeviceBatch> held;
  for (int i = 0; i < 6; ++i) held.push_back(**feed->Next());
  feed.reset();
  for (const DeviceBatch& batch : held) ExpectSame(batch, **reference->Next(), nullptr);
}

// From pageable memory, too.
TEST_F(DeviceFeedGpuTest, BytesOfPageableBatchesArrive) {
  const FakeData data = MakeFakeData(1000);
  const auto reference = OpenShuffled(data, {});
  const auto feed = *DeviceFeed::Open(OpenShuffled(data, {}));
  for (int i = 0; i < 20; ++i) ExpectSame(**feed->Next(), **reference->Next(), nullptr);
}

TEST_F(DeviceFeedGpuTest, ThreadsContextStaysAsItWas) {
  const FakeData data = MakeFakeData(640);
  EXPECT_EQ(*CurrentGpuContext(), nullptr);
  const auto feed = OpenFeed(data, 2);
  const auto batch = *feed->Next();
  ASSERT_TRUE(batch->WaitOn(nullptr).ok());
  ASSERT_TRUE(batch->RecordUse(nullptr).ok());
  EXPECT_EQ(*CurrentGpuContext(), nullptr);
}

TEST_F(DeviceFeedGpuTest, HostMemoryIsPageLocked) {
  const auto allocator = MakePinnedAllocator(0);
  ASSERT_TRUE(allocator.ok()) << allocator.status();
  for (const size_t bytes : {size_t{1}, size_t{4096}, (size_t{5} << 20) + 3}) {
    const auto memory = (*allocator)->Allocate(bytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*memory) % 64, 0u);
    EXPECT_TRUE(*IsPageLocked(*memory));
    std::memset(*memory, 1, bytes);
    (*allocator)->Free(*memory, bytes);
  }
}

// S-HANDOFF-7.
TEST_F(DeviceFeedGpuTest, FeedsMayBeDroppedAtAnyTime) {
  const FakeData data = MakeFakeData(640);
  for (int i = 0; i < 50; ++i) {
    const auto feed = OpenFeed(data, 1 + i % 3);
    for (int k = 0; k < i % 4; ++k) ASSERT_TRUE(feed->Next().ok());
  }
}

}  // namespace
}  // namespace millrace::pipeline
