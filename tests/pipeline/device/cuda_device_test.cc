#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/device/device.h"
#include "tests/messages.h"
#include "tests/pipeline/cuda/fake_cuda.h"

// The CUDA device over the fake driver: each call of the driver fails once. What a device does
// besides is in device_conformance.h.

namespace millrace::pipeline {
namespace {

using cuda::Result;

class CudaDeviceTest : public FakeCudaTest {
 protected:
  static std::shared_ptr<Device> Make(int ordinal) {
    auto device = MakeCudaDevice(ordinal);
    EXPECT_TRUE(device.ok()) << device.status();
    return *std::move(device);
  }
};

TEST_F(CudaDeviceTest, NameHasTheOrdinalAndTheDriversName) {
  EXPECT_EQ(Make(0)->name(), "CUDA device 0 (Fake GPU 0)");
  EXPECT_EQ(Make(1)->name(), "CUDA device 1 (Fake GPU 1)");
}

TEST_F(CudaDeviceTest, ContextsOfOtherDevicesAreLeftAlone) {
  const auto device = Make(1);
  EXPECT_EQ(fake_.live("context_1"), 1);
  EXPECT_EQ(fake_.live("context_0"), 0);
}

TEST_F(CudaDeviceTest, OrdinalBeyondTheLastDeviceIsRefused) {
  EXPECT_MESSAGE(MakeCudaDevice(2).status(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CudaDeviceTest, FailedCallsOfMakingOneAreReported) {
  for (const char* function : {"cuDeviceGetCount", "cuDeviceGet", "cuDevicePrimaryCtxRetain",
                               "cuDeviceGetAttribute", "cuDeviceGetName"}) {
    Fail(function, Result::kOutOfMemory);
    EXPECT_TRUE(absl::IsResourceExhausted(MakeCudaDevice(0).status())) << function;
    Fail(function, Result::kLaunchFailed);
    EXPECT_TRUE(absl::IsInternal(MakeCudaDevice(0).status())) << function;
  }
}

TEST_F(CudaDeviceTest, DeviceWithoutMemoryPoolsAllocatesWithoutThem) {
  for (const int ordinal : {0, 1}) {
    const auto device = Make(ordinal);
    device->Free(*device->Allocate(100, nullptr), nullptr);
  }
  EXPECT_EQ(fake_.calls("cuMemAllocAsync"), 1);
  EXPECT_EQ(fake_.calls("cuMemFreeAsync"), 1);
  EXPECT_EQ(fake_.calls("cuMemAlloc"), 1);
  EXPECT_EQ(fake_.calls("cuMemFree"), 1);
}

// A device with a stream, an event and memory; each call of it, by the driver's function.
class CudaCallsTest : public CudaDeviceTest {
 protected:
  void SetUp() override {
    CudaDeviceTest::SetUp();
    device_ = Make(0);
    stream_ = *device_->CreateStream();
    event_ = *device_->CreateEvent();
    memory_ = *device_->Allocate(sizeof(host_), stream_);
  }
  void TearDown() override {
    device_->Free(memory_, stream_);
    device_->DestroyEvent(event_);
    device_->DestroyStream(stream_);
    device_.reset();
    CudaDeviceTest::TearDown();
  }

  using Call = std::pair<std::string, std::function<absl::Status()>>;
  std::vector<Call> Calls() {
    return {
        {"cuMemAllocAsync", [this] { return device_->Allocate(1, stream_).status(); }},
        {"cuStreamCreate", [this] { return device_->CreateStream().status(); }},
        {"cuEventCreate", [this] { return device_->CreateEvent().status(); }},
        {"cuMemcpyHtoDAsync",
         [this] { return device_->Copy(memory_, host_, sizeof(host_), stream_); }},
        {"cuEventRecord", [this] { return device_->Record(event_, stream_); }},
        {"cuEventQuery", [this] { return device_->Query(event_).status(); }},
        {"cuStreamWaitEvent", [this] { return device_->Wait(stream_, event_); }},
        {"cuStreamSynchronize", [this] { return device_->Synchronize(stream_); }},
    };
  }

  std::shared_ptr<Device> device_;
  void* stream_ = nullptr;
  void* event_ = nullptr;
  std::byte* memory_ = nullptr;
  char host_[64] = {};
};

TEST_F(CudaCallsTest, WithoutMemoryEachIsResourceExhausted) {
  for (const auto& [function, call] : Calls()) {
    Fail(function.c_str(), Result::kOutOfMemory);
    EXPECT_EQ(call(),
              absl::ResourceExhaustedError(function + ": CUDA_ERROR_OUT_OF_MEMORY: out of memory"));
  }
}

TEST_F(CudaCallsTest, AnyOtherErrorIsInternalAndHasItsName) {
  for (const auto& [function, call] : Calls()) {
    Fail(function.c_str(), Result::kLaunchFailed);
    EXPECT_EQ(call(), absl::InternalError(
                          function + ": CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure"));
  }
}

TEST_F(CudaCallsTest, EachReportsAContextThatCannotBeMadeCurrent) {
  for (const auto& [function, call] : Calls()) {
    Fail("cuCtxPushCurrent", Result::kInvalidContext);
    EXPECT_EQ(call(), absl::InternalError("cuCtxPushCurrent: CUDA_ERROR_INVALID_CONTEXT: invalid "
                                          "device context"));
  }
}

TEST_F(CudaCallsTest, EventThatHasNotPassedIsNoError) {
  Fail("cuEventQuery", Result::kNotReady);
  EXPECT_FALSE(*device_->Query(event_));
  EXPECT_TRUE(*device_->Query(event_));
}

TEST_F(CudaCallsTest, ThingsAreGivenBackEvenIfTheDriverFails) {
  void* const stream = *device_->CreateStream();
  void* const event = *device_->CreateEvent();
  std::byte* const memory = *device_->Allocate(1, stream);
  fake_.lose(static_cast<int>(Result::kLaunchFailed));
  device_->Free(memory, stream);
  device_->DestroyEvent(event);
  device_->DestroyStream(stream);
  fake_.lose(0);
  EXPECT_EQ(fake_.live("memory"), 1);  // those of the fixture
  EXPECT_EQ(fake_.live("events"), 1);
  EXPECT_EQ(fake_.live("streams"), 1);
}

TEST_F(CudaCallsTest, TheThreadsContextStaysAsItWas) {
  const auto other = Make(1);
  void* const outside = *other->CreateStream();
  for (const auto& [function, call] : Calls()) {
    Fail(function.c_str(), Result::kLaunchFailed);
    call().IgnoreError();
    cuda::ContextHandle current = nullptr;
    EXPECT_EQ(fake_.get_current(&current), Result::kSuccess);
    EXPECT_EQ(current, nullptr) << function;
    EXPECT_EQ(fake_.live("pushed"), 0) << function;
  }
  other->DestroyStream(outside);
}

}  // namespace
}  // namespace millrace::pipeline
