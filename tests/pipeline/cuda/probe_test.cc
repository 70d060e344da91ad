#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>

#include "base/status.h"
#include "pipeline/cuda_probe.h"
#include "tests/messages.h"
#include "tests/pipeline/cuda/fake_cuda.h"

namespace millrace::pipeline {
namespace {

constexpr size_t kBytes = 4096;

class ProbeTest : public FakeCudaTest {
 protected:
  void TearDown() override {
    unsetenv("FAKE_CUDA_PEERS");
    FakeCudaTest::TearDown();
  }
  static std::unique_ptr<CudaCopier> Copier(int ordinal) {
    auto copier = MakeCudaCopier(ordinal, kBytes);
    EXPECT_TRUE(copier.ok()) << copier.status();
    return copier.ok() ? *std::move(copier) : nullptr;
  }
};

TEST_F(ProbeTest, FactsAreTheDriversAndNeedNoContext) {
  const auto driver = LoadCudaDriver();
  ASSERT_TRUE(driver.ok()) << driver.status();
  EXPECT_EQ(driver->library, FAKE_CUDA);
  EXPECT_EQ(driver->version, 12040);
  EXPECT_EQ(driver->num_devices, 2);
  const auto device = CudaDeviceFactsOf(1);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->name, "Fake GPU 1");
  EXPECT_EQ(device->memory_bytes, uint64_t{80} << 30);
  EXPECT_EQ(device->capability, 90);
  EXPECT_EQ(device->pci_address, "0000:3b:00.0");  // the driver writes 3B
  EXPECT_EQ(fake_.calls("cuDevicePrimaryCtxRetain"), 0);
}

TEST_F(ProbeTest, FailedQuestionsAreReported) {
  for (const char* function : {"cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem",
                               "cuDeviceGetAttribute", "cuDeviceGetPCIBusId"}) {
    Fail(function, cuda::Result::kLaunchFailed);
    EXPECT_TRUE(absl::IsInternal(CudaDeviceFactsOf(0).status())) << function;
  }
  Fail("cuDeviceCanAccessPeer", cuda::Result::kLaunchFailed);
  EXPECT_TRUE(absl::IsInternal(CudaPeersAreDirect(0, 1).status()));
  Fail("cuDeviceGetCount", cuda::Result::kLaunchFailed);
  EXPECT_TRUE(absl::IsInternal(LoadCudaDriver().status()));
}

TEST_F(ProbeTest, BytesGoToADeviceToItsPeerAndBack) {
  const auto first = Copier(0);
  const auto second = Copier(1);
  ASSERT_EQ(first->host().size(), kBytes);
  std::ranges::fill(first->host(), std::byte{7});
  ASSERT_TRUE(CudaPeersAreDirect(0, 1).value());
  ASSERT_TRUE(first->AllowPeer(*second).ok());
  ASSERT_TRUE(first->BeginToDevice().ok());
  ASSERT_TRUE(first->BeginToPeer(*second).ok());
  ASSERT_TRUE(first->Wait().ok());
  ASSERT_TRUE(second->BeginToHost().ok());
  ASSERT_TRUE(second->Wait().ok());
  EXPECT_TRUE(std::ranges::equal(first->host(), second->host()));
}

TEST_F(ProbeTest, PeersMayBeOutOfReachAndCopyAllTheSame) {
  setenv("FAKE_CUDA_PEERS", "0", 1);
  EXPECT_FALSE(CudaPeersAreDirect(0, 1).value());
  const auto first = Copier(0);
  const auto second = Copier(1);
  EXPECT_TRUE(first->BeginToPeer(*second).ok());
  EXPECT_TRUE(first->Wait().ok());
}

// Nothing is left live, which the fixture checks.
TEST_F(ProbeTest, WhatCannotBeMadeIsGivenBack) {
  EXPECT_TRUE(absl::IsInvalidArgument(MakeCudaCopier(2, kBytes).status()));
  for (const char* function : {"cuMemAlloc", "cuMemHostAlloc", "cuStreamCreate"}) {
    Fail(function, cuda::Result::kOutOfMemory);
    EXPECT_TRUE(absl::IsResourceExhausted(MakeCudaCopier(0, kBytes).status())) << function;
    EXPECT_EQ(fake_.live(nullptr), 0) << function;
  }
}

TEST_F(ProbeTest, FailedCopiesAreReported) {
  const auto first = Copier(0);
  const auto second = Copier(1);
  Fail("cuMemcpyHtoDAsync", cuda::Result::kLaunchFailed);
  EXPECT_TRUE(absl::IsInternal(first->BeginToDevice()));
  Fail("cuMemcpyDtoHAsync", cuda::Result::kLaunchFailed);
  EXPECT_TRUE(absl::IsInternal(first->BeginToHost()));
  Fail("cuMemcpyPeerAsync", cuda::Result::kLaunchFailed);
  EXPECT_TRUE(absl::IsInternal(first->BeginToPeer(*second)));
  Fail("cuCtxEnablePeerAccess", cuda::Result::kLaunchFailed);
  EXPECT_TRUE(absl::IsInternal(first->AllowPeer(*second)));
  Fail("cuStreamSynchronize", cuda::Result::kLaunchFailed);
  EXPECT_TRUE(absl::IsInternal(first->Wait()));
}

}  // namespace
}  // namespace millrace::pipeline
