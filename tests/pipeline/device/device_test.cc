#include "pipeline/device_feed.h"
#include "tests/pipeline/device/device_conformance.h"
#include "tests/pipeline/device/fake_device.h"
#include "tests/pipeline/device/fake_pipeline.h"

namespace millrace::pipeline {
namespace {

DeviceUnderTest FakeUnderTest(bool automatic) {
  const auto device = std::make_shared<FakeDevice>(automatic);
  return {.device = std::shared_ptr<Device>(device),
          .read_back = [device](void* host, const void* memory, size_t bytes, void* stream) {
            const absl::Status status = device->Synchronize(stream);
            std::memcpy(host, memory, bytes);
            return status;
          }};
}

INSTANTIATE_TEST_SUITE_P(FakeDevice, DeviceConformanceTest,
                         testing::Values([] { return FakeUnderTest(true); },
                                         [] { return FakeUnderTest(false); }));

// In any build and on any machine: a device, or a reason why not.
TEST(DeviceTest, WithoutADeviceTheStatusSaysWhy) {
  const auto device = MakeCudaDevice(0);
  if (!device.ok()) {
    EXPECT_TRUE(absl::IsUnimplemented(device.status()) ||
                absl::IsFailedPrecondition(device.status()))
        << device.status();
    EXPECT_THAT(std::string(device.status().message()), testing::HasSubstr("CUDA"));
  }
  const auto feed = DeviceFeed::Open(std::make_unique<FakePipeline>(std::vector<int64_t>{4}));
  EXPECT_EQ(feed.status(), device.status());
}

TEST(DeviceTest, DeviceBeyondTheLastOneIsNoDevice) {
  const absl::Status status = MakeCudaDevice(1 << 20).status();
  EXPECT_EQ(status.code(), MakeCudaDevice(0).ok() ? absl::StatusCode::kInvalidArgument
                                                  : MakeCudaDevice(0).status().code());
}

}  // namespace
}  // namespace millrace::pipeline
