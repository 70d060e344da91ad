#include <algorithm>
#include <random>
#include <thread>

#include "tests/messages.h"
#include "tests/pipeline/device/device_feed_fixture.h"
#include "tests/pipeline/executor/executor_fixture.h"

// The rules cited are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

using testing::IsEmpty;

// S-HANDOFF-1.
TEST(DeviceFeedTest, BatchOnTheDeviceIsThatOfThePipeline) {
  const FakeData data = MakeFakeData(50);
  PhysicalPlan plan = MakePlan(8, {Step(OrderStep::Kind::kGlobalShuffle)});
  const auto reference =
      OpenFake(MakePlan(8, {Step(OrderStep::Kind::kGlobalShuffle)}), data, FakeContext(1));
  const auto feed =
      OpenFeed(std::make_shared<FakeDevice>(), OpenFake(std::move(plan), data, FakeContext(2)));
  while (true) {
    const auto host = reference->Next();
    const auto batch = feed->Next();
    ASSERT_TRUE(host.ok() && batch.ok());
    ASSERT_EQ(host->has_value(), batch->has_value());
    if (!batch->has_value()) break;
    const Batch& expected = **host;
    const DeviceBatch& got = **batch;
    ASSERT_TRUE(*got.Ready());
    EXPECT_EQ(got.index(), expected.index());
    EXPECT_EQ(got.epoch(), expected.epoch());
    EXPECT_EQ(got.ends_epoch(), expected.ends_epoch());
    EXPECT_EQ(got.num_rows(), expected.num_rows());
    EXPECT_EQ(got.num_valid_rows(), expected.num_valid_rows());
    EXPECT_EQ(got.num_global_valid_rows(), expected.num_global_valid_rows());
    EXPECT_EQ(got.first_global_row(), expected.first_global_row());
    EXPECT_EQ(got.resume_token(), expected.resume_token());
    EXPECT_TRUE(std::ranges::equal(got.ids(), expected.ids()));
    EXPECT_TRUE(std::ranges::equal(got.valid(), expected.valid()));
    EXPECT_THAT(got.damaged(), IsEmpty());
    ASSERT_TRUE(std::ranges::equal(got.names(), expected.names()));
    for (size_t i = 0; i < got.names().size(); ++i) {
      const ConstTensorView tensor = expected.tensor(i);
      EXPECT_EQ(got.tensor(i).dtype, tensor.dtype);
      EXPECT_EQ(got.tensor(i).shape, tensor.shape);
      EXPECT_EQ(std::memcmp(got.tensor(i).data, tensor.data, tensor.size_bytes()), 0);
    }
    EXPECT_EQ(got.Find("noise").data, got.tensor(1).data);
    EXPECT_EQ(got.Find("none").data, nullptr);
  }
}

TEST(DeviceFeedTest, ABatchStaysInTheHostsMemoryAsLongAsItsHandleIfItIsToBeKept) {
  Rig rig({4, 4, 4}, {.keeps_host = true, .ring = 1});
  {
    const DeviceBatch first = rig.Next();
    rig.RunCopies();
    const DeviceBatch second = rig.Next();
    rig.RunCopies();
    for (const DeviceBatch& batch : {first, second}) {
      const ConstTensorView host = batch.host().Find("a");
      ASSERT_EQ(host.shape, batch.Find("a").shape);
      EXPECT_EQ(batch.host().index(), batch.index());
      EXPECT_EQ(std::memcmp(host.data, batch.Find("a").data, host.size_bytes()), 0);
    }
    EXPECT_EQ(rig.host->live(), 3);
  }
  const DeviceBatch third = rig.Next();
  EXPECT_EQ(rig.host->live(), 1);
}

// S-HANDOFF-2.
TEST(DeviceFeedTest, LaterBatchesAreCopiedWhileThisOneIsUsed) {
  Rig rig({4, 4, 4, 4, 4}, {.ring = 2});
  const DeviceBatch batch = rig.Next();
  EXPECT_EQ(batch.index(), 0u);
  EXPECT_EQ(rig.device->copies_issued(), 2 * 3);  // of two tensors, for batches 0, 1 and 2
  // And they do not wait for the consumer's work on this one.
  UseLater(rig, batch);
  rig.RunCopies();
  EXPECT_EQ(rig.device->copies_done(), 2 * 3);
  EXPECT_EQ(rig.right, 0);
}

// S-HANDOFF-2.
TEST(DeviceFeedTest, NextDoesNotWaitForTheCopy) {
  Rig rig({4});
  const DeviceBatch batch = rig.Next();
  EXPECT_FALSE(*batch.Ready());
  rig.device->RunAll();
  EXPECT_TRUE(*batch.Ready());
  EXPECT_TRUE(HoldsBatch(batch.Find("a"), 0));
}

// S-HANDOFF-2.
TEST(DeviceFeedTest, ConsumersStreamWaitsForTheBytes) {
  Rig rig({4});
  UseLater(rig, rig.Next());
  rig.device->RunStream(rig.consumer);
  EXPECT_EQ(rig.right, 0);  // held up by the event
  rig.device->RunAll();
  EXPECT_EQ(rig.right, 1);
}

// S-HANDOFF-3.
TEST(DeviceFeedTest, SlabIsNotWrittenBeforeRecordedUseIsDone) {
  Rig rig({4, 4, 4, 4, 4, 4}, {.ring = 1, .max_device_bytes = 2 * 4096});
  for (int i = 0; i < 2; ++i) UseLater(rig, rig.Next());
  rig.RunCopies();
  // Both slabs are dropped, and their uses have not begun: the third copy is issued behind them.
  const DeviceBatch third = rig.Next();
  rig.RunCopies();
  EXPECT_FALSE(*third.Ready());
  rig.device->RunAll();
  EXPECT_EQ(rig.right, 2);
  EXPECT_TRUE(HoldsBatch(third.Find("a"), 2));
}

// S-HANDOFF-3.
TEST(DeviceFeedTest, SlabOfAHeldBatchIsLeftAlone) {
  Rig rig(std::vector<int64_t>(20, 4), {.ring = 1}, /*automatic=*/true);
  const DeviceBatch kept = rig.Next();
  for (int i = 1; i < 20; ++i) EXPECT_TRUE(HoldsBatch(rig.Next().Find("a"), i));
  EXPECT_TRUE(HoldsBatch(kept.Find("a"), 0));
}

// S-HANDOFF-3.
TEST(DeviceFeedTest, EveryStreamToldByRecordUseCounts) {
  Rig rig({4, 4, 4}, {.ring = 1, .max_device_bytes = 4096});
  void* const second = *rig.device->CreateStream();
  {
    const DeviceBatch batch = rig.Next();
    UseLater(rig, batch);
    ASSERT_TRUE(batch.WaitOn(second).ok());
    rig.device->Launch(second,
                       [a = batch.Find("a"), &right = rig.right] { right += HoldsBatch(a, 0); });
    ASSERT_TRUE(batch.RecordUse(second).ok());
    ASSERT_TRUE(batch.RecordUse(second).ok());  // again: the last one counts
  }
  const DeviceBatch next = rig.Next();
  for (int i = 0; i < 100; ++i) {
    rig.device->StepNumber(1);
    rig.device->Step(rig.consumer);
  }
  EXPECT_FALSE(*next.Ready());
  EXPECT_EQ(rig.right, 1);
  rig.device->RunAll();
  EXPECT_EQ(rig.right, 2);
  rig.device->DestroyStream(second);
}

// S-HANDOFF-3: every byte is right, whatever the order in which the device comes to its work.
TEST(DeviceFeedTest, RandomOrdersOfStreamsNeverMixBatches) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::vector<int64_t> rows;
    for (int i = 0; i < 40; ++i) rows.push_back(1 + random() % 300);
    Rig rig(rows, {.ring = 1 + static_cast<int>(random() % 3),
                   .max_device_bytes = 4096 << (4 + random() % 3)});
    rig.pipeline->max_host_slabs = 1 + static_cast<int>(random() % 8);
    rig.device->progress_on_query = true;
    std::vector<DeviceBatch> held;
    int delivered = 0;
    while (delivered < 40) {
      auto batch = rig.feed->Next();
      if (IsRetryable(batch.status())) {
        ASSERT_FALSE(held.empty());
        held.clear();
        rig.device->RunAll();
        continue;
      }
      ASSERT_TRUE(batch.ok() && batch->has_value()) << batch.status();
      ASSERT_EQ((*batch)->index(), static_cast<uint64_t>(delivered++));
      UseLater(rig, **batch);
      if (random() % 4 == 0) held.push_back(**batch);
      if (random() % 4 == 0) held.clear();
      for (size_t steps = random() % 12; steps > 0; --steps) rig.device->StepNumber(random());
      if (random() % 3 == 0) rig.device->RunAll();
    }
    EXPECT_FALSE(rig.feed->Next()->has_value());
    held.clear();
    rig.device->RunAll();
    EXPECT_EQ(rig.right, 40) << "seed " << seed;
  }
}

// S-HANDOFF-4.
TEST(DeviceFeedTest, HostSlabIsHeldUntilItsCopyIsDoneAndNoLonger) {
  Rig rig({4, 4, 4}, {.ring = 1});
  const DeviceBatch batch = rig.Next();
  rig.feed->Poll();
  EXPECT_EQ(rig.host->live(), 2);
  rig.device->RunAll();
  rig.feed->Poll();
  EXPECT_EQ(rig.host->live(), 0);
  EXPECT_TRUE(HoldsBatch(batch.Find("a"), 0));
}

// S-HANDOFF-4: a budget with room for one host batch slows the feed down and stops nothing.
TEST(DeviceFeedTest, NextWaitsForItsOwnCopiesWhenTheyTakeTheBudget) {
  Rig rig({4, 4, 4, 4}, {.ring = 2});
  rig.pipeline->max_host_slabs = 1;
  rig.device->progress_on_query = true;
  for (uint64_t i = 0; i < 4; ++i) {
    const DeviceBatch batch = rig.Next();
    EXPECT_EQ(batch.index(), i);
    EXPECT_FALSE(*batch.Ready());
  }
  EXPECT_FALSE(rig.feed->Next()->has_value());
}

// S-HANDOFF-6.
TEST(DeviceFeedTest, HeldBatchesThatTakeTheMemoryAreNamedAndMayBeDropped) {
  Rig rig({64, 64, 64, 64}, {.ring = 1, .max_device_bytes = 2 * 5120}, /*automatic=*/true);
  std::vector<DeviceBatch> held = {rig.Next(), rig.Next()};
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = rig.NextStatus();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(IsRetryable(status)) << status;
    EXPECT_MESSAGE(status, "held");
  }
  held.pop_back();
  EXPECT_EQ(rig.Next().index(), 2u);
  EXPECT_EQ(rig.Next().index(), 3u);
}

// S-HANDOFF-6.
TEST(DeviceFeedTest, BatchLargerThanTheBudgetIsAdmittedAlone) {
  Rig rig({600, 4, 700, 700, 4}, {.ring = 2, .max_device_bytes = 8192}, /*automatic=*/true);
  for (uint64_t i = 0; i < 5; ++i) {
    const DeviceBatch batch = rig.Next();
    EXPECT_EQ(batch.index(), i);
    EXPECT_TRUE(HoldsBatch(batch.Find("a"), i));
  }
  EXPECT_LE(rig.device->peak_bytes(), 60u << 10);  // one of 700 rows, with its size class
}

// S-HANDOFF-6.
TEST(DeviceFeedTest, BatchesOfManySizesShareFewSlabs) {
  std::mt19937 random(3);
  std::vector<int64_t> rows;
  for (int i = 0; i < 2000; ++i) rows.push_back(200 + random() % 200);
  Rig rig(rows, {.ring = 2, .max_device_bytes = 200 << 10}, /*automatic=*/true);
  for (uint64_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE(HoldsBatch(rig.Next().Find("a"), i));
  }
  EXPECT_LE(rig.device->peak_bytes(), 200u << 10);
  EXPECT_LE(rig.device->allocations(), 20);
}

// S-HANDOFF-6.
TEST(DeviceFeedTest, FullDeviceFreesIdleSlabsBeforeItGivesUp) {
  Rig rig({10, 1000, 2000}, {.ring = 1}, /*automatic=*/true);
  rig.device->capacity_bytes = 110 << 10;
  rig.pipeline->stall_at = 2;
  rig.Next();
  rig.Next();
  rig.pipeline->stall_at = SIZE_MAX;
  const absl::Status status = rig.NextStatus();  // too large for the device, though not for us
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(IsRetryable(status)) << status;
  EXPECT_MESSAGE(status);
  EXPECT_EQ(rig.NextStatus(), status);
}

// S-HANDOFF-1.
TEST(DeviceFeedTest, DamagedSamplesComeWithTheirBatch) {
  Rig rig({4, 4}, {}, /*automatic=*/true);
  EXPECT_THAT(rig.Next().damaged(), IsEmpty());
  const DeviceBatch second = rig.Next();
  ASSERT_EQ(second.damaged().size(), 1u);
  EXPECT_EQ(second.damaged()[0].row, 2);
  EXPECT_EQ(second.damaged()[0].id.record, 7u);
  EXPECT_EQ(second.damaged()[0].error, absl::DataLossError("record 7"));
}

// S-HANDOFF-2.
TEST(DeviceFeedTest, NextForComesBackWithoutABatch) {
  Rig rig({4, 4, 4, 4}, {.ring = 1});
  rig.pipeline->stall_at = 0;
  for (const int64_t limit : {INT64_MIN, int64_t{0}, int64_t{1000}}) {
    EXPECT_FALSE(rig.feed->NextFor(std::chrono::nanoseconds(limit)).has_value());
  }
  rig.pipeline->stall_at = SIZE_MAX;
  const auto longest = std::chrono::nanoseconds::max();
  EXPECT_EQ((**rig.feed->NextFor(longest))->index(), 0u);
  EXPECT_EQ((**rig.feed->NextFor(longest))->index(), 1u);
  // The host slabs of `ring` + 1 copies are out, and no copy is ever done.
  EXPECT_FALSE(rig.feed->NextFor(std::chrono::nanoseconds(1000)).has_value());
  rig.device->RunAll();
  EXPECT_EQ((**rig.feed->NextFor(longest))->index(), 2u);
  EXPECT_EQ((**rig.feed->NextFor(longest))->index(), 3u);
  rig.device->RunAll();
  EXPECT_FALSE((*rig.feed->NextFor(longest))->has_value());
}

// S-HANDOFF-8.
TEST(DeviceFeedTest, StateIsThatOfTheBatchDeliveredNotOfThoseCopiedAhead) {
  Rig rig({4, 4, 4, 4, 4, 4}, {.ring = 3}, /*automatic=*/true);
  EXPECT_EQ(rig.feed->Save(), "");
  rig.Next();
  EXPECT_EQ(rig.Next().resume_token(), "token 1");
  EXPECT_EQ(rig.pipeline->taken(), 5u);
  EXPECT_EQ(rig.feed->Save(), "token 1");
}

// S-HANDOFF-8.
TEST(DeviceFeedTest, RestoredFeedDropsWhatItCopiedAhead) {
  Rig rig({4, 4, 4, 4, 4, 4}, {.ring = 2});
  const DeviceBatch first = rig.Next();
  EXPECT_EQ(rig.Next().index(), 1u);
  ASSERT_TRUE(rig.feed->Restore("token 0").ok());
  EXPECT_EQ(rig.host->live(), 0);  // the copies that read host slabs are over
  EXPECT_EQ(rig.feed->Save(), "token 0");
  EXPECT_EQ(rig.Next().index(), 1u);
  ASSERT_TRUE(rig.feed->Seek(4).ok());
  EXPECT_EQ(rig.feed->Save(), "token 3");
  EXPECT_EQ(rig.Next().index(), 4u);
  rig.device->RunAll();
  EXPECT_TRUE(HoldsBatch(first.Find("a"), 0));
}

// S-HANDOFF-8.
TEST(DeviceFeedTest, RefusedStateMovesNothing) {
  Rig rig({4, 4, 4}, {.ring = 1}, /*automatic=*/true);
  rig.Next();
  EXPECT_EQ(rig.feed->Restore("other").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(rig.feed->Seek(9).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(rig.feed->Save(), "token 0");
  EXPECT_EQ(rig.Next().index(), 1u);
}

// S-HANDOFF-8.
TEST(DeviceFeedTest, FeedGoesOnBehindTheEndAndBehindAFailedCopy) {
  Rig rig({4, 4}, {.ring = 1});
  rig.device->FailCopy(2 * 2);
  rig.Next();
  rig.Next();
  rig.device->RunAll();
  EXPECT_FALSE(rig.feed->Next()->has_value());
  ASSERT_TRUE(rig.feed->Seek(0).ok());
  rig.Next();
  rig.device->RunAll();
  EXPECT_EQ(rig.NextStatus().code(), absl::StatusCode::kInternal);
  ASSERT_TRUE(rig.feed->Seek(1).ok());
  EXPECT_EQ(rig.Next().index(), 1u);
  rig.device->RunAll();
}

// S-HANDOFF-7.
TEST(DeviceFeedTest, BatchOutlivesFeedAndPipeline) {
  const auto device = std::make_shared<FakeDevice>();
  {
    auto feed = OpenFeed(device, std::make_unique<FakePipeline>(std::vector<int64_t>{4, 4, 4}));
    const DeviceBatch batch = **feed->Next();
    const DeviceBatch copy = batch;
    feed.reset();
    EXPECT_TRUE(HoldsBatch(copy.Find("a"), 0));
    EXPECT_TRUE(*copy.Ready());
    EXPECT_EQ(copy.resume_token(), "token 0");
    EXPECT_GT(device->allocated_bytes(), 0u);
  }
  EXPECT_EQ(device->allocated_bytes(), 0u);
  EXPECT_EQ(device->live_events() + device->live_streams(), 0);
}

// S-HANDOFF-7.
TEST(DeviceFeedTest, ThousandFeedsLeaveNothing) {
  const auto device = std::make_shared<FakeDevice>(/*automatic=*/false);
  const auto host = std::make_shared<SpoilingAllocator>();
  for (int i = 0; i < 1000; ++i) {
    auto feed = OpenFeed(
        device, std::make_unique<FakePipeline>(std::vector<int64_t>{4, 9, 100, 4, 4}, host));
    std::optional<DeviceBatch> last;
    for (int k = 0; k < i % 3; ++k) last = **feed->Next();
    if (i % 5 == 0) feed->Cancel();
    if (i % 2 == 0) feed.reset();
    last.reset();
    feed.reset();
    if (i % 7 == 0) device->RunAll();
  }
  device->RunAll();
  EXPECT_EQ(device->allocated_bytes(), 0u);
  EXPECT_EQ(device->live_events(), 0);
  EXPECT_EQ(device->live_streams(), 0);
  EXPECT_EQ(host->live(), 0);
  EXPECT_THAT(device->violations(), IsEmpty());
}

// S-HANDOFF-7.
TEST(DeviceFeedTest, BatchesMayBeDroppedOnAnyThread) {
  Rig rig(std::vector<int64_t>(400, 4), {}, /*automatic=*/true);
  Mutex mu;
  std::vector<DeviceBatch> shared;
  bool done = false;
  std::vector<std::thread> droppers;
  for (int i = 0; i < 3; ++i) {
    droppers.emplace_back([&] {
      while (true) {
        std::vector<DeviceBatch> mine;
        MutexLock lock(mu);
        if (done && shared.empty()) return;
        if (!shared.empty()) mine.push_back(shared.back());
        if (!shared.empty()) shared.pop_back();
      }
    });
  }
  for (uint64_t i = 0; i < 400; ++i) {
    const DeviceBatch batch = rig.Next();
    EXPECT_TRUE(HoldsBatch(batch.Find("a"), i));
    MutexLock lock(mu);
    shared.push_back(batch);
  }
  {
    MutexLock lock(mu);
    done = true;
  }
  for (std::thread& dropper : droppers) dropper.join();
}

TEST(DeviceFeedTest, DestructorWaitsForNothingWhenNothingIsCopied) {
  Rig rig({4, 4}, {}, /*automatic=*/true);
  rig.Next();
  rig.feed->Poll();
  rig.feed.reset();
  EXPECT_EQ(rig.device->synchronizations(), 0);
}

}  // namespace
}  // namespace millrace::pipeline
