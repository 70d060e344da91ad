#include "tests/pipeline/device/device_feed_fixture.h"

// The figures of a feed's copies.

namespace millrace::pipeline {
namespace {

// A row of FakePipeline has 16 int32 and a byte.
constexpr int64_t kRowBytes = 16 * 4 + 1;

TEST(DeviceFeedCopiesTest, BatchesAndBytesAreThoseWhoseCopiesWereIssued) {
  Rig rig({4, 8, 2, 4}, {.ring = 1}, /*automatic=*/true);
  EXPECT_EQ(rig.feed->copies().batches, 0);
  rig.Next();  // and the next one ahead
  const CopyProfile copies = rig.feed->copies();
  EXPECT_EQ(copies.batches, 2);
  EXPECT_EQ(copies.bytes, (4 + 8) * kRowBytes);
  EXPECT_GT(copies.issue_ns, 0);
  EXPECT_EQ(copies.wait_ns, 0);
}

TEST(DeviceFeedCopiesTest, EmptyTensorsAreNoBytes) {
  Rig rig({0}, {}, /*automatic=*/true);
  rig.Next();
  EXPECT_EQ(rig.feed->copies().batches, 1);
  EXPECT_EQ(rig.feed->copies().bytes, 0);
}

TEST(DeviceFeedCopiesTest, WaitsForCopiesAreCounted) {
  Rig rig({4, 4}, {.ring = 2});
  rig.pipeline->max_host_slabs = 1;
  rig.device->progress_on_query = true;
  rig.Next();
  EXPECT_EQ(rig.feed->copies().wait_ns, 0);
  rig.Next();  // its host memory comes from the first copy
  EXPECT_GT(rig.feed->copies().wait_ns, 0);
}

TEST(DeviceFeedCopiesTest, AFeedThatIsMovedCountsAnew) {
  Rig rig({4, 4, 4}, {.ring = 1}, /*automatic=*/true);
  rig.Next();
  ASSERT_TRUE(rig.feed->Seek(2).ok());
  EXPECT_EQ(rig.feed->copies().batches, 0);
  EXPECT_EQ(rig.feed->copies().issue_ns, 0);
  rig.Next();
  EXPECT_EQ(rig.feed->copies().batches, 1);
}

TEST(DeviceFeedCopiesTest, ABatchWhoseCopyCannotBeIssuedIsNotCounted) {
  Rig rig({4, 4}, {.ring = 1}, /*automatic=*/true);
  rig.device->FailCall("Copy", 0, absl::InternalError("injected"));
  EXPECT_FALSE(rig.NextStatus().ok());
  EXPECT_EQ(rig.feed->copies().batches, 0);
}

}  // namespace
}  // namespace millrace::pipeline
