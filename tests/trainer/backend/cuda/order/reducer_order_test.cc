// The order of the reducer's work on the device: its own calls, over a communicator that records
// them (docs/nccl.md: MarkReady puts sums on NCCL's stream, behind the work that the stream of the
// gradients holds).

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "collectives/gradient_reducer.h"
#include "tests/trainer/backend/cuda/order/check.h"
#include "tests/trainer/backend/cuda/order/recording_device.h"
#include "tests/trainer/backend/cuda/order/recording_nccl.h"

namespace millrace::trainer::cuda::order {
namespace {

using collectives::Communicator;
using collectives::GradientReducer;
using collectives::ReducerOptions;
using testing::Contains;
using testing::Each;
using testing::Field;
using testing::IsEmpty;
using testing::Not;

constexpr int kSteps = 3;
constexpr int64_t kElements = 1024;
constexpr size_t kGradients = 6;

// What a program does wrong.
enum class Mistake { kNone, kMarksEarly, kUpdatesEarly, kNamesNoStream };

struct StepProgram {
  ReducerOptions options;
  Mistake mistake = Mistake::kNone;
  int ranks = 2;

  // One rank's steps.
  absl::Status Run(Communicator& bootstrap, Log& log) const;
  absl::Status Mark(Recording& recording, GradientReducer& reducer, size_t i, int stream) const;
};

absl::Status StepProgram::Mark(Recording& recording, GradientReducer& reducer, size_t i,
                               int stream) const {
  const TensorView gradient = reducer.gradient(i);
  recording.MarkReady(absl::StrCat("gradient ", i), gradient.data, gradient.size_bytes(), stream);
  return reducer.MarkReady(i);
}

absl::Status StepProgram::Run(Communicator& bootstrap, Log& log) const {
  Recording recording;
  RecordingDevice device(recording);
  RecordingCommunicator nccl(bootstrap, recording,
                             mistake == Mistake::kNamesNoStream ? nullptr : device.stream(),
                             2 * kGradients);
  std::vector<collectives::GradientSpec> specs;
  for (size_t i = 0; i < kGradients; ++i) {
    specs.push_back({absl::StrCat("gradient ", i), Shape{kElements}});
  }
  const int stream = Recording::ToStream(device.stream())->number;
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer, GradientReducer::Make(nccl, specs, options));
  const auto update = [&] {
    for (size_t i = 0; i < kGradients; ++i) {
      const TensorView sum = reducer->gradient(i);
      recording.Work(stream, absl::StrCat("update ", i),
                     {.reads = {{sum.data, sum.size_bytes(), kSum}}});
    }
  };
  for (int step = 0; step < kSteps; ++step) {
    for (int micro_batch = 0; micro_batch < options.micro_batches; ++micro_batch) {
      reducer->SetRows(4);
      for (size_t i = 0; i < kGradients; ++i) {
        const TensorView gradient = reducer->gradient(i);
        const bool is_early = mistake == Mistake::kMarksEarly && i == 4;
        if (is_early) MILLRACE_RETURN_IF_ERROR(Mark(recording, *reducer, i, stream));
        recording.Work(stream, absl::StrCat("wgrad ", i),
                       {.writes = {{gradient.data, gradient.size_bytes(), "gradient"}}});
        if (!is_early) MILLRACE_RETURN_IF_ERROR(Mark(recording, *reducer, i, stream));
      }
      if (mistake == Mistake::kUpdatesEarly) update();
      MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    }
    if (mistake != Mistake::kUpdatesEarly) update();
    if (options.shard) MILLRACE_RETURN_IF_ERROR(reducer->GatherShards());
  }
  log = recording.log();
  return absl::OkStatus();
}

// The logs of its ranks.
std::vector<Log> RunProgram(const StepProgram& program) {
  std::vector<Log> logs(static_cast<size_t>(program.ranks));
  const absl::Status status = collectives::RunRanks(program.ranks, [&](Communicator& bootstrap) {
    return program.Run(bootstrap, logs[static_cast<size_t>(bootstrap.rank())]);
  });
  EXPECT_TRUE(status.ok()) << status;
  return logs;
}

ReducerOptions SmallBuckets() {
  ReducerOptions options;
  options.bucket_bytes = 2 * kElements * sizeof(float);
  options.edge_bucket_bytes = options.bucket_bytes;
  options.compute_threads = 0;
  return options;
}

// The work of NCCL's stream by name and bytes: ranks meet in it, so it must be alike on all.
std::vector<std::string> WorkOfNccl(const Log& log) {
  std::vector<std::string> work;
  for (const Entry& entry : log.entries) {
    if (entry.kind != Entry::Kind::kWork || log.streams[entry.stream] != "nccl") continue;
    work.push_back(entry.name);
    for (const Range& range : entry.reads) absl::StrAppend(&work.back(), " ", range.bytes);
  }
  return work;
}

void ExpectClean(const ReducerOptions& options) {
  const std::vector<Log> logs = RunProgram({options});
  for (const Log& log : logs) EXPECT_THAT(CheckOrder(log), IsEmpty());
  EXPECT_THAT(WorkOfNccl(logs[0]), Not(IsEmpty()));
  EXPECT_EQ(WorkOfNccl(logs[1]), WorkOfNccl(logs[0]));
}

TEST(ReducerOrderTest, SumsBesideBackwardRaceWithNothing) { ExpectClean(SmallBuckets()); }

TEST(ReducerOrderTest, SumsInTheMemoryOfOneBucketRaceWithNothing) { ExpectClean({}); }

// The last place of an item of this name.
size_t LastPlace(const Log& log, const std::string& name) {
  size_t place = log.entries.size();
  while (log.entries[--place].name != name) {
  }
  return place;
}

TEST(ReducerOrderTest, TheFirstSumDoesNotWaitForTheLastGradient) {
  const Log log = RunProgram({SmallBuckets()})[0];
  const size_t gradient = LastPlace(log, "wgrad 5");
  size_t sum = LastPlace(log, "wgrad 1");
  while (log.entries[sum].name != "AllReduce") ++sum;
  ASSERT_LT(sum, gradient);
  EXPECT_FALSE(HappensBefore(log)(sum, gradient));
  EXPECT_TRUE(HappensBefore(log)(LastPlace(log, "wgrad 1"), sum));
}

TEST(ReducerOrderTest, ExactSumsRaceWithNothing) {
  ReducerOptions options = SmallBuckets();
  options.exact = true;
  ExpectClean(options);
}

TEST(ReducerOrderTest, SumsOverANarrowWireRaceWithNothing) {
  ReducerOptions options = SmallBuckets();
  options.wire = DType::kBF16;
  ExpectClean(options);
}

TEST(ReducerOrderTest, AveragesAndNormsRaceWithNothing) {
  ReducerOptions options = SmallBuckets();
  options.average_by_rows = true;
  options.clip_norm = 1;
  ExpectClean(options);
}

TEST(ReducerOrderTest, TheHostReadsAStepsTotalsOnce) {
  ReducerOptions options = SmallBuckets();
  options.average_by_rows = true;
  options.clip_norm = 1;
  const std::vector<std::string> work = WorkOfNccl(RunProgram({options})[0]);
  const std::string copy =
      absl::StrCat("copy of the reducer ", sizeof(int64_t) + 2 * sizeof(double));
  EXPECT_EQ(std::ranges::count(work, copy), kSteps);
  EXPECT_EQ(
      std::ranges::count_if(
          work, [](const std::string& item) { return item.starts_with("copy of the reducer"); }),
      kSteps);
}

TEST(ReducerOrderTest, SumsOfARankAloneThatTheHostDoesNotAwaitRaceWithNothing) {
  for (const int micro_batches : {1, 2}) {
    ReducerOptions options = SmallBuckets();
    options.average_by_rows = true;
    options.uses_sums_on_stream = true;
    options.micro_batches = micro_batches;
    const Log log = RunProgram({.options = options, .ranks = 1})[0];
    EXPECT_THAT(CheckOrder(log), IsEmpty());
    EXPECT_THAT(WorkOfNccl(log), Contains(testing::StartsWith("AllReduce")));
    EXPECT_THAT(WorkOfNccl(log), Not(Contains(testing::StartsWith("copy"))));
  }
}

TEST(ReducerOrderTest, SumsOfMicroBatchesRaceWithNothing) {
  ReducerOptions options = SmallBuckets();
  options.micro_batches = 2;
  ExpectClean(options);
}

TEST(ReducerOrderTest, AGradientThatIsMarkedEarlyIsFound) {
  const std::vector<Log> logs = RunProgram({SmallBuckets(), Mistake::kMarksEarly});
  EXPECT_THAT(CheckOrder(logs[0]), Contains(Field(&Finding::fault, Fault::kMarkedEarly)));
}

TEST(ReducerOrderTest, AnUpdateAheadOfFinishIsFound) {
  const std::vector<Finding> findings =
      CheckOrder(RunProgram({SmallBuckets(), Mistake::kUpdatesEarly})[0]);
  EXPECT_THAT(findings, Not(IsEmpty()));
  EXPECT_THAT(findings, Each(Field(&Finding::fault, Fault::kRace)));
}

TEST(ReducerOrderTest, AStreamOfGradientsThatIsNotNamedIsFound) {
  const std::vector<Finding> findings =
      CheckOrder(RunProgram({SmallBuckets(), Mistake::kNamesNoStream})[0]);
  EXPECT_THAT(findings, Contains(Field(&Finding::text, testing::HasSubstr("wgrad 1"))));
  EXPECT_THAT(findings, Each(Field(&Finding::fault, Fault::kRace)));
}

}  // namespace
}  // namespace millrace::trainer::cuda::order
