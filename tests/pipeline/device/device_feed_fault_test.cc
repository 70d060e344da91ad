#include <thread>

#include "tests/messages.h"
#include "tests/pipeline/device/device_feed_fixture.h"

// What goes wrong in the hand-off, and its end. The rules cited are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

// S-HANDOFF-5.
TEST(DeviceFeedFaultTest, FailedCopyIsTheErrorOfItsBatchBehindEarlierOnes) {
  Rig rig({4, 4, 4, 4, 4, 4}, {.ring = 3});
  rig.device->FailCopy(2 * 2);  // the first tensor of batch 2
  EXPECT_EQ(rig.Next().index(), 0u);
  rig.device->RunAll();
  EXPECT_EQ(rig.Next().index(), 1u);
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = rig.NextStatus();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_MESSAGE(status, "injected");
  }
}

// S-HANDOFF-5.
TEST(DeviceFeedFaultTest, CopyThatFailsAfterDeliveryIsTheNextError) {
  Rig rig({4, 4, 4, 4}, {.ring = 2});
  rig.device->FailCopy(0);
  const DeviceBatch batch = rig.Next();
  rig.device->RunAll();
  EXPECT_EQ(batch.Ready().status().code(), absl::StatusCode::kInternal);
  for (int i = 0; i < 2; ++i) {
    EXPECT_MESSAGE(rig.NextStatus(), "failed");
  }
}

// S-HANDOFF-5.
TEST(DeviceFeedFaultTest, CopyThatCannotBeIssuedIsTheErrorOfItsBatch) {
  for (const char* call : {"Copy", "Allocate", "CreateEvent", "Record"}) {
    Rig rig({4, 4, 4, 4}, {.ring = 1});
    rig.device->FailCall(call, call == std::string("Copy") ? 3 : 1, absl::InternalError("refused"));
    EXPECT_EQ(rig.Next().index(), 0u) << call;
    for (int i = 0; i < 2; ++i) {
      EXPECT_MESSAGE(rig.NextStatus(), "refused");
    }
    rig.device->RunAll();
    EXPECT_MESSAGE(rig.NextStatus(), "refused") << call;
  }
}

// S-HANDOFF-5.
TEST(DeviceFeedFaultTest, LostDeviceIsTheErrorOfTheLowestBatch) {
  Rig rig({4, 4, 4, 4, 4}, {.ring = 3});
  EXPECT_EQ(rig.Next().index(), 0u);
  rig.device->FailCopy(2);
  rig.device->RunAll();
  rig.device->FailCall("Query", 2, absl::InternalError("lost"));  // batch 2, after 1 has failed
  for (int i = 0; i < 2; ++i) {
    EXPECT_MESSAGE(rig.NextStatus(), "failed");
  }
}

// S-HANDOFF-5.
TEST(DeviceFeedFaultTest, HostKeepsTheBytesOfACopyThatCannotBeQueried) {
  Rig rig({4, 4}, {.ring = 1});
  const DeviceBatch first = rig.Next();
  rig.device->FailCall("Query", 0, absl::InternalError("refused"));
  EXPECT_TRUE(absl::IsInternal(rig.NextStatus()));
  rig.device->RunAll();
  EXPECT_TRUE(HoldsBatch(first.Find("a"), 0));
}

// S-HANDOFF-5.
TEST(DeviceFeedFaultTest, PipelinesErrorStandsBehindItsEarlierBatches) {
  Rig rig({4, 4, 4, 4}, {.ring = 3});
  rig.pipeline->errors[2] = absl::DataLossError("record 17");
  EXPECT_EQ(rig.Next().index(), 0u);
  EXPECT_EQ(rig.Next().index(), 1u);
  EXPECT_EQ(rig.NextStatus(), absl::DataLossError("record 17"));
  EXPECT_EQ(rig.NextStatus(), absl::DataLossError("record 17"));
}

// S-ERROR-4: a copy that ends would make room for a batch, and mends no record. Here none ends.
TEST(DeviceFeedFaultTest, ExhaustedThatIsNotRetryableIsNotWaitedOut) {
  Rig rig({4, 4, 4, 4}, {.ring = 3});
  rig.pipeline->errors[2] = absl::ResourceExhaustedError("over its cap");
  EXPECT_EQ(rig.Next().index(), 0u);
  EXPECT_EQ(rig.Next().index(), 1u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(rig.NextStatus(), absl::ResourceExhaustedError("over its cap"));
  }
}

TEST(DeviceFeedFaultTest, EndIsTheEndForEver) {
  Rig rig({4, 4});
  EXPECT_EQ(rig.Next().index(), 0u);
  EXPECT_EQ(rig.Next().index(), 1u);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(rig.feed->Next()->has_value());
}

TEST(DeviceFeedFaultTest, CancelWakesANextThatWaitsForThePipeline) {
  Rig rig({4, 4});
  rig.pipeline->stall_at = 0;
  absl::Status status;
  std::thread waiter([&] { status = rig.NextStatus(); });
  rig.pipeline->AwaitWaiter();
  rig.feed->Cancel();
  waiter.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(rig.NextStatus().code(), absl::StatusCode::kCancelled);
}

TEST(DeviceFeedFaultTest, CancelWakesANextThatWaitsForACopy) {
  Rig rig({4, 4, 4, 4}, {.ring = 1});
  rig.Next();
  rig.Next();
  absl::Status status;
  std::thread waiter([&] {
    while (status.ok()) status = rig.NextStatus();  // no copy is ever done
  });
  rig.feed->Cancel();
  waiter.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST(DeviceFeedFaultTest, StreamThatCannotBeMadeIsAnErrorOfOpen) {
  const auto device = std::make_shared<FakeDevice>();
  device->FailCall("CreateStream", 0, absl::InternalError("no stream"));
  const auto handoff =
      Handoff::Make(device, std::make_unique<FakePipeline>(std::vector<int64_t>{4}), {});
  EXPECT_EQ(handoff.status(), absl::InternalError("no stream"));
}

TEST(DeviceFeedFaultTest, OptionsThatMakeNoSenseAreNamed) {
  const auto error = [](const DeviceFeedOptions& options) {
    const absl::Status status =
        DeviceFeed::Open(std::make_unique<FakePipeline>(std::vector<int64_t>{}), options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return status;
  };
  EXPECT_MESSAGE(error({.device = -1}));
  EXPECT_MESSAGE(error({.ring = 0}));
  EXPECT_MESSAGE(error({.ring = 1025}));
  EXPECT_MESSAGE(error({.max_device_bytes = 0}));
}

}  // namespace
}  // namespace millrace::pipeline
