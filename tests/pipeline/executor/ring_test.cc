#include "pipeline/executor/ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace millrace::pipeline {
namespace {

constexpr int64_t kMicrosecond = 1'000;
constexpr int64_t kNow = 1'000'000'000;

class RingTest : public testing::Test {
 protected:
  // Opens the next batch, whose rows have all been claimed.
  OpenBatch* Open() {
    std::unique_ptr<OpenBatch> batch = ring_.BeginOpening(ring_.next_batch());
    if (batch == nullptr) batch = std::make_unique<OpenBatch>();
    *batch = OpenBatch();
    OpenBatch* const opened = batch.get();
    ring_.EndOpening(std::move(batch));
    return opened;
  }
  void OpenReady(int count, bool items_are_short) {
    for (int i = 0; i < count; ++i) ring_.PutReady(Open(), items_are_short);
  }
  void Deliver() { ring_.Delivered(ring_.TakeFront(), "token"); }

  Ring ring_{16};
};

TEST_F(RingTest, BatchesAreDeliveredInTheOrderInWhichTheyWereOpened) {
  ring_.Begin(7, "start");
  EXPECT_EQ(ring_.token(), "start");
  OpenBatch* const first = Open();
  OpenBatch* const second = Open();
  EXPECT_EQ(ring_.next_batch(), 9);
  ring_.PutReady(second, false);
  EXPECT_FALSE(ring_.front_is_ready());
  EXPECT_FALSE(ring_.consumer_to_call());
  ring_.PutReady(first, false);
  EXPECT_TRUE(ring_.TakeConsumerCall());
  EXPECT_EQ(ring_.num_ready(), 2);
  std::unique_ptr<OpenBatch> taken = ring_.TakeFront();
  EXPECT_EQ(taken.get(), first);
  ring_.Delivered(std::move(taken), "behind 7");
  EXPECT_EQ(ring_.token(), "behind 7");
  EXPECT_EQ(ring_.TakeFront().get(), second);
  EXPECT_TRUE(ring_.empty());
  EXPECT_EQ(ring_.num_ready(), 0);
}

TEST_F(RingTest, ABatchIsOpenedWhileThereIsRoomAndAllRowsBeforeItAreClaimed) {
  ring_.SetLength(2);
  EXPECT_TRUE(ring_.MayOpen());
  std::unique_ptr<OpenBatch> batch = ring_.BeginOpening(0);
  EXPECT_EQ(batch, nullptr);  // none was idle
  EXPECT_FALSE(ring_.MayOpen());
  batch = std::make_unique<OpenBatch>();
  batch->num_work_rows = 8;
  ring_.EndOpening(std::move(batch));
  EXPECT_TRUE(ring_.HasUnclaimedRows());
  EXPECT_FALSE(ring_.MayOpen());
  ring_.last().claimed_rows = 8;
  EXPECT_TRUE(ring_.MayOpen());
  Open();
  EXPECT_FALSE(ring_.MayOpen());
  ring_.SetLength(3);
  EXPECT_TRUE(ring_.MayOpen());
  ring_.NoteError();
  EXPECT_FALSE(ring_.MayOpen());
}

TEST_F(RingTest, NoBatchIsOpenedBehindOneThatIsAnError) {
  std::unique_ptr<OpenBatch> batch = std::make_unique<OpenBatch>();
  ring_.BeginOpening(0);
  batch->error = absl::ResourceExhaustedError("no slab");
  ring_.EndOpening(std::move(batch));
  EXPECT_TRUE(ring_.error_seen());
  EXPECT_FALSE(ring_.MayOpen());
}

TEST_F(RingTest, DeliveredBatchesAreUsedAgain) {
  OpenReady(1, false);
  std::unique_ptr<OpenBatch> taken = ring_.TakeFront();
  OpenBatch* const memory = taken.get();
  ring_.Delivered(std::move(taken), "token");
  EXPECT_EQ(ring_.BeginOpening(1).get(), memory);
}

TEST_F(RingTest, AfterClearNothingIsLeftOfTheStream) {
  OpenReady(2, false);
  ring_.PutFilled(Open());
  ring_.NoteError();
  ring_.Clear();
  EXPECT_TRUE(ring_.empty());
  EXPECT_EQ(ring_.num_ready(), 0);
  EXPECT_EQ(ring_.TakeFilled(), nullptr);
  EXPECT_TRUE(ring_.MayOpen());
}

// A consumer that takes a full ring of short batches waits once for the next one: it is called when
// the workers have made all they can, not at the first batch.
TEST_F(RingTest, OneCallServesAllBatchesThatAreMadeWhileTheConsumerWaits) {
  ring_.BeginWait(kNow);
  for (int i = 0; i < 16; ++i) {
    ring_.PutReady(Open(), true);
    ring_.WakeBetweenItems(kNow + i * kMicrosecond, true);
    EXPECT_FALSE(ring_.consumer_to_call());
    EXPECT_TRUE(ring_.wake_is_due());
  }
  ring_.WakeBetweenItems(kNow + 16 * kMicrosecond, false);  // nothing is left to do
  EXPECT_TRUE(ring_.TakeConsumerCall());
  EXPECT_EQ(ring_.EndWait(kNow + 20 * kMicrosecond), 20 * kMicrosecond);
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(ring_.front_is_ready());
    Deliver();
    ring_.WakeBetweenItems(kNow + 21 * kMicrosecond, false);
    EXPECT_FALSE(ring_.consumer_to_call());
  }
}

TEST_F(RingTest, AConsumerThatHasWaitedLongIsCalledBetweenTwoItems) {
  ring_.BeginWait(kNow);
  OpenReady(1, true);
  ring_.WakeBetweenItems(kNow + 499 * kMicrosecond, true);
  EXPECT_FALSE(ring_.consumer_to_call());
  ring_.WakeBetweenItems(kNow + 500 * kMicrosecond, true);
  EXPECT_TRUE(ring_.TakeConsumerCall());
  ring_.WakeBetweenItems(kNow + 501 * kMicrosecond, true);  // once
  EXPECT_FALSE(ring_.consumer_to_call());
}

TEST_F(RingTest, WhereItemsAreLongAWaitingConsumerIsCalledAtOnce) {
  ring_.BeginWait(kNow);
  OpenReady(1, false);
  EXPECT_TRUE(ring_.consumer_to_call());
  EXPECT_FALSE(ring_.wake_is_due());
}

TEST_F(RingTest, ABatchBehindTheFrontCallsNobody) {
  ring_.BeginWait(kNow);
  Open();
  OpenReady(3, false);
  EXPECT_FALSE(ring_.consumer_to_call());
}

TEST_F(RingTest, WorkersOfShortItemsAreWantedOnceHalfOfTheRingIsGone) {
  OpenReady(16, true);
  for (int ready = 15; ready > 8; --ready) {
    Deliver();
    EXPECT_FALSE(ring_.RefillIsDue()) << ready;
  }
  Deliver();
  EXPECT_TRUE(ring_.RefillIsDue());
}

TEST_F(RingTest, WorkersOfLongItemsAreWantedForEachBatch) {
  OpenReady(16, false);
  Deliver();
  EXPECT_TRUE(ring_.RefillIsDue());
}

}  // namespace
}  // namespace millrace::pipeline
