#include "cli/top/render.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/top/difference.h"

namespace millrace::cli {
namespace {

using pipeline::WaitCause;

constexpr char kVerdict[] =
    "HIGHLY input-bound (waits 21.8 %): bound by CPU in decode_image (94 % of pipeline time; all 2 "
    "cores are the pipeline's). One more core would give about 3,500 img/s (+25 %).";
constexpr int64_t kSecond = 1'000'000'000;

void SetWait(pipeline::PipelineProfile& profile, WaitCause cause, int64_t ns) {
  profile.wait_ns[static_cast<size_t>(cause)] = ns;
}

pipeline::OpProfile Op(const std::string& summary, int64_t busy_ns) {
  pipeline::OpProfile op;
  op.stage = "stage";
  op.summary = summary;
  op.busy_ns = op.sampled_ns = busy_ns;
  return op;
}

// The first `seconds` of a run that is bound by the processor, with an accelerator.
Snapshot RunOf(int64_t seconds) {
  Snapshot snapshot;
  snapshot.pid = 4711;
  snapshot.command = "run";
  snapshot.name = "imagenet_train";
  snapshot.elapsed_seconds = static_cast<double>(seconds) + 0.4;
  snapshot.asked_samples_per_second = 3572;
  RankSnapshot rank;
  pipeline::PipelineProfile& profile = rank.profile;
  profile.now_ns = profile.elapsed_ns = seconds * kSecond;
  profile.rows = 2792 * seconds;
  profile.batches = 43 * seconds;
  profile.workers = 2;
  profile.worker_goal = 2;
  profile.goal_ns = 2 * seconds * kSecond;
  profile.busy_ns = 1960 * seconds * kSecond / 1000;
  profile.ops = {
      Op("tfrecord", 40'000'000 * seconds), Op("parse_example", 30'000'000 * seconds),
      Op("decode_image+random_resized_crop+flip+normalize: image -> image", 1850'000'000 * seconds),
      Op("batch", 3'000'000 * seconds)};
  for (const pipeline::OpProfile& op : profile.ops) profile.work_ns += op.busy_ns;
  SetWait(profile, WaitCause::kWork, 209'000'000 * seconds);
  SetWait(profile, WaitCause::kReading, 6'000'000 * seconds);
  SetWait(profile, WaitCause::kRing, 3'000'000 * seconds);
  profile.ring = 8;
  profile.ring_goal = 2;
  profile.ready_ns = 200'000'000 * seconds;
  profile.reads.groups = 210 * seconds;
  profile.reads.bytes = 329'000'000 * seconds;
  profile.reads.in_flight = 11;
  profile.reads.group_ns.Add(4'000'000, 100);
  profile.memory = {int64_t{2} << 30,  int64_t{215} << 20, int64_t{307} << 20,
                    int64_t{10} << 20, int64_t{41} << 20,  int64_t{37} << 20};
  snapshot.ranks.push_back(rank);
  return snapshot;
}

Snapshot TrainOf(int64_t seconds) {
  Snapshot snapshot = RunOf(seconds);
  snapshot.command = "train";
  snapshot.asked_samples_per_second = 0;
  StepFigures steps;
  steps.step = 41204;
  steps.total_steps = 120'000;
  steps.epoch = 3.41;
  steps.loss = 2.0125;
  steps.steps = 11 * seconds;
  steps.samples = 2816 * seconds;
  steps.step_seconds = static_cast<double>(seconds) * 0.99;
  steps.wait_seconds = static_cast<double>(seconds) * 0.218;
  snapshot.ranks[0].steps = steps;
  return snapshot;
}

std::string Screen(const Shown& shown, int width = 80) {
  std::string text = "\n";
  for (const std::string& line : RenderScreen(shown, width)) {
    EXPECT_LE(line.size(), static_cast<size_t>(width)) << line;
    EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; })) << line;
    text += line + "\n";
  }
  return text;
}

TEST(RenderScreen, ARunFitsInEightyColumns) {
  const Snapshot earlier = RunOf(750);
  const Snapshot now = RunOf(751);
  const std::vector<double> rates = {0, 900, 1500, 2000, 2400, 2700, 2792, 2792, 2792};
  EXPECT_EQ(Screen({&earlier, &now, rates, kVerdict}), R"(
run 4711 imagenet_train                                 32,293 batches  00:12:31
samples/s  2,792 of 3,572  _-=++####  AU 0.78  waits 21.8 %
verdict    HIGHLY input-bound (waits 21.8 %): bound by CPU in decode_image (94 %
           of pipeline time; all 2 cores are the pipeline's). One more core
           would give about 3,500 img/s (+25 %).
waits      work 20.9  reading 0.6  ring 0.3 %
cores      decode_image+random_resized_cr..  1.85 ############################
           tfrecord                          0.04 #
           parse_example                     0.03
           other                             0.04 #
workers    1.96 of 2.0 busy, at most 2   ring 0.2 of 2 ready, at most 8
reads      329 MB/s  210 a second  p99 4.0 ms  11 in flight   damaged 0
memory     215.0 MiB of 2.0 GiB  peak 307.0 MiB  held 41.0 MiB  fixed 10.0 MiB
)");
}

TEST(RenderScreen, ATrainingShowsItsStepsAndItsRanks) {
  const Snapshot earlier = TrainOf(750);
  Snapshot now = TrainOf(751);
  now.world = 4;
  now.ranks.push_back(now.ranks[0]);
  now.ranks[1].rank = 3;
  SetWait(now.ranks[1].profile, WaitCause::kWork, 0);
  EXPECT_EQ(Screen({&earlier, &now, {}, "NOT input-bound."}), R"(
train 4711 imagenet_train           epoch 3.41  step 41,204 of 120,000  00:12:31
samples/s  2,816  AU 0.78  waits 21.8 %
verdict    NOT input-bound.
waits      work 20.9  reading 0.6  ring 0.3 %
cores      decode_image+random_resized_cr..  1.85 ############################
           tfrecord                          0.04 #
           parse_example                     0.03
           other                             0.04 #
workers    1.96 of 2.0 busy, at most 2   ring 0.2 of 2 ready, at most 8
reads      329 MB/s  210 a second  p99 4.0 ms  11 in flight   damaged 0
memory     215.0 MiB of 2.0 GiB  peak 307.0 MiB  held 41.0 MiB  fixed 10.0 MiB
training   loss 2.0125  step 90.0 ms  of it data wait 22.0 %  left 01:59:23
ranks      2 of 4 here  waits 0.9 to 21.8 %  most: rank 0
)");
}

TEST(RenderScreen, ChangesStandInThePlaceOfFigures) {
  const Snapshot earlier = RunOf(750);
  const Snapshot now = RunOf(751);
  const auto change = [](const char* label, const char* setting, double rate, bool at_least) {
    pipeline::WhatIf what_if;
    what_if.label = label;
    what_if.setting = setting;
    what_if.rate = rate;
    what_if.gain = rate / 2792 - 1;
    what_if.at_least = at_least;
    return what_if;
  };
  Shown shown = {&earlier, &now, {}, "HIGHLY input-bound."};
  shown.what_ifs = {change("+1 thread", "--threads 2", 3490, false),
                    change("twice the memory budget", "--memory-budget-mib 4096", 2792, true),
                    change("storage twice as fast", "", 2792, false)};
  std::string text = "\n";
  for (const std::string& line : RenderScreen(shown, 80, View::kWhatIfs)) text += line + "\n";
  EXPECT_EQ(text, R"(
run 4711 imagenet_train                                 32,293 batches  00:12:31
samples/s  2,792 of 3,572  AU 0.78  waits 21.8 %
verdict    HIGHLY input-bound.
what if                         samples/s    gain  by
+1 thread                           3,490   +25 %  --threads 2
twice the memory budget           >=2,792    +0 %  --memory-budget-mib 4096
storage twice as fast               2,792    +0 %  -
)");
}

TEST(RenderScreen, WideNumbersStayInTheirLines) {
  Snapshot now = TrainOf(86'400 * 3);
  now.pid = 4'194'304;
  now.name = std::string(40, 'n');
  now.ranks[0].steps->step = 123'456'789;
  now.ranks[0].steps->total_steps = 9'876'543'210;
  now.ranks[0].steps->samples = 12'345'678'900'000;
  now.ranks[0].records_bad = 1'000'000'000;
  now.ranks[0].profile.workers = 4096;
  now.ranks[0].profile.ring = 1024;
  now.ranks[0].profile.memory.limit_bytes = int64_t{1024} << 40;
  now.ranks[0].profile.memory.reserved_bytes = int64_t{1000} << 40;
  now.ranks[0].profile.reads.bytes = int64_t{1} << 60;
  EXPECT_EQ(Screen({nullptr, &now, {}, kVerdict}), R"(
train 4194304 nnnnnnnnnnnnnnn..  epoch 3.41  step 123.5M of 9.877G  3 d 00:00:00
samples/s  47.6M  AU 0.78  waits 21.8 %
verdict    HIGHLY input-bound (waits 21.8 %): bound by CPU in decode_image (94 %
           of pipeline time; all 2 cores are the pipeline's). One more core
           would give about 3,500 img/s (+25 %).
waits      work 20.9  reading 0.6  ring 0.3 %
cores      decode_image+random_resized_cr..  1.85
           tfrecord                          0.04
           parse_example                     0.03
           other                             0.04
workers    1.96 of 2.0 busy, at most 4096   ring 0.2 of 2 ready, at most 1024
reads      4,448,000 MB/s  210 a second  p99 4.0 ms  11 in flight   damaged 1G
memory     1000.0 TiB of 1.0 PiB  peak 307.0 MiB  held 41.0 MiB  fixed 10.0 MiB
training   loss 2.0125  step 90.0 ms  of it data wait 22.0 %  left 10262 d
)");
}

TEST(RenderScreen, PartsThatAreMissingAreLeftOut) {
  Snapshot now;
  now.pid = 1;
  now.command = "run";
  now.name = "a_b";
  EXPECT_EQ(Screen({nullptr, &now, {}}), R"(
run 1 a_b                                                      opening  00:00:00
)");
  now.ranks.emplace_back();
  EXPECT_EQ(Screen({nullptr, &now, {}}), R"(
run 1 a_b                                                    0 batches  00:00:00
samples/s  0.0  waits 0.0 %
waits      none
workers    0.00 of 0.0 busy, at most 0   ring 0.0 of 0 ready, at most 0
reads      none   damaged 0
memory     0 B of 0 B  peak 0 B  held 0 B  fixed 0 B
)");
}

TEST(RenderScreen, BytesThatATerminalWouldMindAreQuestionMarks) {
  Snapshot now = RunOf(1);
  now.ranks[0].profile.ops = {Op("\xc3\xa4\x1b[2J op", kSecond)};
  EXPECT_NE(Screen({nullptr, &now, {}}).find("cores      ???[2J op "), std::string::npos);
}

TEST(RenderScreen, ANarrowTerminalCutsLines) {
  const Snapshot now = TrainOf(10);
  EXPECT_EQ(Screen({nullptr, &now, {}, kVerdict}, 40), R"(
train 4711 imagenet_train  epoch 3.41 ..
samples/s  2,816  AU 0.78  waits 21.8 %
verdict    HIGHLY input-bound (waits
           21.8 %): bound by CPU in
           decode_image (94 % of
           pipeline time; all 2 cores ..
waits      work 20.9  reading 0.6 %
cores      decode_image+random_resized..
           tfrecord                   ..
           parse_example              ..
           other                      ..
workers    1.96 of 2.0 busy, at most 2..
reads      329 MB/s  210 a second  p99..
memory     215.0 MiB of 2.0 GiB  peak ..
training   loss 2.0125  step 90.0 ms  ..
)");
}

TEST(RenderLine, HasTheMostImportantFigures) {
  const Snapshot earlier = TrainOf(750);
  const Snapshot now = TrainOf(751);
  EXPECT_EQ(RenderLine({&earlier, &now, {}}),
            "00:12:31  epoch 3.41  step 41,204 of 120,000  2,816 samples/s  AU 0.78  "
            "waits 21.8 % (work)  busy 1.96 of 2  reads 329 MB/s");
}

TEST(Difference, OfARankThatBeganAnewIsSinceItsBeginning) {
  const Snapshot earlier = RunOf(100);
  const Snapshot now = RunOf(1);
  EXPECT_EQ(Difference(&earlier, now).ranks[0].profile.rows, 2792);
  EXPECT_EQ(Difference(nullptr, now).ranks[0].profile.rows, 2792);
}

TEST(Difference, RanksAreTheSameByTheirNumbers) {
  Snapshot earlier = RunOf(10);
  Snapshot now = RunOf(11);
  now.ranks[0].rank = 1;
  EXPECT_EQ(Difference(&earlier, now).ranks[0].profile.rows, 11 * 2792);
  earlier.ranks[0].rank = 1;
  EXPECT_EQ(Difference(&earlier, now).ranks[0].profile.rows, 2792);
}

TEST(RateOf, ARankOfATrainingKnowsTheSamplesOfAllRanks) {
  Snapshot now = TrainOf(10);
  now.ranks.push_back(now.ranks[0]);
  EXPECT_DOUBLE_EQ(RateOf(now), 2816);
}

TEST(RateOf, ProcessesThatRunTheirSlicesAddUp) {
  Snapshot now = RunOf(10);
  now.ranks.push_back(now.ranks[0]);
  EXPECT_DOUBLE_EQ(RateOf(now), 2 * 2792);
}

}  // namespace
}  // namespace millrace::cli
