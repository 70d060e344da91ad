// What a training shows outside of its process.

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "tests/trainer/loop/train_fixture.h"
#include "tests/trainer/telemetry/events_of.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The steps that have a value of `tag`.
std::vector<int64_t> StepsOf(const std::string& path, const std::string& tag) {
  std::vector<int64_t> steps;
  for (const events::Event& event : EventsOf(path)) {
    for (const events::Value& value : event.summary().value()) {
      if (value.tag() == tag) steps.push_back(event.step());
    }
  }
  return steps;
}

TEST_F(TrainTest, EventsGoOnInANewFileAfterAResume) {
  const std::string events = folder_ / "events";
  adjust_ = [&](TrainOptions& options, const collectives::Communicator&) {
    options.tensorboard_folder = events;
  };
  ASSERT_TRUE(Run(2, /*resume=*/false, /*stop_after=*/4).ok());
  const std::vector<std::string> before = EventFilesIn(events);
  ASSERT_EQ(before.size(), 1u) << "rank 0 alone writes";
  EXPECT_THAT(StepsOf(before[0], "train/loss"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(StepsOf(before[0], "evaluation/accuracy"), IsEmpty());
  ASSERT_TRUE(Run(2, /*resume=*/true).ok());
  const std::vector<std::string> after = EventFilesIn(events);
  ASSERT_EQ(after.size(), 2u);
  const std::string added = after[0] == before[0] ? after[1] : after[0];
  EXPECT_THAT(StepsOf(added, "train/loss"), ElementsAre(5, 6, 7, 8, 9, 10));
  EXPECT_THAT(StepsOf(added, "train/images_per_second"), ElementsAre(5, 6, 7, 8, 9, 10));
  EXPECT_THAT(StepsOf(added, "evaluation/accuracy"), ElementsAre(5, 10));
  EXPECT_EQ(EventsOf(added)[1].step(), 5) << "older values of later steps do not count";
}

TEST_F(TrainTest, AFolderOfEventsThatCannotBeMadeEndsAllRanks) {
  Write(folder_ / "file", "x");
  adjust_ = [&](TrainOptions& options, const collectives::Communicator&) {
    options.tensorboard_folder = folder_ / "file" / "events";
  };
  EXPECT_FALSE(Run(2).ok());
  EXPECT_EQ(statuses_[0].code(), statuses_[1].code());
  EXPECT_EQ(reported_.size(), 1u);
}

TEST_F(TrainTest, RanksOfOneRegistryAddUp) {
  const auto metrics = std::make_shared<Metrics>();
  adjust_ = [&](TrainOptions& options, const collectives::Communicator&) {
    options.metrics = metrics;
  };
  ASSERT_TRUE(Run(2).ok());
  const std::map<std::string, double> values = metrics->Snapshot();
  EXPECT_EQ(values.at("millrace_train_steps_total"), 2 * kSteps);
  EXPECT_EQ(values.at("millrace_train_step_seconds_count"), 2 * kSteps);
  EXPECT_EQ(values.at("millrace_train_samples_total"), 2 * kTrainSamples);
  EXPECT_EQ(values.at("millrace_train_step"), kSteps);
  EXPECT_EQ(values.at("millrace_train_epoch"), 2);
  EXPECT_GT(values.at("millrace_batches_total"), 0);
}

}  // namespace
}  // namespace millrace::trainer
