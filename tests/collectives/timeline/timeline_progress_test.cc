#include "collectives/timeline_progress.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/collectives/reducer/awaited_bucket.h"
#include "tests/collectives/reducer/reducer_steps.h"
#include "tests/temp_folder.h"

namespace millrace::collectives {
namespace {

using nlohmann::json;

constexpr int kSteps = 2;

json Read(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file)["traceEvents"];
}

// Rank 1 fills each bucket when rank 0 waits for it; what all did goes to `path`.
absl::Status DrawSteps(Communicator& comm, AwaitedBucket& watch, const std::string& path) {
  Timeline timeline;
  TimelineProgress progress(comm.rank() == 0 ? &watch : nullptr, &timeline);
  ReducerOptions options = SmallBuckets();
  options.policy = ProgressPolicy::kInline;
  options.skip_non_finite = true;  // whoever wants the norm sums all its shares itself
  options.progress = &progress;
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                            GradientReducer::Make(comm, SomeGradients(), options));
  for (int step = 0; step < kSteps; ++step) {
    progress.Enter(step, -1, Phase::kBackward);
    if (comm.rank() == 0) {
      MILLRACE_RETURN_IF_ERROR(MarkAll(*reducer, SomeGradients().size()));
    } else {
      MILLRACE_RETURN_IF_ERROR(watch.MarkLate(*reducer, SomeGradients().size(), step));
    }
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    for (size_t bucket = 0; bucket < reducer->num_buckets(); ++bucket) {
      progress.Enter(step, static_cast<int>(bucket), Phase::kUpdating);
    }
  }
  progress.Enter(-1, -1, Phase::kEnded);
  return WriteTimeline(comm, timeline, path);
}

// When the events of one rank, step and bucket begin and end, by name; the first of each.
struct Times {
  double begin = 0;
  double end = 0;
};
std::map<std::string, Times> TimesOf(const json& events, int rank, int step, int bucket) {
  std::map<std::string, Times> times;
  for (const json& event : events) {
    if (event["pid"] != rank || event["ph"] == "M") continue;
    const json& where = event["args"];
    if (where["step"] != step || where.value("bucket", -1) != bucket) continue;
    std::string name = event["name"];
    if (where.contains("waits for rank")) {
      absl::StrAppend(&name, " for rank ", where["waits for rank"].get<int>());
    }
    const double begin = event["ts"];
    times.emplace(name, Times{begin, begin + event.value("dur", 0.0)});
  }
  return times;
}

void ExpectInOrder(const std::map<std::string, Times>& times,
                   const std::vector<std::string>& names) {
  const Times* before = nullptr;
  for (const std::string& name : names) {
    const auto found = times.find(name);
    ASSERT_TRUE(found != times.end()) << name;
    const Times& now = found->second;
    const double earliest = before == nullptr ? 0 : before->end - 0.002;  // rounded to 0.001
    EXPECT_GE(now.begin, earliest) << name;
    before = &now;
  }
}

TEST(TimelineProgress, EachBucketIsFilledReadyWaitedForReducedAndUsedInThisOrder) {
  const TempFolder folder;
  const std::string path = folder.path() + "/trace.json";
  AwaitedBucket watch(1);
  const absl::Status status =
      RunRanks(2, [&](Communicator& comm) { return DrawSteps(comm, watch, path); });
  ASSERT_TRUE(status.ok()) << status;
  const json events = Read(path);
  int num_buckets = 0;
  for (const json& event : events) {
    if (event["ph"] == "M") continue;
    num_buckets = std::max(num_buckets, event["args"].value("bucket", -1) + 1);
  }
  ASSERT_GT(num_buckets, 1);
  for (int step = 0; step < kSteps; ++step) {
    for (int bucket = 0; bucket < num_buckets; ++bucket) {
      SCOPED_TRACE(absl::StrCat("step ", step, ", bucket ", bucket));
      ExpectInOrder(TimesOf(events, 0, step, bucket),
                    {"backward", "bucket ready", "waiting for rank 1", "reducing", "bucket used"});
      ExpectInOrder(TimesOf(events, 1, step, bucket),
                    {"backward", "bucket ready", "reducing", "bucket used"});
    }
    // What the step waited for, between its last bucket and their use.
    const auto whole = TimesOf(events, 0, step, -1);
    ASSERT_TRUE(whole.contains("waiting"));
    EXPECT_GE(whole.at("waiting").begin,
              TimesOf(events, 0, step, num_buckets - 1).at("bucket ready").begin);
  }
}

TEST(TimelineProgress, WhatIsOpenAtTheEndIsDrawnUntilThen) {
  Timeline timeline;
  TimelineProgress progress(nullptr, &timeline);
  progress.Enter(4, -1, Phase::kBackward);
  progress.Enter(4, 2, Phase::kWaiting);
  progress.Awaits(4, 2, 3);
  progress.Awaits(4, 2, 5);
  progress.Enter(-1, -1, Phase::kEnded);
  const auto entries = timeline.entries();
  ASSERT_EQ(entries.size(), 3);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(entries[i].event, Event::kWaiting);
    EXPECT_EQ(entries[i].bucket, 2);
    EXPECT_EQ(entries[i].peer, 3 + 2 * i);
    EXPECT_EQ(entries[i].line, Line::kReducer);
  }
  EXPECT_EQ(entries[2].event, Event::kBackward);
  for (const auto& entry : entries) EXPECT_EQ(entry.step, 4);
}

TEST(TimelineProgress, WhatIsInNoStepIsNotDrawn) {
  Timeline timeline;
  TimelineProgress progress(nullptr, &timeline);
  for (const Phase phase : {Phase::kWaiting, Phase::kStart}) progress.Enter(-1, -1, phase);
  progress.Enter(0, -1, Phase::kReading);
  progress.Enter(-1, -1, Phase::kUpdating);
  progress.Enter(-1, -1, Phase::kEnded);
  const auto entries = timeline.entries();
  ASSERT_EQ(entries.size(), 1);
  EXPECT_EQ(entries[0].event, Event::kReading);
}

TEST(TimelineProgress, AWaitThatIsEnteredAgainIsOne) {
  Timeline timeline;
  TimelineProgress progress(nullptr, &timeline);
  progress.Enter(4, -1, Phase::kBackward);
  for (int bucket = 2; bucket < 4; ++bucket) {
    for (int asked = 0; asked < 5; ++asked) progress.Enter(4, bucket, Phase::kWaiting);
  }
  progress.Enter(4, 3, Phase::kReducing);
  const auto entries = timeline.entries();
  ASSERT_EQ(entries.size(), 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(entries[i].event, Event::kWaiting);
    EXPECT_EQ(entries[i].bucket, 2 + i);
  }
}

TEST(TimelineProgress, AnExchangeIsCutWhereAnotherRankIsAwaited) {
  Timeline timeline;
  TimelineProgress progress(nullptr, &timeline);
  progress.Enter(4, -1, Phase::kBackward);
  progress.Enter(4, 2, Phase::kExchanging);
  progress.Awaits(4, 2, 3);
  progress.Awaits(4, 2, 5);
  progress.Enter(4, 2, Phase::kReducing);
  const auto entries = timeline.entries();
  ASSERT_EQ(entries.size(), 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(entries[i].event, Event::kExchanging);
    EXPECT_EQ(entries[i].bucket, 2);
    EXPECT_EQ(entries[i].peer, 3 + 2 * i);
  }
}

}  // namespace
}  // namespace millrace::collectives
