#include "pipeline/cuda/primary_context.h"

#include <cstdlib>
#include <memory>
#include <thread>

#include "base/status.h"
#include "tests/messages.h"
#include "tests/pipeline/cuda/fake_cuda.h"

namespace millrace::pipeline::cuda {
namespace {

class PrimaryContextTest : public FakeCudaTest {
 protected:
  void TearDown() override {
    unsetenv("FAKE_CUDA_DEVICES");
    FakeCudaTest::TearDown();
  }
  std::shared_ptr<const PrimaryContext> Retained(int ordinal) {
    auto context = PrimaryContext::Retain(driver_, ordinal);
    EXPECT_TRUE(context.ok()) << context.status();
    return context.ok() ? *std::move(context) : nullptr;
  }
  ContextHandle Current() const {
    ContextHandle current = nullptr;
    EXPECT_EQ(fake_.get_current(&current), Result::kSuccess);
    return current;
  }

  const std::shared_ptr<const Driver> driver_ = *LoadDriver(FAKE_CUDA);
};

TEST_F(PrimaryContextTest, ContextOfTheOneDeviceIsRetainedWhileTheObjectLives) {
  auto first = Retained(1);
  auto second = Retained(1);
  EXPECT_EQ(first->handle(), second->handle());
  EXPECT_EQ(fake_.live("context_1"), 2);
  EXPECT_EQ(fake_.live("context_0"), 0);
  first.reset();
  EXPECT_EQ(fake_.live("context_1"), 1);
}

TEST_F(PrimaryContextTest, OrdinalThatNoDeviceHasIsRefused) {
  EXPECT_MESSAGE(PrimaryContext::Retain(driver_, 2).status(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(PrimaryContext::Retain(driver_, -1).status(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PrimaryContextTest, DevicesThatAreGoneAreMissing) {
  setenv("FAKE_CUDA_DEVICES", "0", 1);
  EXPECT_MESSAGE(PrimaryContext::Retain(driver_, 0).status(),
                 absl::StatusCode::kFailedPrecondition);
}

TEST_F(PrimaryContextTest, FailedCallsAreReported) {
  for (const char* function : {"cuDeviceGetCount", "cuDeviceGet", "cuDevicePrimaryCtxRetain"}) {
    Fail(function, Result::kOutOfMemory);
    EXPECT_TRUE(absl::IsResourceExhausted(PrimaryContext::Retain(driver_, 0).status()));
    Fail(function, Result::kLaunchFailed);
    const absl::Status status = PrimaryContext::Retain(driver_, 0).status();
    EXPECT_TRUE(absl::IsInternal(status));
    EXPECT_THAT(std::string(status.message()), testing::StartsWith(function));
  }
}

TEST_F(PrimaryContextTest, CurrentContextIsTheOneBeforeAgain) {
  const auto zero = Retained(0), one = Retained(1);
  EXPECT_EQ(Current(), nullptr);
  {
    const CurrentContext outer(*zero);
    ASSERT_TRUE(outer.status().ok());
    EXPECT_EQ(Current(), zero->handle());
    {
      const CurrentContext inner(*one);
      EXPECT_EQ(Current(), one->handle());
      std::thread([this] { EXPECT_EQ(Current(), nullptr); }).join();
    }
    EXPECT_EQ(Current(), zero->handle());
  }
  EXPECT_EQ(Current(), nullptr);
}

TEST_F(PrimaryContextTest, ThreadMayCallDuringACaptureOfAnother) {
  const auto zero = Retained(0);
  fake_.capture(1);
  void* memory = nullptr;
  {
    const CurrentContext outer(*zero);
    { const CurrentContext inner(*zero); }
    EXPECT_EQ(fake_.live("relaxed"), 1);
    EXPECT_EQ(driver_->mem_host_alloc(&memory, 1, kMemHostAllocPortable), Result::kSuccess);
  }
  EXPECT_EQ(fake_.live("relaxed"), 0);
  EXPECT_EQ(driver_->mem_free_host(memory), Result::kStreamCaptureUnsupported);
  EXPECT_EQ(fake_.misuses(), 1);
  fake_.capture(0);
  EXPECT_EQ(driver_->mem_free_host(memory), Result::kSuccess);
  fake_.reset();
}

TEST_F(PrimaryContextTest, ModeThatCannotBeExchangedIsNotExchangedBack) {
  const auto zero = Retained(0);
  Fail("cuThreadExchangeStreamCaptureMode", Result::kInvalidValue);
  {
    const CurrentContext current(*zero);
    EXPECT_TRUE(current.status().ok()) << current.status();
    EXPECT_EQ(fake_.live("relaxed"), 0);
  }
  EXPECT_EQ(fake_.live("relaxed"), 0);
}

TEST_F(PrimaryContextTest, ContextThatCannotBePushedIsNotPopped) {
  const auto zero = Retained(0), one = Retained(1);
  const CurrentContext outer(*zero);
  {
    Fail("cuCtxPushCurrent", Result::kInvalidContext);
    const CurrentContext inner(*one);
    EXPECT_TRUE(absl::IsInternal(inner.status())) << inner.status();
  }
  EXPECT_EQ(Current(), zero->handle());
}

}  // namespace
}  // namespace millrace::pipeline::cuda
