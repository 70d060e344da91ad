#include "collectives/timeline.h"

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/chrome_trace.h"
#include "base/status.h"
#include "collectives/agreed.h"
#include "collectives/factory.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/temp_folder.h"

namespace millrace::collectives {
namespace {

Timeline::Entry At(int64_t step) {
  Timeline::Entry entry;
  entry.step = step;
  entry.begin_ns = step * 1000;
  entry.end_ns = step * 1000 + 500;
  return entry;
}

nlohmann::json Read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return nlohmann::json::parse(text.str());
}

TEST(TimelineTest, KeepsTheNewestInOrderAndCountsTheOthers) {
  Timeline timeline(3);
  for (int64_t step = 0; step < 5; ++step) timeline.Add(At(step));
  const auto entries = timeline.entries();
  ASSERT_EQ(entries.size(), 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(entries[i].step, 2 + i);
  EXPECT_EQ(timeline.num_dropped(), 2);
}

TEST(TimelineTest, AStoppedOneKeepsWhatItHas) {
  Timeline timeline;
  timeline.Add(At(1));
  timeline.Stop();
  timeline.Add(At(2));
  ASSERT_EQ(timeline.entries().size(), 1);
  ChromeEvents events;
  AddTimeline(3, timeline, /*offset=*/2000, events);
  const auto shown = nlohmann::json::parse("[0" + events.text() + "]");
  EXPECT_EQ(shown[1]["args"]["name"], "rank 3");
  EXPECT_EQ(shown.back()["ts"], 3.0);
  EXPECT_EQ(shown.back()["args"]["step"], 1);
}

TEST(TimelineTest, AThreadsClockIsItsPeers) {
  const absl::Status status = RunRanks(4, [](Communicator& communicator) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t offset, ClockOffset(communicator));
    // One clock for all: what is left is the half of an exchange.
    if (std::abs(offset) < 100'000'000) return absl::OkStatus();
    return absl::InternalError("the clocks of two threads differ by more than 100 ms");
  });
  EXPECT_TRUE(status.ok()) << status;
}

constexpr int64_t kSecond = 1'000'000'000;

// Clocks of hosts that were started at other times, and how far they are ahead of rank 0's.
constexpr int64_t kAhead[] = {0, 5 * kSecond, -7 * kSecond};
constexpr Timeline::Clock kClocks[] = {&Timeline::Now, [] { return Timeline::Now() + kAhead[1]; },
                                       [] { return Timeline::Now() + kAhead[2]; }};

TEST(TimelineTest, AnOffsetIsHowFarRankZeroIsAhead) {
  const absl::Status status = RunRanks(3, [](Communicator& communicator) -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t offset,
                              ClockOffset(communicator, kClocks[communicator.rank()]));
    if (std::abs(offset + kAhead[communicator.rank()]) < kSecond) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("rank ", communicator.rank(), ": ", offset));
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Five events, a second apart, each stamped by its rank's own clock.
TEST(TimelineTest, EventsOfRanksWithUnlikeClocksAreInTheirTrueOrder) {
  const TempFolder folder;
  const std::string path = folder.path() + "/trace.json";
  const int64_t start = Timeline::Now();
  const std::vector<int> ranks = {1, 0, 2, 1, 0};
  const absl::Status status = RunRanks(3, [&](Communicator& communicator) {
    Timeline timeline;
    for (int64_t i = 0; i < 5; ++i) {
      if (ranks[i] != communicator.rank()) continue;
      const int64_t stamp = start + i * kSecond + kAhead[communicator.rank()];
      timeline.Add({stamp, stamp, i, 0, -1, Line::kReducer, Event::kBucketReady});
    }
    return WriteTimeline(communicator, timeline, path, kClocks[communicator.rank()]);
  });
  ASSERT_TRUE(status.ok()) << status;
  std::map<double, std::pair<int, int>> by_time;  // the step and rank
  const nlohmann::json trace = Read(path);
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "i") by_time[event["ts"]] = {event["args"]["step"], event["pid"]};
  }
  ASSERT_EQ(by_time.size(), 5);
  int step = 0;
  for (const auto& [time, event] : by_time) {
    EXPECT_EQ(event, (std::pair<int, int>(step, ranks[step])));
    EXPECT_NEAR(time, static_cast<double>(start + step * kSecond) / 1e3, 0.4e6);  // us
    ++step;
  }
}

TEST(TimelineTest, AllRanksComeIntoOneFileOnOneClock) {
  const TempFolder folder;
  const std::string path = folder.path() + "/trace.json";
  constexpr size_t kMany = 70'000;  // more than a message holds
  const absl::Status status = RunRanks(3, [&](Communicator& communicator) {
    Timeline timeline;
    const int64_t now = Timeline::Now();
    Timeline::Entry entry;
    entry.begin_ns = now;
    entry.end_ns = now + 2'000'000;
    entry.step = 7;
    entry.bucket = communicator.rank();
    entry.peer = communicator.rank() == 1 ? 2 : -1;
    entry.line = Line::kReducer;
    entry.event = Event::kWaiting;
    timeline.Add(entry);
    const size_t more = communicator.rank() == 2 ? kMany : 1;
    for (size_t i = 0; i < more; ++i) {
      timeline.Add({now, now, 7, 0, -1, Line::kReducer, Event::kBucketReady});
    }
    return WriteTimeline(communicator, timeline, path);
  });
  ASSERT_TRUE(status.ok()) << status;
  const nlohmann::json trace = Read(path);
  std::map<int, size_t> instants;
  std::map<int, nlohmann::json> waits;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "i") ++instants[event["pid"]];
    if (event["ph"] == "X") waits[event["pid"]] = event;
  }
  EXPECT_EQ(instants, (std::map<int, size_t>{{0, 1}, {1, 1}, {2, kMany}}));
  ASSERT_EQ(waits.size(), 3);
  for (const auto& [rank, wait] : waits) {
    EXPECT_EQ(wait["name"], "waiting");
    EXPECT_DOUBLE_EQ(wait["dur"], 2000);
    EXPECT_EQ(wait["args"]["step"], 7);
    EXPECT_EQ(wait["args"]["bucket"], rank);
    EXPECT_EQ(wait["args"].contains("waits for rank"), rank == 1);
  }
}

TEST(TimelineTest, WhatCannotBeWrittenIsAnErrorOnEveryRank) {
  const TempFolder folder;
  const std::string path = folder.path() + "/none/trace.json";
  const absl::Status status = RunRanks(2, [&](Communicator& communicator) -> absl::Status {
    Timeline timeline;
    timeline.Add(At(1));
    const absl::Status written = WriteTimeline(communicator, timeline, path);
    const bool named = written.message().find(path) != absl::string_view::npos;
    if (absl::IsNotFound(written) && IsAgreed(written) && named) return absl::OkStatus();
    return absl::InternalError(written.ToString());
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace millrace::collectives
