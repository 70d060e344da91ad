// The rules of happens-before and the search for races against a device that runs logs in every
// order it can (schedules.h).

#include "tests/trainer/backend/cuda/order/schedules.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/trainer/backend/cuda/order/check.h"
#include "tests/trainer/backend/cuda/order/recording.h"

namespace millrace::trainer::cuda::order {
namespace {

constexpr uint32_t kNumLogs = 200;
constexpr size_t kNumEntries = 7;

// Work, records and waits at random, on two streams and the host, over four pieces of memory.
Log RandomLog(uint32_t seed) {
  std::minstd_rand random(seed + 1);
  const auto pick = [&](size_t count) { return static_cast<int>((random() >> 4) % count); };
  Recording recording;
  recording.MakeStream("a");
  recording.MakeStream("b");
  std::byte* const memory = recording.Allocate(4, "of the device");
  recording.Work(kHost, "zeros", {.writes = {{memory, 4}}});
  recording.MakeEvent();
  recording.MakeEvent();
  for (size_t i = 0; i < kNumEntries; ++i) {
    const int kind = pick(4);
    if (kind == 0) recording.Record(pick(2), 1 + pick(2));
    if (kind == 1) recording.Wait(pick(3), pick(2));
    if (kind < 2) continue;
    Uses uses;
    if (pick(2) == 0) uses.reads.push_back({memory + pick(3), 2});
    if (pick(2) == 0) uses.writes.push_back({memory + pick(4), 1});
    recording.Work(pick(3), absl::StrCat("work ", i), uses);
  }
  return recording.log();
}

// True if `a` is done before `b` in every run.
bool IsAlwaysBefore(const std::vector<LogRun>& runs, size_t a, size_t b) {
  return std::ranges::all_of(runs, [&](const LogRun& run) {
    return std::ranges::find(run.order, a) < std::ranges::find(run.order, b);
  });
}

// A log with all its runs.
struct Sample {
  Log log;
  std::vector<LogRun> runs;
};

const std::vector<Sample>& Samples() {
  static const auto* const kSamples = [] {
    auto* const samples = new std::vector<Sample>;
    for (uint32_t seed = 0; seed < kNumLogs; ++seed) {
      const Log log = RandomLog(seed);
      samples->push_back({log, AllRuns(log)});
    }
    return samples;
  }();
  return *kSamples;
}

bool IsWork(const Log& log, size_t place) { return log.entries[place].kind == Entry::Kind::kWork; }

TEST(SchedulesTest, HappensBeforeIsWhatNoOrderOfTheDeviceBreaks) {
  size_t unordered = 0;
  for (const auto& [log, runs] : Samples()) {
    const HappensBefore before(log);
    for (size_t b = 0; b < log.entries.size(); ++b) {
      for (size_t a = 0; a < b; ++a) {
        if (!IsWork(log, a) || !IsWork(log, b)) continue;
        EXPECT_EQ(before(a, b), IsAlwaysBefore(runs, a, b)) << a << ", " << b;
        unordered += before(a, b) ? 0 : 1;
      }
    }
  }
  EXPECT_GT(unordered, 100u);
}

bool HaveEqualValues(const std::vector<LogRun>& runs) {
  return std::ranges::all_of(runs, [&](const LogRun& run) { return run.values == runs[0].values; });
}

TEST(SchedulesTest, ALogWithoutARaceHasOneOutcome) {
  size_t clean = 0, different = 0;
  for (const auto& [log, runs] : Samples()) {
    const bool is_clean = CheckOrder(log).empty();
    const bool is_equal = HaveEqualValues(runs);
    EXPECT_TRUE(is_equal || !is_clean);
    clean += is_clean ? 1 : 0;
    different += is_equal ? 0 : 1;
  }
  EXPECT_GT(clean, 30u);
  EXPECT_GT(different, 15u);
}

TEST(SchedulesTest, TheEntriesOfARaceAreDoneInEitherOrder) {
  for (const auto& [log, runs] : Samples()) {
    for (const Finding& finding : CheckOrder(log)) {
      EXPECT_EQ(finding.fault, Fault::kRace) << finding;
      const auto a = static_cast<size_t>(finding.first);
      const auto b = static_cast<size_t>(finding.second);
      EXPECT_FALSE(IsAlwaysBefore(runs, a, b)) << finding;
    }
  }
}

// The few runs that large logs are tried with find most of what all runs do.
TEST(SchedulesTest, ExtremeRunsFindDifferences) {
  size_t different = 0, found = 0;
  for (const auto& [log, runs] : Samples()) {
    if (HaveEqualValues(runs)) continue;
    ++different;
    found += HaveEqualValues(ExtremeRuns(log, 10)) ? 0 : 1;
  }
  EXPECT_GE(found * 10, different * 9);
}

}  // namespace
}  // namespace millrace::trainer::cuda::order
