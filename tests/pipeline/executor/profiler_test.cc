#include "pipeline/executor/profiler.h"

#include <gtest/gtest.h>

#include "tests/pipeline/executor/fake_ops.h"
#include "tests/pipeline/executor/fake_source.h"

namespace millrace::pipeline {
namespace {

int64_t Ns(const PipelineProfile& profile, WaitCause cause) {
  return profile.wait_ns[static_cast<size_t>(cause)];
}

TEST(LevelTimeTest, AddsUpTheLevelOverTime) {
  LevelTime level;
  level.Begin(100, 2);
  level.Set(110, 5);
  level.Set(110, 0);
  level.Set(150, 1);
  EXPECT_EQ(level.Sum(157), 2 * 10 + 0 * 40 + 1 * 7);
  level.Begin(200, 3);
  EXPECT_EQ(level.Sum(201), 3);
}

TEST(LevelTimeTest, TimesThatComeLateCountAsTheLastOne) {
  LevelTime level;
  level.Begin(100, 1);
  level.Set(120, 3);
  level.Set(110, 2);
  EXPECT_EQ(level.Sum(105), 20);
  EXPECT_EQ(level.Sum(121), 20 + 2);
}

TEST(WaitWatchTest, TimesThatComeLateCountAsTheLastOne) {
  WaitWatch watch;
  watch.Begin(10, WaitCause::kReading);
  watch.Note(5, WaitCause::kWork);
  watch.Note(30, WaitCause::kHandOff);
  watch.End(20);
  PipelineProfile profile;
  watch.Fill(15, profile);
  EXPECT_EQ(Ns(profile, WaitCause::kReading), 0);
  EXPECT_EQ(Ns(profile, WaitCause::kWork), 20);
  EXPECT_EQ(profile.wait_total_ns(), 20);
  EXPECT_EQ(profile.waits_ns.max(), 20u);
}

TEST(WaitWatchTest, CausesAddUpToTheWaits) {
  WaitWatch watch;
  watch.Begin(10, WaitCause::kReading);
  watch.Note(25, WaitCause::kWork);
  watch.Note(27, WaitCause::kHandOff);
  watch.End(30);
  watch.Begin(100, WaitCause::kWork);
  PipelineProfile profile;
  watch.Fill(140, profile);
  EXPECT_EQ(Ns(profile, WaitCause::kReading), 15);
  EXPECT_EQ(Ns(profile, WaitCause::kWork), 2 + 40);  // the wait under way counts
  EXPECT_EQ(Ns(profile, WaitCause::kHandOff), 3);
  EXPECT_EQ(profile.wait_total_ns(), 20 + 40);
  EXPECT_EQ(profile.waits, 1);
  EXPECT_EQ(profile.waits_ns.max(), 20u);
}

// Reads of records of shard 0 and 1 of a fake source.
class ReadTimesTest : public testing::Test {
 protected:
  ReadTimesTest() { reads_.Clear(0); }
  void Read(int64_t begin_ns, int64_t end_ns, uint64_t record) {
    RunRecords records;
    records.rows = 1;
    records.refs = {source_.Locate(record)};
    records.starts = {0, 50};
    records.spans = {{0, 1}};
    records.submitted_ns = begin_ns;
    reads_.Begin(begin_ns);
    reads_.End(end_ns, records);
  }
  ReadProfile Profile(int64_t now_ns) {
    ReadProfile profile;
    reads_.Fill(now_ns, profile);
    FillFiles(reads_.files(), source_.files(), profile);
    return profile;
  }

  FakeSource source_{MakeFakeData(14)};  // 7 records a shard
  ReadTimes reads_{2};
};

TEST_F(ReadTimesTest, CountsGroupsAndTheirFiles) {
  Read(10, 30, 0);
  Read(40, 50, 1);
  Read(60, 160, 7);
  const ReadProfile profile = Profile(200);
  EXPECT_EQ(profile.groups, 3);
  EXPECT_EQ(profile.requests, 3);
  EXPECT_EQ(profile.bytes, 150);
  EXPECT_EQ(profile.ns, 20 + 10 + 100);
  EXPECT_EQ(profile.any_ns, 130);
  EXPECT_EQ(profile.in_flight, 0);
  EXPECT_EQ(profile.files, 2);
  ASSERT_EQ(profile.slowest.size(), 2u);
  EXPECT_EQ(profile.slowest[0].file, "shard-1");
  EXPECT_EQ(profile.slowest[0].max_ns, 100);
  EXPECT_EQ(profile.slowest[1].reads, 2);
  EXPECT_EQ(profile.median_file_ns, 15);
}

TEST_F(ReadTimesTest, GroupsUnderWayCountUntilNow) {
  reads_.Begin(10);
  reads_.Begin(20);
  const ReadProfile profile = Profile(50);
  EXPECT_EQ(profile.in_flight, 2);
  EXPECT_EQ(profile.any_ns, 40);
  EXPECT_TRUE(profile.slowest.empty());
}

TEST_F(ReadTimesTest, TheBestWindowIsThatWithTheMostBytes) {
  for (int64_t i = 0; i < 5; ++i) Read(i, i + 1, 0);
  Read(150'000'000, 150'000'001, 0);
  EXPECT_EQ(Profile(200'000'000).best_window_bytes, 250);
}

TEST(ProfilerTest, OpsShareTheTimeOfAllWork) {
  const PhysicalPlan plan = MakePlan(4);
  const FakeSource source(MakeFakeData(14));
  Profiler profiler(plan, source, 2);
  profiler.Begin(1000);
  RunArena arena;
  millrace::Run run(arena, 1, 0, std::vector<SampleId>{{0, 9, 0}, {0, 3, 0}});
  RunSample sample;
  sample.Request(plan.ops.size() + 2, /*weighs=*/true);
  sample.Begin(run);
  run.Add("record", DType::kBytes).Set(0, "abc", {3});
  sample.End(0, run);
  int64_t number = 5;
  run.Take("record");
  run.Add("hash", DType::kI64).SetAll(&number, 0, {1});
  sample.End(1, run);
  sample.End(2, run);
  sample.End(3, run);
  sample.Finish(16);
  ASSERT_TRUE(sample.full());
  profiler.EndWork({.rows = 8, .ns = 1'000'000, .clocked_ns = 1'000'000, .clocked_cpu_ns = 900'000},
                   sample);
  EXPECT_FALSE(sample.full());
  profiler.EndWork({.rows = 8, .ns = 3'000'000}, sample);

  PipelineProfile profile;
  profiler.Fill(2000, profile);
  EXPECT_EQ(profile.elapsed_ns, 1000);
  EXPECT_EQ(profile.worked_rows, 16);
  EXPECT_EQ(profile.work_ns, 4'000'000);
  EXPECT_EQ(profile.clocked_cpu_ns, 900'000);
  EXPECT_EQ(profile.goal_ns, 2 * 1000);
  ASSERT_EQ(profile.ops.size(), 4u);
  EXPECT_EQ(profile.ops[0].stage, "source");
  EXPECT_EQ(profile.ops[1].stage, "hash");
  EXPECT_EQ(profile.ops[3].stage, "batch");
  int64_t busy_ns = 0;
  for (const OpProfile& op : profile.ops) busy_ns += op.busy_ns;
  EXPECT_LE(busy_ns, profile.work_ns);
  EXPECT_GT(busy_ns, profile.work_ns - 4);  // each is rounded down
  EXPECT_EQ(profile.ops[0].sampled_rows, 2);
  EXPECT_EQ(profile.ops[0].bytes_out, 3);
  EXPECT_EQ(profile.ops[1].bytes_in, 3);
  EXPECT_EQ(profile.ops[1].bytes_out, 16);
  EXPECT_EQ(profile.ops[2].bytes_out, 0);  // it changed nothing
  EXPECT_EQ(profile.ops[3].bytes_out, 16);
}

TEST(ProfileTest, TheDifferenceIsOfTheTimeBetween) {
  PipelineProfile earlier;
  earlier.now_ns = 100;
  earlier.elapsed_ns = 50;
  earlier.batches = 3;
  earlier.wait_ns[1] = 7;
  earlier.ops.resize(2);
  earlier.work_ns = 1000;
  earlier.ops[0].sampled_ns = 50;
  earlier.ops[1].sampled_ns = 50;
  earlier.ops[1].row_ns.Add(5);
  earlier.reads.bytes = 1000;
  earlier.hand_over = {2, 30};
  earlier.copies = {1, 20, 3, 40};
  PipelineProfile later = earlier;
  later.now_ns = 160;
  later.elapsed_ns = 110;
  later.batches = 10;
  later.wait_ns[1] = 9;
  later.wait_ns[2] = 4;
  later.work_ns = 1100;
  later.ops[0].sampled_ns = 80;
  later.ops[1].sampled_ns = 120;
  later.ops[1].row_ns.Add(80);
  later.reads.bytes = 1500;
  later.memory.held_bytes = 12;
  later.hand_over = {5, 90};
  later.copies = {3, 50, 7, 90};
  const PipelineProfile between = Between(earlier, later);
  EXPECT_EQ(between.now_ns, 160);
  EXPECT_EQ(between.elapsed_ns, 60);
  EXPECT_EQ(between.batches, 7);
  EXPECT_EQ(between.wait_total_ns(), 6);
  // Split as the samples of this time say: 30 and 70.
  EXPECT_EQ(between.ops[0].busy_ns, 30);
  EXPECT_EQ(between.ops[1].busy_ns, 70);
  EXPECT_EQ(between.ops[1].row_ns.count(), 1u);
  EXPECT_EQ(between.reads.bytes, 500);
  EXPECT_EQ(between.memory.held_bytes, 12);
  EXPECT_EQ(between.hand_over.calls, 3);
  EXPECT_EQ(between.hand_over.ns, 60);
  EXPECT_EQ(between.copies.batches, 2);
  EXPECT_EQ(between.copies.bytes, 30);
  EXPECT_EQ(between.copies.issue_ns, 4);
  EXPECT_EQ(between.copies.wait_ns, 50);
}

TEST(ProfileTest, TheDifferenceToAStreamThatWasMovedIsThatOfTheNewOne) {
  PipelineProfile earlier;
  earlier.now_ns = 100;
  earlier.elapsed_ns = 50;
  earlier.batches = 30;
  PipelineProfile later;
  later.now_ns = 160;
  later.elapsed_ns = 40;
  later.batches = 4;
  EXPECT_EQ(Between(earlier, later).batches, 4);
  EXPECT_EQ(Between(earlier, later).elapsed_ns, 40);
}

TEST(ReadFilesTest, TheSlowestSixteenAreNamedAndTheMedianIsOfAll) {
  std::vector<FileTimes> files(100);
  std::vector<std::string> names;
  for (size_t i = 0; i < files.size(); ++i) {
    names.push_back(absl::StrCat("file-", i));
    if (i % 2 == 0) files[i] = {2, static_cast<int64_t>(2 * i), 0};  // mean time: i
  }
  ReadProfile profile;
  FillFiles(files, names, profile);
  EXPECT_EQ(profile.files, 50);
  EXPECT_EQ(profile.median_file_ns, 48);
  ASSERT_EQ(profile.slowest.size(), 16u);
  EXPECT_EQ(profile.slowest.front().file, "file-98");
  EXPECT_EQ(profile.slowest.back().file, "file-68");
}

TEST(ProfileTest, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kNumWaitCauses; ++i) names.insert(WaitCauseName(WaitCause(i)));
  EXPECT_EQ(names.size(), kNumWaitCauses);
  names.clear();
  for (size_t i = 0; i < kNumItemKinds; ++i) names.insert(ItemKindName(ItemKind(i)));
  EXPECT_EQ(names.size(), kNumItemKinds);
}

}  // namespace
}  // namespace millrace::pipeline
