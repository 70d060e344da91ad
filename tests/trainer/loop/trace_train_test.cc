// The trace of a training's first seconds.

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/trainer/loop/train_fixture.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

class TraceTrainTest : public TrainTest {
 protected:
  void Trace(std::chrono::nanoseconds time) {
    adjust_ = [this, time](TrainOptions& options, const collectives::Communicator&) {
      options.trace_file = path_;
      options.trace_time = time;
    };
  }
  static nlohmann::json EventsOf(const std::string& path) {
    std::ifstream file(path);
    return nlohmann::json::parse(file)["traceEvents"];
  }
  nlohmann::json Events() const { return EventsOf(path_); }
  // The names that processes or threads are given.
  std::multiset<std::string> Named(const std::string& what) const {
    std::multiset<std::string> names;
    for (const auto& event : Events()) {
      if (event["name"] == what) names.insert(event["args"]["name"]);
    }
    return names;
  }

  const std::string path_ = folder_ / "trace.json";
};

TEST_F(TraceTrainTest, OneFileHasThePipelinesAndTheStepsOfAllRanks) {
  constexpr int kEpochs = 20;  // more batches than are made ahead
  WriteJob("checkpoints", "", absl::StrCat("epochs: ", kEpochs));
  Trace(std::chrono::hours(1));
  ASSERT_TRUE(Run(2).ok());
  EXPECT_THAT(Named("process_name"), ElementsAre("rank 0", "rank 1"));
  EXPECT_THAT(Named("thread_name"), IsSupersetOf({"compute", "compute", "consumer", "consumer",
                                                  "reducer", "reducer", "worker 0", "worker 0"}));
  std::set<std::string> names;
  std::set<int> steps;
  for (const auto& event : Events()) {
    names.insert(event["name"]);
    if (event["name"] == "backward") steps.insert(event["args"]["step"].get<int>());
  }
  EXPECT_THAT(names, IsSupersetOf({"batch", "process", "read", "reading", "reducing"}));
  EXPECT_EQ(steps.size(), static_cast<size_t>(kEpochs * kStepsPerEpoch));
}

TEST_F(TraceTrainTest, ItIsWrittenOnceItsTimeIsOverAndHoldsNoLaterStep) {
  Trace(std::chrono::nanoseconds(1));
  ASSERT_TRUE(Run(2).ok());
  for (const auto& event : Events()) {
    if (event.contains("args") && event["args"].contains("step")) {
      EXPECT_EQ(event["args"]["step"], 0) << event;
    }
  }
}

TEST_F(TraceTrainTest, TheTimelineGoesOnBehindIt) {
  const std::string timeline = folder_ / "timeline.json";
  adjust_ = [&](TrainOptions& options, const collectives::Communicator&) {
    options.trace_file = path_;
    options.trace_time = std::chrono::nanoseconds(1);
    options.timeline_file = timeline;
  };
  ASSERT_TRUE(Run(1).ok());
  int last = 0;
  for (const auto& event : EventsOf(timeline)) {
    if (event["name"] == "backward") last = std::max(last, event["args"]["step"].get<int>());
  }
  EXPECT_EQ(last, kSteps - 1);
}

TEST_F(TraceTrainTest, AFolderThatIsMissingEndsAllRanksAtOnce) {
  adjust_ = [&](TrainOptions& options, const collectives::Communicator&) {
    options.trace_file = folder_ / "missing" / "trace.json";
  };
  EXPECT_EQ(Run(2).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(steps_.empty());
}

}  // namespace
}  // namespace millrace::trainer
