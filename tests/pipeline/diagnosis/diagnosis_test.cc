#include "pipeline/diagnosis.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/pipeline/diagnosis/made_stretch.h"

namespace millrace::pipeline {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Kind = WhatIf::Kind;

// The rate that is predicted for a change; 0: it is not among the changes.
double Predicted(const Diagnosis& diagnosis, Kind kind) {
  const auto found = std::ranges::find(diagnosis.what_ifs, kind, &WhatIf::kind);
  return found == diagnosis.what_ifs.end() ? 0 : found->rate;
}

const WhatIf& Change(const Diagnosis& diagnosis) {
  static const WhatIf none;
  return diagnosis.change.has_value() ? diagnosis.what_ifs[*diagnosis.change] : none;
}

TEST(InputVerdictTest, FollowsTheFractionOfWaits) {
  EXPECT_EQ(InputVerdict(0.0499), "NOT input-bound");
  EXPECT_EQ(InputVerdict(0.05), "MODERATELY input-bound");
  EXPECT_EQ(InputVerdict(0.1999), "MODERATELY input-bound");
  EXPECT_EQ(InputVerdict(0.20), "HIGHLY input-bound");
}

// Each limit alone: it is named, and the change that lifts it is predicted as it then happens.

TEST(DiagnosisTest, ABusyWorkerBindsAndAThreadMoreDoublesTheRate) {
  MadeStretch stretch;
  const Diagnosis diagnosis = stretch.Diagnosed();
  EXPECT_THAT(diagnosis.binding, ElementsAre(Limit::kWorkers));
  stretch.threads = 2;
  EXPECT_NEAR(Predicted(diagnosis, Kind::kThreads), stretch.rate(), 0.1 * stretch.rate());
  EXPECT_EQ(Change(diagnosis).setting, "pipeline_threads: 2");
  EXPECT_EQ(Predicted(diagnosis, Kind::kMoreCores), 0);
}

TEST(DiagnosisTest, ThreadsAreNotProposedBeyondTheCores) {
  MadeStretch stretch;
  stretch.threads = 2;
  const Diagnosis diagnosis = stretch.Diagnosed();
  EXPECT_EQ(Predicted(diagnosis, Kind::kThreads), 0);
  EXPECT_EQ(Change(diagnosis).kind, Kind::kMoreCores);
  stretch.threads = stretch.cores = 3;
  EXPECT_NEAR(Predicted(diagnosis, Kind::kMoreCores), stretch.rate(), 0.1 * stretch.rate());
}

TEST(DiagnosisTest, ThreadsAreNotProposedBeyondThoseThatWereTriedInVain) {
  MadeStretch stretch;
  stretch.cores = 8;
  DiagnosisOptions options = stretch.options();
  for (const int most : {1, 2}) {
    options.most_threads = most;
    const Diagnosis diagnosis = Diagnose(stretch.profile(), stretch.host(), options);
    EXPECT_EQ(Predicted(diagnosis, Kind::kThreads) > 0, most == 2) << most;
    EXPECT_EQ(Predicted(diagnosis, Kind::kMoreCores), 0) << most;
  }
}

TEST(DiagnosisTest, OfManyCoresAsManyThreadsAreProposedAsBringSomething) {
  MadeStretch stretch;
  stretch.cores = 64;
  stretch.threads = 4;
  stretch.consumer_us = 100;  // what ten threads deliver
  const Diagnosis diagnosis = stretch.Diagnosed();
  EXPECT_EQ(Change(diagnosis).setting, "pipeline_threads: 10");
  EXPECT_NEAR(Change(diagnosis).rate, 10'000, 300);
}

TEST(DiagnosisTest, StorageBindsAndTwiceAsFastStorageDoublesTheRate) {
  MadeStretch stretch;
  stretch.read_rate = 200;
  const Diagnosis diagnosis = stretch.Diagnosed();
  EXPECT_THAT(diagnosis.binding, ElementsAre(Limit::kReading));
  stretch.read_rate = 400;
  EXPECT_NEAR(Predicted(diagnosis, Kind::kFasterStorage), stretch.rate(), 0.1 * stretch.rate());
  EXPECT_LT(Predicted(diagnosis, Kind::kThreads), 210);
}

TEST(DiagnosisTest, StorageThatNobodyWaitsForAllowsAtLeastWhatItDid) {
  const Diagnosis diagnosis = MadeStretch().Diagnosed();
  const ResourceUse& reading = diagnosis.resources[1];
  EXPECT_TRUE(reading.at_least);
  EXPECT_GT(*reading.allows, 10 * diagnosis.rate);
  EXPECT_LT(Predicted(diagnosis, Kind::kFasterStorage), 1.01 * diagnosis.rate);
}

TEST(DiagnosisTest, TheBudgetBindsAndTwiceTheBudgetDoublesTheRate) {
  MadeStretch stretch;
  stretch.budget_rate = 300;
  const Diagnosis diagnosis = stretch.Diagnosed();
  EXPECT_THAT(diagnosis.binding, ElementsAre(Limit::kBudget));
  EXPECT_NEAR(Predicted(diagnosis, Kind::kLargerBudget), 600, 60);
  EXPECT_EQ(Change(diagnosis).setting, "memory_budget_mib: 2048");
}

TEST(DiagnosisTest, MoreRoomBringsNothingWhereStorageIsBusyToo) {
  MadeStretch stretch;
  stretch.budget_rate = 300;
  PipelineProfile profile = stretch.profile();
  profile.reads.any_ns = profile.elapsed_ns;
  profile.reads.ns = 4 * profile.elapsed_ns;
  for (int i = 0; i < 100; ++i) profile.reads.group_ns.Add(1000);
  const Diagnosis diagnosis = Diagnose(profile, stretch.host(), stretch.options());
  EXPECT_THAT(diagnosis.binding, ElementsAre(Limit::kBudget, Limit::kReading));
  EXPECT_NEAR(Predicted(diagnosis, Kind::kLargerBudget), 300, 1);
}

TEST(DiagnosisTest, SerialPartsBindWhateverTheThreads) {
  MadeStretch stretch;
  stretch.cores = 8;
  stretch.serial_us = 4000;
  const Diagnosis diagnosis = stretch.Diagnosed();
  EXPECT_THAT(diagnosis.binding, ElementsAre(Limit::kSerial));
  EXPECT_LT(Predicted(diagnosis, Kind::kThreads), 1.03 * diagnosis.rate);
  EXPECT_EQ(diagnosis.change, std::nullopt);
  EXPECT_THAT(diagnosis.sentence, HasSubstr("one thread at a time"));
}

TEST(DiagnosisTest, AShortRingBindsAndALongerOneBringsWhatTheWorkersAllow) {
  MadeStretch stretch;
  stretch.threads = 2;
  stretch.ring_rate = 1000;
  const Diagnosis diagnosis = stretch.Diagnosed();
  EXPECT_THAT(diagnosis.binding, ElementsAre(Limit::kRing));
  EXPECT_NEAR(Predicted(diagnosis, Kind::kLongerRing), 2000, 200);
  EXPECT_EQ(Change(diagnosis).setting, "prefetch { batches: 4 }");
}

// A fifth of the time one of two workers has nothing to do, while the consumer waits for the other.
TEST(DiagnosisTest, ALongerRingThanWorkersGivesThemWorkAtTheEndsOfBatches) {
  for (const int ring : {1, 2}) {
    MadeStretch stretch;
    stretch.threads = 2;
    stretch.ring = ring;
    PipelineProfile profile = stretch.profile();
    profile.busy_ns = profile.busy_ns * 4 / 5;
    profile.rows = profile.worked_rows = profile.rows * 4 / 5;
    HostUse host = stretch.host();
    host.user_seconds *= 0.8;
    host.busy_core_seconds = host.user_seconds;
    const Diagnosis diagnosis = Diagnose(profile, host, stretch.options());
    EXPECT_NEAR(diagnosis.rate, 1600, 20);
    EXPECT_NEAR(Predicted(diagnosis, Kind::kLongerRing), ring == 1 ? 2000 : 1600, 40) << ring;
  }
}

TEST(DiagnosisTest, ASlowConsumerIsNotInputBound) {
  MadeStretch stretch;
  stretch.consumer_us = 5000;
  const Diagnosis diagnosis = stretch.Diagnosed();
  EXPECT_THAT(diagnosis.binding, ElementsAre(Limit::kConsumer));
  EXPECT_EQ(diagnosis.change, std::nullopt);
  EXPECT_NEAR(*diagnosis.ceiling, 1000, 50);
  EXPECT_THAT(diagnosis.sentence, StartsWith("NOT input-bound (waits 0.0 %): the consumer takes "
                                             "200 img/s; the pipeline could deliver about 1,000"));
  EXPECT_NEAR(Predicted(diagnosis, Kind::kFasterConsumer), 400, 40);
}

TEST(DiagnosisTest, OtherProgramsOnTheCoresAreNamedAndWhatTheirEndBrings) {
  MadeStretch stretch;
  stretch.threads = 2;
  stretch.foreign = 2;
  const Diagnosis diagnosis = stretch.Diagnosed();
  EXPECT_THAT(diagnosis.binding, ElementsAre(Limit::kWorkers));
  EXPECT_NEAR(diagnosis.other_cores, 1, 0.05);
  stretch.foreign = 0;
  EXPECT_NEAR(Predicted(diagnosis, Kind::kAlone), stretch.rate(), 0.1 * stretch.rate());
  EXPECT_EQ(Change(diagnosis).kind, Kind::kAlone);
  EXPECT_THAT(diagnosis.sentence, HasSubstr("other programs take 1.0"));
}

TEST(DiagnosisTest, AThreadMoreBesideAnotherProgramGetsItsShare) {
  MadeStretch stretch;
  stretch.foreign = 1;
  const Diagnosis diagnosis = stretch.Diagnosed();
  stretch.threads = 2;
  EXPECT_NEAR(Predicted(diagnosis, Kind::kThreads), stretch.rate(), 0.1 * stretch.rate());
}

TEST(DiagnosisTest, AThreadMoreAmongManyOthersBringsNothing) {
  MadeStretch stretch;
  stretch.foreign = 8;
  const Diagnosis diagnosis = stretch.Diagnosed();
  EXPECT_LT(Predicted(diagnosis, Kind::kThreads), 1.05 * diagnosis.rate);
  EXPECT_EQ(Change(diagnosis).kind, Kind::kAlone);
}

TEST(DiagnosisTest, LoadOfProcessorsThatThePipelineMayNotUseTakesNothing) {
  const MadeStretch stretch;
  DiagnosisOptions options = stretch.options();
  options.processors = 6;
  HostUse host = stretch.host();
  host.busy_core_seconds = host.process_seconds() + 4 * stretch.seconds;
  const Diagnosis diagnosis = Diagnose(stretch.profile(), host, options);
  EXPECT_EQ(Predicted(diagnosis, Kind::kAlone), 0);
  EXPECT_NEAR(Predicted(diagnosis, Kind::kThreads), 2000, 100);
}

// Two limits: the lower one is named, both where they are within a tenth, and lifting the first
// brings what the second allows.

struct Pair {
  const char* name;
  Limit first;
  Limit second;
  Kind lifts_first;
  // Sets the samples per second that the two allow.
  void (*set)(MadeStretch& stretch, double first, double second);
  void (*lift)(MadeStretch& stretch);
};

void SetWorkers(MadeStretch& stretch, double rate) { stretch.worker_us = 1e6 / rate; }
void SetConsumer(MadeStretch& stretch, double rate) { stretch.consumer_us = 1e6 / rate; }
void SetSerial(MadeStretch& stretch, double rate) { stretch.serial_us = 1e6 / rate; }
void DoubleThreads(MadeStretch& stretch) { stretch.threads *= 2; }
void DoubleStorage(MadeStretch& stretch) { stretch.read_rate *= 2; }
void DoubleBudget(MadeStretch& stretch) { stretch.budget_rate *= 2; }

const std::vector<Pair>& Pairs() {
  static const std::vector<Pair> pairs = {
      {"WorkersReading", Limit::kWorkers, Limit::kReading, Kind::kThreads,
       [](MadeStretch& s, double a, double b) { SetWorkers(s, a), s.read_rate = b; },
       DoubleThreads},
      {"ReadingWorkers", Limit::kReading, Limit::kWorkers, Kind::kFasterStorage,
       [](MadeStretch& s, double a, double b) { s.read_rate = a, SetWorkers(s, b); },
       DoubleStorage},
      {"WorkersConsumer", Limit::kWorkers, Limit::kConsumer, Kind::kThreads,
       [](MadeStretch& s, double a, double b) { SetWorkers(s, a), SetConsumer(s, b); },
       DoubleThreads},
      {"ReadingConsumer", Limit::kReading, Limit::kConsumer, Kind::kFasterStorage,
       [](MadeStretch& s, double a, double b) { s.read_rate = a, SetConsumer(s, b); },
       DoubleStorage},
      {"BudgetWorkers", Limit::kBudget, Limit::kWorkers, Kind::kLargerBudget,
       [](MadeStretch& s, double a, double b) { s.budget_rate = a, SetWorkers(s, b); },
       DoubleBudget},
      {"BudgetReading", Limit::kBudget, Limit::kReading, Kind::kLargerBudget,
       [](MadeStretch& s, double a, double b) { s.budget_rate = a, s.read_rate = b; },
       DoubleBudget},
      {"WorkersSerial", Limit::kWorkers, Limit::kSerial, Kind::kThreads,
       [](MadeStretch& s, double a, double b) { SetWorkers(s, a), SetSerial(s, b); },
       DoubleThreads},
  };
  return pairs;
}

class PairTest : public testing::TestWithParam<Pair> {
 protected:
  // The second limit at `factor` times the first.
  MadeStretch At(double factor) const {
    MadeStretch stretch;
    stretch.worker_us = 100;  // no limit unless the pair sets it
    GetParam().set(stretch, 500, 500 * factor);
    return stretch;
  }
};

TEST_P(PairTest, TheLowerLimitIsNamedAlone) {
  EXPECT_THAT(At(2).Diagnosed().binding, ElementsAre(GetParam().first));
  EXPECT_THAT(At(0.5).Diagnosed().binding, ElementsAre(GetParam().second));
}

TEST_P(PairTest, BothAreNamedNearTheCrossing) {
  for (const double factor : {0.92, 1.0, 1.08}) {
    const Diagnosis diagnosis = At(factor).Diagnosed();
    // While nobody waits, nothing is known of storage.
    if (GetParam().first == Limit::kReading && diagnosis.wait_fraction == 0) continue;
    EXPECT_THAT(diagnosis.binding, SizeIs(2)) << factor << ": " << diagnosis.sentence;
    EXPECT_THAT(diagnosis.binding, Contains(GetParam().first)) << factor;
    EXPECT_THAT(diagnosis.binding, Contains(GetParam().second)) << factor;
  }
  EXPECT_EQ(At(1.08).Diagnosed().binding[0], GetParam().first);
}

TEST_P(PairTest, LiftingTheFirstBringsWhatTheSecondAllows) {
  for (const double factor : {0.5, 0.9, 1.0, 1.1, 2.0}) {
    MadeStretch stretch = At(factor);
    const double predicted = Predicted(stretch.Diagnosed(), GetParam().lifts_first);
    GetParam().lift(stretch);
    EXPECT_NEAR(predicted, stretch.rate(), 0.1 * stretch.rate()) << factor;
  }
}

INSTANTIATE_TEST_SUITE_P(Pairs, PairTest, testing::ValuesIn(Pairs()),
                         [](const auto& pair) { return std::string(pair.param.name); });

// Sums.

TEST(DiagnosisTest, WaitsByCauseSumToAllWaitsExactly) {
  MadeStretch stretch;
  stretch.read_rate = 700;
  stretch.consumer_us = 300;
  const PipelineProfile profile = stretch.profile();
  const Diagnosis diagnosis = Diagnose(profile, stretch.host(), stretch.options());
  EXPECT_EQ(std::reduce(diagnosis.wait_ns.begin(), diagnosis.wait_ns.end()),
            profile.wait_total_ns());
  EXPECT_NEAR(diagnosis.wait_fraction, 1 - 300e-6 * 700, 0.001);
}

TEST(DiagnosisTest, PartsSumToTheMeasuredWhole) {
  const Diagnosis diagnosis = MadeStretch().Diagnosed();
  double us = 0, share = 0;
  for (const WorkPart& part : diagnosis.parts) {
    us += part.us;
    share += part.share;
  }
  EXPECT_NEAR(us, 1000, 0.1);
  EXPECT_NEAR(diagnosis.measured_us, us, 0.01);
  EXPECT_NEAR(share, 1, 1e-6);
  EXPECT_EQ(diagnosis.parts.back().name, "not attributed");
  EXPECT_NEAR(diagnosis.parts.back().share, 0.02, 1e-6);
}

TEST(DiagnosisTest, APartHasItsCeilingQuantileAndBytes) {
  const Diagnosis diagnosis = MadeStretch().Diagnosed();
  const WorkPart& decode = diagnosis.parts[1];
  EXPECT_EQ(decode.name, "decode_image");
  EXPECT_NEAR(decode.us, 610, 0.1);
  EXPECT_NEAR(*decode.ceiling, 1e6 / 610, 1);
  EXPECT_NEAR(decode.p99_us, 610, 80);
  EXPECT_EQ(decode.bytes_in, 100'000);
}

TEST(DiagnosisTest, APassOfSeveralStagesIsNamedByThem) {
  const MadeStretch stretch;
  PipelineProfile profile = stretch.profile();
  profile.ops[0].summary = "unframe, check";
  profile.ops[1].summary = "decode_image+flip: image/encoded -> image: uint8[?, ?, 3]";
  profile.ops[2].summary = "a function: of the program";
  const Diagnosis diagnosis = Diagnose(profile, stretch.host(), stretch.options());
  EXPECT_EQ(diagnosis.parts[0].name, "source");
  EXPECT_EQ(diagnosis.parts[1].name, "decode_image+flip");
  EXPECT_EQ(diagnosis.parts[2].name, "batch");
}

TEST(DiagnosisTest, TimesOfWorkersThatLackACoreAreProcessorTimes) {
  MadeStretch stretch;
  stretch.threads = 2;
  stretch.foreign = 2;
  EXPECT_NEAR(stretch.Diagnosed().measured_us, 1000, 1);
}

// Sentences.

TEST(SentenceTest, NamesTheResourceTheShareAndTheOneChange) {
  MadeStretch stretch;
  stretch.worker_us = 3125;
  stretch.consumer_us = 635;
  EXPECT_EQ(stretch.Diagnosed().sentence,
            "HIGHLY input-bound (waits 79.7 %): bound by CPU in decode_image (61 % of pipeline "
            "time; 1 of 2 cores is the pipeline's). pipeline_threads: 2 would give about 640 img/s "
            "(+100 %).");
}

TEST(SentenceTest, AllCoresInUseNeedOneMore) {
  MadeStretch stretch;
  stretch.threads = 2;
  EXPECT_THAT(stretch.Diagnosed().sentence,
              HasSubstr("all 2 cores are the pipeline's). One more core would give about 3,000 "
                        "img/s (+50 %)."));
}

TEST(SentenceTest, ReadingTellsHowMuchMoreIsReadThanRecords) {
  MadeStretch stretch;
  stretch.read_rate = 100;
  HostUse host = stretch.host();
  host.device_read_bytes = 28 * stretch.profile().reads.bytes;
  EXPECT_EQ(Diagnose(stretch.profile(), host, stretch.options()).sentence,
            "HIGHLY input-bound (waits 100.0 %): bound by reading (267.0 MiB/s, 28.0 x the "
            "records' bytes). Reading no more than the records (see `fetch` and `inflate` in "
            "millrace explain) would give about 1,000 img/s (+900 %).");
}

TEST(SentenceTest, SmallReadsAreBoundByLatency) {
  MadeStretch stretch;
  stretch.read_rate = 100;
  PipelineProfile profile = stretch.profile();
  profile.reads.requests = profile.reads.bytes / 4096;
  EXPECT_THAT(Diagnose(profile, stretch.host(), stretch.options()).sentence,
              HasSubstr("bound by the latency of reads (40 ms each, 4.0 under way)"));
}

TEST(SentenceTest, ASlowShardIsNamed) {
  MadeStretch stretch;
  stretch.read_rate = 100;
  PipelineProfile profile = stretch.profile();
  profile.reads.files = 8;
  profile.reads.median_file_ns = 4'000'000;
  const int64_t half = profile.reads.ns / 2;
  profile.reads.slowest = {{"data/train-00003.tfrecord", half / 31'000'000, half, 50'000'000},
                           {"data/train-00001.tfrecord", 100, 420'000'000, 9'000'000}};
  const Diagnosis diagnosis = Diagnose(profile, stretch.host(), stretch.options());
  EXPECT_THAT(diagnosis.sentence,
              HasSubstr("bound by reading train-00003.tfrecord (31 ms a read; the median of the "
                        "files is 4 ms). A copy of this file on storage like that of the others "
                        "would give at least 180 img/s (+77 %)."));
}

TEST(SentenceTest, AConsumerThatHoldsBatchesIsNamed) {
  MadeStretch stretch;
  stretch.budget_rate = 100;
  PipelineProfile profile = stretch.profile();
  profile.memory.held_bytes = int64_t{700} << 20;
  const Diagnosis diagnosis = Diagnose(profile, stretch.host(), stretch.options());
  EXPECT_THAT(diagnosis.sentence,
              HasSubstr("bound by the memory budget: the consumer holds 700.0 MiB of 1.0 GiB."));
  EXPECT_GT(Predicted(diagnosis, Kind::kDropBatches), 200);
}

TEST(SentenceTest, CausesWithoutAResourceHaveTheirOwnWords) {
  const MadeStretch stretch;
  const auto sentence = [&](WaitCause cause) {
    PipelineProfile profile = stretch.profile();
    std::ranges::fill(profile.wait_ns, 0);
    profile.wait_ns[static_cast<size_t>(cause)] = profile.elapsed_ns / 2;
    return Diagnose(profile, stretch.host(), stretch.options()).sentence;
  };
  EXPECT_THAT(sentence(WaitCause::kRing), HasSubstr("bound by the number of open batches (2)"));
  EXPECT_THAT(sentence(WaitCause::kWorkers),
              HasSubstr("bound by the start of workers, which have"));
  EXPECT_THAT(sentence(WaitCause::kHandOff), HasSubstr("bound by the hand-over of 15.6 batches"));
  EXPECT_THAT(sentence(WaitCause::kSource), HasSubstr("bound by the source"));
}

TEST(SentenceTest, NothingDeliveredIsSaid) {
  EXPECT_EQ(Diagnose({}, {}, {}).sentence, "nothing was delivered, so nothing is known.");
}

// Uint8.

TEST(DiagnosisTest, Uint8BatchesSaveTheNormalizingOpAndRoom) {
  MadeStretch stretch;
  PipelineProfile profile = stretch.profile();
  profile.ops[1].stage = "to_floats";
  profile.ops[1].summary = "normalize: image -> image: float32[28, 28, 1]";
  DiagnosisOptions options = stretch.options();
  options.cores = options.processors = 1;
  EXPECT_EQ(Predicted(Diagnose(profile, stretch.host(), options), Kind::kUint8), 0);
  options.uint8_saved_bytes = 450'000;
  const Diagnosis diagnosis = Diagnose(profile, stretch.host(), options);
  EXPECT_NEAR(Predicted(diagnosis, Kind::kUint8), 1000 / 0.39, 100);
  EXPECT_EQ(Change(diagnosis).kind, Kind::kUint8);
}

TEST(DiagnosisTest, OnlyFloatsThatComeFromUint8CouldStayUint8) {
  const auto plan = Plan::FromText(
      "stage { tfrecord { files: \"x\" } } stage { parse_example {"
      " feature { key: \"image/encoded\" dtype: BYTES }"
      " feature { key: \"box\" dtype: FLOAT32 shape: [4] } } }"
      "stage { decode_image {} } stage { normalize { mean: 1 stddev: 2 } }"
      "stage { batch { size: 4 } }",
      "test.pbtxt");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const Schema schema({{"image", DType::kF32, Shape{4, 5, 3}}, {"box", DType::kF32, Shape{4}}});
  EXPECT_EQ(BytesSavedByUint8(*plan, schema), 3 * 60);
  EXPECT_EQ(BytesSavedByUint8(*plan, Schema({{"image", DType::kU8, Shape{4, 5, 3}}})), 0);
}

// Whatever is measured, nothing absurd is said.

void ExpectSane(double number) {
  EXPECT_TRUE(std::isfinite(number)) << number;
  EXPECT_GE(number, 0);
}
void ExpectSane(const std::optional<double>& number) {
  if (number.has_value()) ExpectSane(*number);
}

void ExpectSane(const Diagnosis& diagnosis) {
  for (const double number :
       {diagnosis.seconds, diagnosis.samples, diagnosis.rate, diagnosis.wait_fraction,
        diagnosis.measured_us, diagnosis.process_us, diagnosis.pipeline_cores,
        diagnosis.other_cores, diagnosis.stolen_cores, diagnosis.throttled,
        diagnosis.reads_under_way, diagnosis.reads_in_flight, diagnosis.read_ms,
        diagnosis.read_p50_ms, diagnosis.read_p99_ms, diagnosis.held_bytes, diagnosis.consumer_ms,
        diagnosis.switches, diagnosis.preemptions}) {
    ExpectSane(number);
  }
  EXPECT_LE(diagnosis.wait_fraction, 1);
  for (const auto& number : {diagnosis.pace, diagnosis.utilisation, diagnosis.ceiling,
                             diagnosis.read_factor, diagnosis.cached, diagnosis.hand_over_us}) {
    ExpectSane(number);
  }
  if (diagnosis.copies.has_value()) {
    ExpectSane(diagnosis.copies->bytes_per_second);
    ExpectSane(diagnosis.copies->issue_us);
    ExpectSane(diagnosis.copies->wait_fraction);
  }
  for (const WorkPart& part : diagnosis.parts) {
    ExpectSane(part.us);
    ExpectSane(part.share);
    ExpectSane(part.ceiling);
    ExpectSane(part.p99_us);
    EXPECT_LE(part.share, 1);
  }
  EXPECT_THAT(diagnosis.resources, SizeIs(5));
  for (const ResourceUse& use : diagnosis.resources) {
    ExpectSane(use.used);
    ExpectSane(use.of);
    ExpectSane(use.allows);
  }
  for (const WhatIf& what_if : diagnosis.what_ifs) {
    ExpectSane(what_if.rate);
    ExpectSane(what_if.gain);
    EXPECT_GE(what_if.rate, diagnosis.rate) << what_if.label;
  }
  for (const std::string& line : FormatDiagnosis("title", diagnosis)) {
    EXPECT_THAT(line, Not(ContainsRegex("\\b(nan|inf)\\b| -[0-9]")));
  }
}

TEST(DiagnosisTest, AnEmptyStretchHasNoAbsurdNumbers) {
  const Diagnosis diagnosis = Diagnose({}, {}, {});
  ExpectSane(diagnosis);
  EXPECT_THAT(diagnosis.binding, IsEmpty());
  EXPECT_THAT(diagnosis.what_ifs, IsEmpty());
  EXPECT_EQ(diagnosis.change, std::nullopt);
  PipelineProfile waited;
  waited.elapsed_ns = 1'000'000'000;
  waited.wait_ns[0] = 1'000'000'000;
  ExpectSane(Diagnose(waited, {}, {}));
}

// Draws numbers of all magnitudes, now and then 0 or negative.
class Draw {
 public:
  explicit Draw(uint64_t seed) : engine_(seed) {}

  int64_t operator()() {
    const uint64_t kind = engine_() % 10;
    if (kind == 0) return 0;
    const auto number = static_cast<int64_t>(engine_() >> (5 + engine_() % 55));
    return kind == 1 ? -number : number;
  }
  double Number() { return 1e-6 * static_cast<double>((*this)()); }

 private:
  std::mt19937_64 engine_;
};

PipelineProfile DrawProfile(Draw& draw) {
  PipelineProfile drawn;
  for (int64_t* number : {&drawn.elapsed_ns,
                          &drawn.batches,
                          &drawn.rows,
                          &drawn.goal_ns,
                          &drawn.busy_ns,
                          &drawn.serial_ns,
                          &drawn.work_ns,
                          &drawn.clocked_ns,
                          &drawn.clocked_cpu_ns,
                          &drawn.worked_rows,
                          &drawn.waits,
                          &drawn.ready_ns,
                          &drawn.reads.groups,
                          &drawn.reads.requests,
                          &drawn.reads.bytes,
                          &drawn.reads.ns,
                          &drawn.reads.any_ns,
                          &drawn.reads.best_window_bytes,
                          &drawn.reads.files,
                          &drawn.reads.median_file_ns,
                          &drawn.memory.limit_bytes,
                          &drawn.memory.highest_bytes,
                          &drawn.memory.standing_bytes,
                          &drawn.memory.held_bytes,
                          &drawn.memory.batch_bytes,
                          &drawn.hand_over.calls,
                          &drawn.hand_over.ns,
                          &drawn.copies.batches,
                          &drawn.copies.bytes,
                          &drawn.copies.issue_ns,
                          &drawn.copies.wait_ns}) {
    *number = draw();
  }
  for (int64_t& ns : drawn.wait_ns) ns = draw() / 16;
  for (ItemTimes& item : drawn.items) item = {draw(), draw() / 16};
  drawn.workers = static_cast<int>(draw() % 100);
  drawn.ring = static_cast<int>(draw() % 100);
  for (int i = 0; i < 3; ++i) {
    OpProfile op;
    op.stage = absl::StrCat("op", i);
    op.busy_ns = draw() / 16;
    op.weighed_rows = draw();
    op.bytes_in = draw();
    op.bytes_out = draw();
    op.row_ns.Add(static_cast<uint64_t>(std::abs(draw())));
    op.slowest = {draw(), draw(), {}, i == 0 ? "" : "file", draw()};
    drawn.ops.push_back(op);
    drawn.reads.slowest.push_back({"file", draw(), draw(), draw()});
  }
  return drawn;
}

HostUse DrawHost(Draw& draw) {
  HostUse drawn;
  drawn.now_seconds = draw.Number();
  drawn.user_seconds = draw.Number();
  if (draw() % 2 == 0) drawn.busy_core_seconds = draw.Number();
  if (draw() % 2 == 0) drawn.stolen_core_seconds = draw.Number();
  if (draw() % 2 == 0) drawn.throttled_seconds = draw.Number();
  if (draw() % 2 == 0) drawn.device_read_bytes = draw();
  if (draw() % 2 == 0) drawn.call_read_bytes = draw();
  drawn.voluntary_switches = draw();
  drawn.involuntary_switches = draw();
  return drawn;
}

TEST(DiagnosisTest, RandomMeasurementsGiveNoAbsurdNumbers) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Draw draw(seed);
    DiagnosisOptions options;
    options.cores = draw.Number();
    options.processors = draw.Number();
    options.pace = draw.Number();
    options.uint8_saved_bytes = draw();
    options.fetched_bytes = draw();
    const PipelineProfile profile = DrawProfile(draw);
    ExpectSane(Diagnose(profile, DrawHost(draw), options));
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

// The screen.

TEST(FormatDiagnosisTest, HasAllParts) {
  MadeStretch stretch;
  stretch.consumer_us = 100;
  const std::vector<std::string> lines =
      FormatDiagnosis("imagenet_train  plan 6e1c09ab", stretch.Diagnosed());
  EXPECT_EQ(lines[0], "imagenet_train  plan 6e1c09ab");
  EXPECT_EQ(lines[1], " 1,000 img/s   HIGHLY input-bound (waits 90.0 %)");
  for (const char* part : {" stage (CPU time per sample)", " decode_image ", " sum ",
                           " the consumer waited", " resource ", " worker CPU ", " memory budget ",
                           " what if ", " +1 thread ", " other programs"}) {
    EXPECT_THAT(lines, Contains(StartsWith(part)));
  }
  EXPECT_THAT(lines, Contains(HasSubstr("<- binds")));
}

TEST(FormatDiagnosisTest, NoLineIsWiderThanAScreen) {
  MadeStretch stretch;
  stretch.worker_us = 0.5;
  stretch.serial_us = stretch.consumer_us = 0.001;
  PipelineProfile profile = stretch.profile();
  profile.ops[1].summary = "decode_image+random_resized_crop+flip+normalize: image -> image";
  profile.ops[2].summary = std::string(200, 's');
  profile.ops[1].slowest = {900'000'000, 16, {0, 4, 0}, "data/train-00003.tfrecord", 812};
  DiagnosisOptions options = stretch.options();
  options.unit = "samples/s";
  options.settings.budget_mib = "--memory-budget-mib $0";
  options.pace = 1e9;
  const Diagnosis diagnosis = Diagnose(profile, stretch.host(), options);
  const std::vector<std::string> lines = FormatDiagnosis(std::string(300, 't'), diagnosis);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(lines, Contains(" decode_image"));
  EXPECT_THAT(lines, Contains(" +random_resized_crop+flip"));
  EXPECT_THAT(lines, Contains(HasSubstr("odd: record 812 of data/train-00003.tfrecord")));
}

}  // namespace
}  // namespace millrace::pipeline
