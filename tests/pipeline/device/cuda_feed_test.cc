#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "pipeline/device_feed.h"
#include "pipeline/memory_records.h"
#include "pipeline/plan.h"
#include "tests/messages.h"
#include "tests/pipeline/cuda/fake_cuda.h"
#include "tests/pipeline/executor/executor_fixture.h"

// A DeviceFeed from Open to the end over the fake driver, whose device memory the host may read.

namespace millrace::pipeline {
namespace {

using cuda::Result;

std::string Words(size_t i) {
  return std::string(1 + i * 37 % 300, static_cast<char>('a' + i % 26));
}

constexpr char kNumbers[] =
    "seed: 3 stage { range { count: 500 } } stage { global_shuffle {} }\n"
    "stage { repeat { epochs: 2 } } stage { batch { size: 32 } }\n";
constexpr char kWords[] =
    "seed: 3 stage { memory {} } stage { shuffle { buffer_size: 50 } }\n"
    "stage { padded_batch { size: 16 } }\n";

std::unique_ptr<Pipeline> OpenPlanFor(const char* text, std::optional<int> pinned_for) {
  std::vector<std::string> words;
  for (size_t i = 0; i < 200; ++i) words.push_back(Words(i));
  OpenOptions options;
  options.pinned_for = pinned_for;
  options.memory["memory"] = MemoryRecords::Make(words);
  auto pipeline = Pipeline::Open(*Plan::FromText(text, {}), FakeContext(2), options);
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  return *std::move(pipeline);
}

// True if the tensors in device memory are those of the host's batch.
bool SameBatch(const DeviceBatch& got, const Batch& expected) {
  bool same = std::ranges::equal(got.names(), expected.names()) &&
              std::ranges::equal(got.ids(), expected.ids()) &&
              std::ranges::equal(got.valid(), expected.valid());
  for (size_t i = 0; same && i < got.names().size(); ++i) {
    const ConstTensorView tensor = expected.tensor(i);
    same = got.tensor(i).shape == tensor.shape && got.tensor(i).dtype == tensor.dtype &&
           std::memcmp(got.tensor(i).data, tensor.data, tensor.size_bytes()) == 0;
  }
  return same;
}

// What a feed of `text` delivers before it ends: batches that are as they should be.
struct Fed {
  int right = 0, wrong = 0;
  absl::Status end;
};

Fed FeedAll(const char* text, int device, std::optional<int> pinned_for) {
  Fed fed;
  const auto reference = OpenPlanFor(text, std::nullopt);
  auto feed = DeviceFeed::Open(OpenPlanFor(text, pinned_for), {.device = device, .ring = 3});
  fed.end = feed.status();
  while (fed.end.ok()) {
    const auto got = (*feed)->Next();
    fed.end = got.status();
    if (!got.ok() || !got->has_value()) break;
    const auto expected = reference->Next();
    const bool waited = (*got)->WaitOn(nullptr).ok();
    const bool same = waited && SameBatch(**got, **expected) && (*got)->RecordUse(nullptr).ok();
    ++(same ? fed.right : fed.wrong);
  }
  return fed;
}

class CudaFeedTest : public FakeCudaTest {
 protected:
  void TearDown() override {
    unsetenv("FAKE_CUDA_DEVICES");
    FakeCudaTest::TearDown();
  }
};

// S-HANDOFF-1.
TEST_F(CudaFeedTest, DeviceHasTheBytesOfTheHost) {
  for (const auto& [text, batches] : {std::pair(kNumbers, 32), std::pair(kWords, 13)}) {
    for (const int device : {0, 1}) {
      const Fed fed = FeedAll(text, device, device);
      EXPECT_TRUE(fed.end.ok()) << fed.end;
      EXPECT_EQ(fed.right, batches);
      EXPECT_EQ(fed.wrong, 0);
    }
  }
}

TEST_F(CudaFeedTest, FeedRunsWhileAnotherThreadCapturesAGraph) {
  fake_.capture(1);
  const Fed fed = FeedAll(kNumbers, 0, 0);
  EXPECT_TRUE(fed.end.ok()) << fed.end;
  EXPECT_EQ(fed.right, 32);
  EXPECT_EQ(fake_.misuses(), 0);
  fake_.capture(0);
}

TEST_F(CudaFeedTest, FeedOfAPlanPageLocksItsBatchesForItsDevice) {
  OpenOptions options;
  options.pinned_for = 0;
  const auto reference = OpenPlanFor(kNumbers, std::nullopt);
  auto feed =
      DeviceFeed::Open(*Plan::FromText(kNumbers, {}), FakeContext(2), options, {.device = 1});
  ASSERT_TRUE(feed.ok()) << feed.status();
  EXPECT_TRUE(SameBatch(**(*feed)->Next(), **reference->Next()));
  EXPECT_GT(fake_.calls("cuMemHostAlloc"), 0);
  EXPECT_EQ(fake_.live("context_0"), 0);
}

TEST_F(CudaFeedTest, BatchesThatAreHeldKeepTheContext) {
  std::vector<DeviceBatch> held;
  const auto reference = OpenPlanFor(kNumbers, std::nullopt);
  {
    auto feed = *DeviceFeed::Open(OpenPlanFor(kNumbers, 0));
    for (int i = 0; i < 5; ++i) held.push_back(**feed->Next());
  }
  EXPECT_EQ(fake_.live("context_0"), 1);  // the pipeline's is released
  for (const DeviceBatch& batch : held) EXPECT_TRUE(SameBatch(batch, **reference->Next()));
}

TEST_F(CudaFeedTest, OrdinalThatNoDeviceHasIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(FeedAll(kNumbers, 2, std::nullopt).end));
}

TEST_F(CudaFeedTest, WithoutADeviceOpenSaysSo) {
  setenv("FAKE_CUDA_DEVICES", "0", 1);
  EXPECT_MESSAGE(FeedAll(kNumbers, 0, std::nullopt).end, absl::StatusCode::kFailedPrecondition);
}

TEST_F(CudaFeedTest, PipelineThatIsNotAskedForPageLockedMemoryDoesNotCallTheDriver) {
  const auto pipeline = OpenPlanFor(kNumbers, std::nullopt);
  EXPECT_TRUE(Drain(*pipeline).end.ok());
  for (const char* function : {"cuDeviceGetCount", "cuDevicePrimaryCtxRetain", "cuMemHostAlloc"}) {
    EXPECT_EQ(fake_.calls(function), 0) << function;
  }
}

TEST_F(CudaFeedTest, BatchesArePageLockedForTheDeviceThatIsFedAlone) {
  auto pipeline = OpenPlanFor(kNumbers, 1);
  EXPECT_EQ(fake_.live("context_1"), 1);
  EXPECT_EQ(fake_.live("context_0"), 0);
  auto batch = *pipeline->Next();
  EXPECT_GE(fake_.live("host_memory"), 1);
  pipeline.reset();
  EXPECT_EQ(fake_.live("host_memory"), 1);  // that of the batch
  EXPECT_EQ(fake_.live("context_1"), 1);
}

// The log of opening a pipeline, which has to deliver the same batches as any other.
std::vector<std::string> LogOfPinnedFor(int device) {
  std::vector<std::string> log;
  ContextOptions context;
  context.threads = 2;
  context.io = std::make_shared<FakeIo>();
  context.log = KeepWarnings(log);
  OpenOptions options;
  options.pinned_for = device;
  const auto pipeline =
      OpenFake(MakePlan(16), MakeFakeData(100), *Context::Make(std::move(context)), options);
  const auto reference = OpenFake(MakePlan(16), MakeFakeData(100), FakeContext(2));
  EXPECT_EQ(Drain(*pipeline).digests, Drain(*reference).digests);
  return log;
}

TEST_F(CudaFeedTest, PageLockedMemoryOfADeviceThatIsNotThereIsPageable) {
  EXPECT_THAT(LogOfPinnedFor(0), testing::IsEmpty());
  const std::vector<std::string> log = LogOfPinnedFor(7);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_MESSAGE(log[0]);
  OpenOptions options;
  options.pinned_for = -1;
  EXPECT_MESSAGE(options.Validate(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CudaFeedTest, WithoutPageLockedMemoryTheStreamEnds) {
  for (int i = 1; i <= 20; ++i) Fail("cuMemHostAlloc", Result::kOutOfMemory, i);
  const auto pipeline = OpenPlanFor(kNumbers, 0);
  const auto batch = pipeline->Next();
  EXPECT_TRUE(absl::IsResourceExhausted(batch.status()));
  EXPECT_FALSE(IsRetryable(batch.status()));
  EXPECT_THAT(std::string(batch.status().message()),
              testing::HasSubstr("cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY"));
}

// Whichever call fails, it ends the feed with its error, in its batch's place, or it changes
// nothing; FakeCudaTest looks at what is left.
TEST_F(CudaFeedTest, EachFailedCallIsReportedOrChangesNothing) {
  const auto fails = [this](const char* function, Result error, int nth) {
    fake_.reset();
    Fail(function, error, nth);
    const Fed fed = FeedAll(kWords, 0, std::nullopt);
    EXPECT_EQ(fed.wrong, 0) << function << " " << nth;
    EXPECT_EQ(fake_.live(nullptr), 0) << function << " " << nth;
    EXPECT_EQ(fake_.misuses(), 0) << function << " " << nth;
    if (fed.end.ok()) return false;
    EXPECT_EQ(fed.end.code(), error == Result::kOutOfMemory ? absl::StatusCode::kResourceExhausted
                                                            : absl::StatusCode::kInternal)
        << function << " " << fed.end;
    EXPECT_THAT(std::string(fed.end.message()), testing::HasSubstr(function));
    EXPECT_FALSE(IsRetryable(fed.end));
    return true;
  };
  for (const Result error : {Result::kOutOfMemory, Result::kLaunchFailed}) {
    for (const char* function :
         {"cuDeviceGetCount", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuDeviceGetAttribute",
          "cuDeviceGetName", "cuStreamCreate", "cuMemAllocAsync", "cuEventCreate",
          "cuMemcpyHtoDAsync", "cuEventRecord", "cuEventQuery"}) {
      EXPECT_TRUE(fails(function, error, 1)) << function;
    }
    for (const int nth : {2, 5}) EXPECT_TRUE(fails("cuMemcpyHtoDAsync", error, nth));
    for (const char* function :
         {"cuThreadExchangeStreamCaptureMode", "cuMemFreeAsync", "cuEventDestroy",
          "cuStreamDestroy", "cuDevicePrimaryCtxRelease", "cuCtxPopCurrent"}) {
      EXPECT_FALSE(fails(function, error, 1)) << function;
    }
  }
}

TEST_F(CudaFeedTest, LostDeviceEndsTheFeedWithItsErrorForGood) {
  auto feed = *DeviceFeed::Open(OpenPlanFor(kNumbers, 0), {.ring = 2});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(feed->Next().ok());
  fake_.lose(static_cast<int>(Result::kLaunchFailed));
  absl::Status status;
  for (int i = 0; status.ok() && i < 10; ++i) status = feed->Next().status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
  EXPECT_EQ(feed->Next().status(), status);
  feed.reset();
}

}  // namespace
}  // namespace millrace::pipeline
