#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/device/device.h"
#include "pipeline/device_feed.h"
#include "tests/messages.h"
#include "tests/pipeline/device/fake_pipeline.h"
#include "tests/pipeline/executor/executor_fixture.h"

// A machine without NVIDIA's driver, which is every machine whose variable names no library.

namespace millrace::pipeline {
namespace {

const bool kNoDriverIsNamed = setenv("MILLRACE_CUDA_LIBRARY", "/no/such/libcuda.so", 1) == 0;

struct Opened {
  std::vector<std::string> log;
  Stream stream;
};

Opened RunPinnedFor(std::optional<int> device) {
  Opened opened;
  ContextOptions context;
  context.threads = 2;
  context.io = std::make_shared<FakeIo>();
  context.log = KeepWarnings(opened.log);
  OpenOptions options;
  options.pinned_for = device;
  const auto pipeline =
      OpenFake(MakePlan(16), MakeFakeData(100), *Context::Make(std::move(context)), options);
  opened.stream = Drain(*pipeline);
  return opened;
}

TEST(NoDriverTest, DeviceAndFeedSayWhatIsMissing) {
  ASSERT_TRUE(kNoDriverIsNamed);
  EXPECT_MESSAGE(MakeCudaDevice(0).status(), absl::StatusCode::kFailedPrecondition);
  const auto feed = DeviceFeed::Open(std::make_unique<FakePipeline>(std::vector<int64_t>{4}));
  EXPECT_EQ(feed.status(), MakeCudaDevice(0).status());
}

TEST(NoDriverTest, PipelineThatIsNotAskedForPageLockedMemoryLooksForNoDriver) {
  const Opened opened = RunPinnedFor(std::nullopt);
  EXPECT_TRUE(opened.stream.end.ok()) << opened.stream.end;
  EXPECT_THAT(opened.log, testing::IsEmpty());
}

TEST(NoDriverTest, PipelineThatIsAskedForItSaysWhyItHasNone) {
  const Opened opened = RunPinnedFor(0);
  EXPECT_EQ(opened.stream.digests, RunPinnedFor(std::nullopt).stream.digests);
  ASSERT_EQ(opened.log.size(), 1u);
  EXPECT_MESSAGE(opened.log[0]);
}

}  // namespace
}  // namespace millrace::pipeline
