#ifndef MILLRACE_TESTS_PIPELINE_DEVICE_DEVICE_CONFORMANCE_H_
#define MILLRACE_TESTS_PIPELINE_DEVICE_DEVICE_CONFORMANCE_H_

#include <gmock/gmock.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/device/device.h"

// What every Device does, for each implementation to instantiate.

namespace millrace::pipeline {

struct DeviceUnderTest {
  absl::StatusOr<std::shared_ptr<Device>> device;
  // Copies from the device behind the work of `stream`, and waits for it.
  std::function<absl::Status(void* host, const void* memory, size_t bytes, void* stream)> read_back;
};

class DeviceConformanceTest : public testing::TestWithParam<std::function<DeviceUnderTest()>> {
 protected:
  void SetUp() override {
    DeviceUnderTest under_test = GetParam()();
    const absl::Status status = under_test.device.status();
    if (absl::IsFailedPrecondition(status)) GTEST_SKIP() << status;
    ASSERT_TRUE(status.ok()) << status;
    device_ = *std::move(under_test.device);
    read_back_ = std::move(under_test.read_back);
    stream_ = *device_->CreateStream();
  }
  void TearDown() override {
    if (device_ != nullptr) device_->DestroyStream(stream_);
  }
  std::vector<std::byte> ReadBack(const std::byte* memory, size_t bytes, void* stream) {
    std::vector<std::byte> host(bytes);
    EXPECT_TRUE(read_back_(host.data(), memory, bytes, stream).ok());
    return host;
  }
  static std::vector<std::byte> Pattern(size_t bytes, int seed) {
    std::vector<std::byte> pattern(bytes);
    for (size_t i = 0; i < bytes; ++i) {
      pattern[i] = static_cast<std::byte>(i * 31 + static_cast<size_t>(seed));
    }
    return pattern;
  }

  std::shared_ptr<Device> device_;
  decltype(DeviceUnderTest::read_back) read_back_;
  void* stream_ = nullptr;
};

TEST_P(DeviceConformanceTest, CopiedBytesArrive) {
  for (const size_t bytes : {size_t{1}, size_t{255}, size_t{4096}, size_t{5} << 20}) {
    const std::vector<std::byte> host = Pattern(bytes, 7);
    std::byte* const memory = *device_->Allocate(bytes, stream_);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 256, 0u);
    EXPECT_TRUE(device_->Copy(memory, host.data(), bytes, stream_).ok());
    EXPECT_EQ(ReadBack(memory, bytes, stream_), host);
    device_->Free(memory, stream_);
  }
  EXPECT_TRUE(device_->Synchronize(stream_).ok());
}

TEST_P(DeviceConformanceTest, EventThatWasNeverRecordedHasPassed) {
  void* const event = *device_->CreateEvent();
  EXPECT_TRUE(*device_->Query(event));
  EXPECT_TRUE(device_->Wait(stream_, event).ok());
  EXPECT_TRUE(device_->Synchronize(stream_).ok());
  device_->DestroyEvent(event);
}

TEST_P(DeviceConformanceTest, EventHasPassedWhenItsStreamWasWaitedFor) {
  constexpr size_t kBytes = 3 << 20;
  const std::vector<std::byte> host = Pattern(kBytes, 1);
  std::byte* const memory = *device_->Allocate(kBytes, stream_);
  void* const event = *device_->CreateEvent();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(device_->Copy(memory, host.data(), kBytes, stream_).ok());
    EXPECT_TRUE(device_->Record(event, stream_).ok());
    EXPECT_TRUE(device_->Query(event).ok());
    EXPECT_TRUE(device_->Synchronize(stream_).ok());
    EXPECT_TRUE(*device_->Query(event));
  }
  device_->DestroyEvent(event);
  device_->Free(memory, stream_);
}

TEST_P(DeviceConformanceTest, StreamWaitsForTheEventOfAnother) {
  constexpr size_t kBytes = 2 << 20;
  void* const second = *device_->CreateStream();
  void* const event = *device_->CreateEvent();
  std::byte* const memory = *device_->Allocate(kBytes, stream_);
  for (int i = 0; i < 20; ++i) {
    const std::vector<std::byte> before = Pattern(kBytes, 2 * i),
                                 after = Pattern(kBytes, 2 * i + 1);
    EXPECT_TRUE(device_->Copy(memory, before.data(), kBytes, stream_).ok());
    EXPECT_TRUE(device_->Record(event, stream_).ok());
    EXPECT_TRUE(device_->Wait(second, event).ok());
    EXPECT_TRUE(device_->Copy(memory, after.data(), kBytes, second).ok());
    EXPECT_EQ(ReadBack(memory, kBytes, second), after);
    EXPECT_TRUE(device_->Synchronize(stream_).ok());
  }
  device_->DestroyEvent(event);
  device_->Free(memory, stream_);
  device_->DestroyStream(second);
}

TEST_P(DeviceConformanceTest, FreedMemoryMayBeAllocatedAgain) {
  const std::vector<std::byte> host = Pattern(1 << 20, 3);
  for (int i = 0; i < 200; ++i) {
    std::byte* const memory = *device_->Allocate(host.size(), stream_);
    EXPECT_TRUE(device_->Copy(memory, host.data(), host.size(), stream_).ok());
    device_->Free(memory, stream_);
  }
  EXPECT_TRUE(device_->Synchronize(stream_).ok());
}

TEST_P(DeviceConformanceTest, StreamsAndEventsMayGoWithWorkUnderWay) {
  const std::vector<std::byte> host = Pattern(8 << 20, 4);
  std::byte* const memory = *device_->Allocate(host.size(), stream_);
  void* const event = *device_->CreateEvent();
  void* const second = *device_->CreateStream();
  EXPECT_TRUE(device_->Copy(memory, host.data(), host.size(), stream_).ok());
  EXPECT_TRUE(device_->Record(event, stream_).ok());
  EXPECT_TRUE(device_->Wait(second, event).ok());
  device_->DestroyEvent(event);
  device_->DestroyStream(second);
  EXPECT_EQ(ReadBack(memory, host.size(), stream_), host);
  device_->Free(memory, stream_);
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_DEVICE_DEVICE_CONFORMANCE_H_
