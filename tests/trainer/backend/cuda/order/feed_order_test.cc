// The order of the feed's copies: those of DeviceFeed itself, over a device that records them, from
// memory of the host that is written again as soon as it comes back.

#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <vector>

#include "pipeline/device/handoff.h"
#include "tests/trainer/backend/cuda/order/check.h"
#include "tests/trainer/backend/cuda/order/recording_device.h"
#include "tests/trainer/backend/cuda/order/recording_feed.h"

namespace millrace::trainer::cuda::order {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

// What a program does wrong.
enum class FeedMistake { kNone, kDoesNotWaitOn, kDoesNotRecordUse, kDropsBatchEarly };

// The log of steps that read batches of an image and a label.
Log RunFeed(int ring, FeedMistake mistake, int steps = 8) {
  Recording recording;
  RecordingDevice device(recording);
  const Schema schema({{"image", DType::kU8, {224, 224, 3}}, {"label", DType::kI64, {}}});
  {
    auto handoff = pipeline::Handoff::Make(
        std::make_shared<RecordingFeedDevice>(recording),
        std::make_unique<RecordedPipeline>(recording, schema, 256), {.ring = ring});
    EXPECT_TRUE(handoff.ok()) << handoff.status();
    pipeline::DeviceFeed feed(*std::move(handoff));
    for (int step = 0; step < steps; ++step) {
      const auto batch = feed.Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      const pipeline::DeviceTensorView image = (*batch)->Find("image");
      if (mistake != FeedMistake::kDoesNotWaitOn) {
        EXPECT_TRUE((*batch)->WaitOn(device.stream()).ok());
      }
      const auto forward = [&] {
        recording.Work(Recording::ToStream(device.stream())->number, "forward",
                       {.reads = {{image.data, image.size_bytes()}}});
      };
      if (mistake != FeedMistake::kDropsBatchEarly) forward();
      if (mistake != FeedMistake::kDoesNotRecordUse) {
        EXPECT_TRUE((*batch)->RecordUse(device.stream()).ok());
      }
      if (mistake == FeedMistake::kDropsBatchEarly) forward();
    }
  }
  return recording.log();
}

auto RaceOf(const char* a, const char* b) {
  return testing::AllOf(Field(&Finding::fault, Fault::kRace),
                        Field(&Finding::text, testing::AllOf(HasSubstr(a), HasSubstr(b))));
}

TEST(FeedOrderTest, CopiesAheadRaceWithNothing) {
  for (const int ring : {1, 2, 3}) {
    EXPECT_THAT(CheckOrder(RunFeed(ring, FeedMistake::kNone)), IsEmpty()) << ring;
  }
}

TEST(FeedOrderTest, AStepThatDoesNotWaitForItsBatchIsFound) {
  EXPECT_THAT(CheckOrder(RunFeed(2, FeedMistake::kDoesNotWaitOn)),
              Contains(RaceOf("forward on compute reads", "copy of the feed on feed writes")));
}

TEST(FeedOrderTest, AUseThatIsNotRecordedIsFound) {
  EXPECT_THAT(CheckOrder(RunFeed(2, FeedMistake::kDoesNotRecordUse)),
              Contains(RaceOf("copy of the feed on feed writes", "forward on compute reads")));
}

TEST(FeedOrderTest, AUseBehindItsRecordIsFound) {
  EXPECT_THAT(CheckOrder(RunFeed(2, FeedMistake::kDropsBatchEarly)),
              Contains(RaceOf("copy of the feed on feed writes", "forward on compute reads")));
}

}  // namespace
}  // namespace millrace::trainer::cuda::order
