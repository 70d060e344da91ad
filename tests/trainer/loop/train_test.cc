// Train end to end: real shards, real pipelines, ranks as threads.

#include "trainer/train.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/metric_table.h"
#include "base/record_error.h"
#include "readers/quarantine.h"
#include "tests/messages.h"
#include "tests/trainer/loop/sees_asks.h"
#include "tests/trainer/loop/train_fixture.h"
#include "trainer/rank_view.h"

namespace millrace::trainer {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST_F(TrainTest, TrainsEvaluatesAndSaysSo) {
  const auto outcome = Run(1);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->steps, static_cast<uint64_t>(kSteps));
  EXPECT_FALSE(outcome->stopped);
  EXPECT_TRUE(fs::exists(outcome->checkpoint));
  EXPECT_EQ(steps_.size(), static_cast<size_t>(kSteps));
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("epoch 2: test accuracy"), HasSubstr("/23)"))));
  EXPECT_THAT(lines_, Contains(StartsWith("input path: data wait ")));
  EXPECT_THAT(lines_, Contains(AllOf(StartsWith("verdict: "), HasSubstr(" input-bound (waits "))));
  EXPECT_THAT(lines_, Contains(HasSubstr("5 per epoch, 10 in all, 0 done")));
}

// S-TRAIN-2, S-TRAIN-3.
TEST_F(TrainTest, TwoAndThreeRanksTrainAsOneDoesAndStopTogether) {
  const auto one = Run(1);
  ASSERT_TRUE(one.ok()) << one.status();
  for (const int world : {2, 3}) {
    RemoveCheckpoints();
    const auto stopped = Run(world, false, 4);
    ASSERT_TRUE(stopped.ok()) << stopped.status();
    EXPECT_TRUE(stopped->stopped);
    const auto many = Run(world, true);
    ASSERT_TRUE(many.ok()) << many.status();
    // Sums are split differently, so float32 rounds differently.
    EXPECT_NEAR(many->last_loss, one->last_loss, 1e-5) << world;
    EXPECT_EQ(many->test_accuracy, one->test_accuracy) << world;
    EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("test accuracy"), HasSubstr("/23)"))));
  }
}

// Of a plan that shuffles and draws: a sample's random numbers are its own.
TEST_F(TrainTest, ThreadsOfThePipelineChangeNoBitOfTheWeights) {
  std::string plan = PipelineText("${DATA}/train-*.tfrecord", 8, true);
  Write(folder_ / "train.pbtxt", plan.insert(plan.find("stage { batch"), "stage { flip {} }\n"));
  TensorFile expected;
  for (const int threads : {1, 2, 4}) {
    SCOPED_TRACE(threads);
    RemoveCheckpoints();
    WriteJob("checkpoints", "", absl::StrCat("epochs: 2 pipeline_threads: ", threads));
    const auto outcome = Run(1);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    const std::string most = threads == 1 ? "1" : absl::StrCat("1 to ", threads);
    EXPECT_THAT(lines_, Contains(HasSubstr(absl::StrCat(" 1 compute, ", most, " pipeline"))));
    const TensorFile file = Load(outcome->checkpoint);
    if (threads == 1) expected = file;
    ASSERT_EQ(file.tensors.size(), expected.tensors.size());
    for (const auto& [name, tensor] : file.tensors) {
      EXPECT_EQ(tensor.data, expected.tensors.at(name).data) << name;
    }
  }
}

// Each step is a window in which the trainer starves.
ThreadTrialOptions TrialsAtOnce() {
  return {.window_steps = 1,
          .window_seconds = 0,
          .settle_steps = 0,
          .settle_seconds = 0,
          .starving = 0,
          .first_hold = 0,
          .longest_hold = 0};
}

TEST_F(TrainTest, ThreadsThatComeAndGoChangeNoBitOfTheWeights) {
  double largest = 0;  // number of threads after a step, of rank 0
  const auto weights_of = [&](const std::string& more, int world) {
    RemoveCheckpoints();
    WriteJob("checkpoints", "", "epochs: 4 " + more);
    largest = 0;
    adjust_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
      options.threads = 2;  // the pipeline begins with one
      if (communicator.rank() != 0) return;
      options.metrics = std::make_shared<Metrics>();
      options.on_weights = [&, metrics = options.metrics](uint64_t, auto&) {
        largest = std::max(largest, metrics->gauge(metric::kWorkerTarget).value());
      };
    };
    const auto outcome = Run(world);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? Load(outcome->checkpoint).tensors : TensorFile().tensors;
  };
  change_parts_ = [](TrainParts& parts, const collectives::Communicator&) {
    parts.thread_trials = TrialsAtOnce();
  };
  for (const int world : {1, 2}) {
    const auto fixed = weights_of("pipeline_threads: 1", world);
    EXPECT_EQ(largest, 1);
    EXPECT_THAT(lines_, Not(Contains(StartsWith("pipeline threads: "))));
    const auto adapted = weights_of("", world);
    EXPECT_EQ(largest, 2);
    EXPECT_THAT(lines_, Contains(HasSubstr(", 2 per rank: 2 compute, 1 to 2 pipeline")));
    EXPECT_THAT(lines_, Contains(StartsWith("pipeline threads: 1 to 2 of 2 cores, settled on ")));
    ASSERT_EQ(adapted.size(), fixed.size());
    for (const auto& [name, tensor] : adapted) EXPECT_EQ(tensor.data, fixed.at(name).data) << name;
  }
}

TEST_F(TrainTest, ThreadsOfATrainerThatDoesNotStarveStayAtTheirShare) {
  adjust_ = [&](TrainOptions& options, const collectives::Communicator&) { options.threads = 4; };
  change_parts_ = [](TrainParts& parts, const collectives::Communicator&) {
    parts.thread_trials.starving = 2;  // never
  };
  ASSERT_TRUE(Run(1).ok());
  EXPECT_THAT(lines_, Contains(HasSubstr(": 3 compute, 1 to 4 pipeline")));
  EXPECT_THAT(lines_, Contains("pipeline threads: 1 to 4 of 4 cores, settled on 1 (the trainer did "
                               "not starve)"));
}

TEST_F(TrainTest, ABadLabelEndsAllRanksAndNamesTheRecord) {
  WriteShard(folder_ / "train-1.tfrecord", 20, kTrainSamples - 20, /*bad=*/25);
  const auto outcome = Run(2);
  EXPECT_MESSAGE(outcome.status(), absl::StatusCode::kInvalidArgument);
  const auto error = GetRecordError(outcome.status());
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->ordinal, 5);
  EXPECT_EQ(error->reason, RecordErrorReason::kValue);
}

TEST_F(TrainTest, DamagedRecordsOfBothPlansAreQuarantinedOnce) {
  const auto damage = [&](const std::string& name) {
    std::fstream file(folder_ / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(20);  // the payload of record 0
    file.put('\xff');
  };
  damage("train-1.tfrecord");
  damage("test-0.tfrecord");
  for (const auto& [name, pattern, batch] :
       {std::tuple("train.pbtxt", "${DATA}/train-*.tfrecord", 8),
        std::tuple("eval.pbtxt", "${DATA}/test-*.tfrecord", 5)}) {
    Write(folder_ / name,
          "on_damage { policy: \"mask\" }\n" + PipelineText(pattern, batch, batch == 8));
  }
  const std::string path = folder_ / "bad.jsonl";
  adjust_ = [&](TrainOptions& options, const collectives::Communicator&) {
    options.quarantine_file = path;
  };
  ASSERT_TRUE(Run(2).ok());
  auto places = readers::ReadQuarantine(path);
  ASSERT_TRUE(places.ok()) << places.status();
  std::set<std::string> files;
  for (const RecordError& place : *places) {
    EXPECT_EQ(place.ordinal, 0);
    EXPECT_EQ(place.reason, RecordErrorReason::kDataCrc);
    files.insert(fs::path(place.file).filename());
  }
  EXPECT_EQ(places->size(), 2u);  // in two epochs and three evaluations
  EXPECT_EQ(files, (std::set<std::string>{"test-0.tfrecord", "train-1.tfrecord"}));
}

TEST_F(TrainTest, FilesThatDoNotFitAreNamed) {
  Write(folder_ / "train.pbtxt", PipelineText("${DATA}/none-*.tfrecord", 8, true));
  EXPECT_MESSAGE(Run(2).status(), absl::StatusCode::kNotFound);
  std::string text = PipelineText("${DATA}/train-*.tfrecord", 8, true);
  text.replace(text.find("stage { repeat {} }"), std::string::npos, "");
  Write(folder_ / "train.pbtxt", text);
  EXPECT_MESSAGE(Run(1).status(), absl::StatusCode::kInvalidArgument);
  fs::remove(folder_ / "model.pbtxt");
  EXPECT_EQ(Run(2).status().code(), absl::StatusCode::kNotFound);
}

// One rank with one thread: whoever else opens the shards may index them first, and then there is
// no progress to report. Several ranks are the memory limits of tests/cli/train_cli_test.py.
TEST_F(TrainTest, AnExceptionWhileOpeningIsAnErrorAndReportedOnce) {
  adjust_ = [](TrainOptions& options, const collectives::Communicator&) {
    options.threads = 1;
    options.index_progress = [](int64_t, int64_t) { throw std::bad_alloc(); };
  };
  const auto outcome = Run(1);
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kResourceExhausted) << outcome.status();
  ASSERT_EQ(reported_.size(), 1u);
  EXPECT_MESSAGE(reported_[0].second);
}

TEST_F(TrainTest, AnExceptionInTheLoopIsReportedByItsRankAlone) {
  adjust_ = [](TrainOptions& options, const collectives::Communicator&) {
    options.progress = [](uint64_t done, uint64_t) {
      if (done == 4) throw std::runtime_error("no paper");
    };
  };
  const auto outcome = Run(3);
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kInternal) << outcome.status();
  ASSERT_EQ(reported_.size(), 1u);
  EXPECT_MESSAGE(reported_[0].second);
}

TEST_F(TrainTest, SaysWhatTheReductionsCostAndWhoIsAwaited) {
  // All hear that the others have waited long for rank 0.
  run_ranks_ = [](int world, const RankBody& body) {
    return collectives::RunRanks(world, [&](collectives::Communicator& real) {
      const auto say_waits = [](int, std::span<double> heard, double) {
        std::ranges::fill(heard.subspan(2), 1e6);
        heard[2] = 0;
      };
      SeesAsks communicator(
          real, [](int, std::span<const double>) {}, say_waits);
      return body(communicator);
    });
  };
  const auto outcome = Run(3);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_TRUE(outcome->straggler.has_value());
  EXPECT_EQ(outcome->straggler->rank, 0);
  EXPECT_THAT(steps_, Contains(HasSubstr("rank 0 is awaited: median ")));
  EXPECT_THAT(lines_, Contains(AllOf(StartsWith("rank 0 is awaited: median "), HasSubstr(" ms of "),
                                     HasSubstr(" ms steps"))));
  EXPECT_EQ(outcome->reduction.steps, kSteps);
  // 3x3x1x8 + 8 weights of the convolution, 2x2x8x3 + 3 of the layer behind it; each from a
  // multiple of 64 bytes on.
  EXPECT_GE(outcome->reduction.total().bytes, kSteps * 4 * (80 + 99));
  EXPECT_LE(outcome->reduction.total().bytes, kSteps * (4 * (80 + 99) + 4 * 64));
  EXPECT_GT(outcome->reduction.total().exposed_seconds, 0);
  EXPECT_THAT(lines_,
              Contains(AllOf(StartsWith("reduction: 1 bucket, "), HasSubstr(" exposed ("))));
}

TEST_F(TrainTest, ARankAloneHasNoReductionToSpeakOf) {
  const auto outcome = Run(1);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_FALSE(outcome->straggler.has_value());
  EXPECT_THAT(lines_, Not(Contains(StartsWith("reduction: "))));
}

TEST_F(TrainTest, ATimelineThatOnlyOneRankWantsIsAnErrorOfAll) {
  adjust_ = [this](TrainOptions& options, const collectives::Communicator& communicator) {
    if (communicator.rank() == 1) options.timeline_file = folder_ / "timeline.json";
  };
  const auto outcome = Run(2);
  EXPECT_MESSAGE(outcome.status(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TrainTest, ATimelineThatCannotBeWrittenIsAnErrorBeforeTheFirstStep) {
  adjust_ = [this](TrainOptions& options, const collectives::Communicator&) {
    options.timeline_file = folder_ / "nowhere/timeline.json";
  };
  const auto outcome = Run(2);
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kNotFound) << outcome.status();
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("nowhere/timeline.json"));
  EXPECT_TRUE(steps_.empty());
}

TEST_F(TrainTest, ATimelineThatCannotBeWrittenAtTheEndIsAWarning) {
  std::vector<std::string> warnings;
  fs::create_directories(folder_ / "traces");
  adjust_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
    options.timeline_file = folder_ / "traces/timeline.json";
    if (communicator.rank() != 0) return;
    options.warn = [&](std::string_view line) { warnings.emplace_back(line); };
    options.on_weights = [this](uint64_t, std::vector<std::vector<float>>&) {
      fs::remove_all(folder_ / "traces");
    };
  };
  const auto outcome = Run(2, /*resume=*/false, /*stop_after=*/3);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_TRUE(outcome->stopped);
  EXPECT_THAT(warnings, Contains(AllOf(StartsWith("no timeline: "), HasSubstr("traces"))));
}

TEST_F(TrainTest, AnErrorOfAllRanksIsReportedOnce) {
  fs::remove(folder_ / "model.pbtxt");
  EXPECT_FALSE(Run(3).ok());
  ASSERT_EQ(reported_.size(), 1u);
  EXPECT_EQ(reported_[0].first, 0);
  EXPECT_MESSAGE(reported_[0].second);
}

TEST_F(TrainTest, AFolderThatCannotBeWrittenIsRefusedBeforeTraining) {
  WriteJob("/proc/checkpoints");
  const auto outcome = Run(2);
  EXPECT_MESSAGE(outcome.status(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(steps_.empty());
}

TEST_F(TrainTest, AnOldCheckpointThatCannotBeRemovedIsAWarningAndTheJobGoesOn) {
  std::ifstream job(folder_ / "job.pbtxt");
  std::string text(std::istreambuf_iterator<char>(job), {});
  text.replace(text.find("keep: 100"), 9, "keep: 1");
  Write(folder_ / "job.pbtxt", text);
  const fs::path stays = folder_ / "checkpoints" / "checkpoint-00000001.safetensors";
  std::vector<std::string> warnings;
  adjust_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
    if (communicator.rank() != 0) return;
    options.progress = [&](uint64_t done, uint64_t) {
      if (done == 1) fs::create_directories(stays / "notes");
    };
    options.warn = [&](std::string_view line) { warnings.emplace_back(line); };
  };
  const auto outcome = Run(2);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(Load(outcome->checkpoint).metadata.at("step"), std::to_string(kSteps));
  EXPECT_THAT(warnings, AllOf(SizeIs(4), Each(HasSubstr(stays.string()))));  // steps 3, 6, 9, 10
}

// A rate that overflows the weights at once is found in them before they are saved (at step 6); one
// that only makes them huge, in the loss of the step after.
TEST_F(TrainTest, ATrainingThatDivergedStopsAndKeepsTheGoodCheckpoints) {
  for (const bool at_once : {true, false}) {
    RemoveCheckpoints();
    WriteJob(
        "checkpoints",
        absl::StrCat("base_lr: 1e-4 step { epoch: 1 factor: ", at_once ? "1e60" : "1e30", " }"));
    const auto outcome = Run(2);
    EXPECT_MESSAGE(outcome.status(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(fs::exists(folder_ / "checkpoints/checkpoint-00000006.safetensors"), !at_once);
    EXPECT_FALSE(fs::exists(folder_ / "checkpoints/checkpoint-00000009.safetensors"));
    EXPECT_EQ(reported_.size(), 1u);
  }
}

// Behind a ReLU, which makes a zero of NaN, the loss stays finite. There is no checkpoint whose
// saving would find it.
TEST_F(TrainTest, AWeightThatIsNotFiniteEndsTheJobAtTheNextLine) {
  Write(folder_ / "job.pbtxt",
        "model: \"model.pbtxt\" train: \"train.pbtxt\" epochs: 2 log_every_steps: 4");
  adjust_ = [](TrainOptions& options, const collectives::Communicator&) {
    options.on_weights = [](uint64_t step, std::vector<std::vector<float>>& weights) {
      if (step == 5) weights[0][0] = std::nanf("");
    };
  };
  EXPECT_MESSAGE(Run(2).status(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(steps_, SizeIs(1));
}

TEST_F(TrainTest, AnAbsurdNumberOfStepsIsRefused) {
  WriteJob("checkpoints", "", "epochs: 4294967295 steps_per_epoch: 1099511627776");
  auto outcome = Run(1);
  EXPECT_MESSAGE(outcome.status(), absl::StatusCode::kInvalidArgument);
  WriteJob("checkpoints", "", "epochs: 2 steps_per_epoch: 9223372036854775808");
  outcome = Run(1);
  EXPECT_MESSAGE(outcome.status(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TrainTest, AnEmptyEvaluationIsRefusedBeforeTraining) {
  WriteShard(folder_ / "test-0.tfrecord", 1000, 0);
  const auto outcome = Run(2);
  EXPECT_MESSAGE(outcome.status(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(steps_.empty());
}

TEST_F(TrainTest, EveryKindOfBatchScalesTheLearningRate) {
  // How many batches buckets make is not known before the end, so steps_per_epoch is given.
  WriteJob("checkpoints", "base_lr: 0.05 base_batch: 16", "epochs: 1 steps_per_epoch: 5");
  const std::string plain = PipelineText("${DATA}/train-*.tfrecord", 8, true);
  for (const std::string kind :
       {"batch { size: 8 }", "padded_batch { size: 8 }", "ragged_batch { size: 8 }",
        "bucket_by_length { field: \"image\" boundary: 9 batch_size: 8 batch_size: 8 }"}) {
    std::string text = plain;
    text.replace(text.find("batch { size: 8 }"), std::string_view("batch { size: 8 }").size(),
                 kind);
    Write(folder_ / "train.pbtxt", text);
    const auto outcome = Run(1);
    ASSERT_TRUE(outcome.ok()) << kind << ": " << outcome.status();
    EXPECT_THAT(lines_, Contains(HasSubstr("0.025 after scaling"))) << kind;
    EXPECT_THAT(lines_, Contains(HasSubstr("8 global"))) << kind;
    RemoveCheckpoints();
  }
}

TEST_F(TrainTest, BucketsOfSeveralBatchSizesHaveNoLearningRate) {
  std::string text = PipelineText("${DATA}/train-*.tfrecord", 8, true);
  text.replace(text.find("batch { size: 8 }"), std::string_view("batch { size: 8 }").size(),
               "bucket_by_length { field: \"image\" boundary: 9 batch_size: 8 batch_size: 4 }");
  Write(folder_ / "train.pbtxt", text);
  const auto outcome = Run(2);
  EXPECT_MESSAGE(outcome.status(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TrainTest, NothingToTrainOnIsRefused) {
  WriteShard(folder_ / "train-0.tfrecord", 0, 0);
  WriteShard(folder_ / "train-1.tfrecord", 0, 0);
  const auto outcome = Run(1);
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kInvalidArgument) << outcome.status();
}

TEST_F(TrainTest, RanksWithOtherFilesNameRankAndDifference) {
  const auto variant = [&](const std::string& file, const std::string& from,
                           const std::string& to) {
    adjust_ = [&, file, from, to](TrainOptions& options,
                                  const collectives::Communicator& communicator) {
      options.variables[from] = communicator.rank() == 1 ? to : file;
    };
  };
  Write(folder_ / "model.pbtxt",
        "layer { input_layer { shape: 6 shape: 6 shape: 1 } }\n"
        "layer { name: \"conv_x\" convolution { filters: ${FILTERS} kernel: 3 } }\n"
        "layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} }\n");
  variant("8", "FILTERS", "4");
  EXPECT_MESSAGE(Run(3).status(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(reported_.size(), 1u);
  WriteModel(8);
  WriteJob("checkpoints", "base_lr: ${RATE}");
  variant("0.05", "RATE", "0.1");
  EXPECT_MESSAGE(Run(3).status(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TrainTest, IndexingShowsNoProgressOnOtherRanks) {
  std::atomic<int> elsewhere{0};
  adjust_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
    options.index_progress = [&, rank = communicator.rank()](int64_t, int64_t) {
      elsewhere += rank == 0 ? 0 : 1;
    };
  };
  ASSERT_TRUE(Run(2).ok());
  EXPECT_EQ(elsewhere, 0);
}

// Alone on purpose: of several ranks, the one that comes first makes the index.
TEST_F(TrainTest, IndexingShowsProgress) {
  int calls = 0;
  adjust_ = [&calls](TrainOptions& options, const collectives::Communicator&) {
    options.threads = 1;
    options.index_progress = [&calls](int64_t, int64_t total) { calls += total > 0 ? 1 : 0; };
  };
  ASSERT_TRUE(Run(1).ok());
  EXPECT_GT(calls, 0);
}

// The views of a run's ranks, by rank.
class Views {
 public:
  explicit Views(int world) : views_(world) {}

  void Add(std::shared_ptr<const RankView> view) {
    const std::lock_guard lock(mu_);
    views_.at(view->rank()) = std::move(view);
  }
  const RankView& operator[](size_t rank) const { return *views_[rank]; }

 private:
  std::mutex mu_;
  std::vector<std::shared_ptr<const RankView>> views_;
};

TEST_F(TrainTest, RanksCanBeLookedAtWhileTheyTrainAndAfterwards) {
  for (const int world : {1, 2}) {
    Views views(world);
    std::atomic<int64_t> rows_seen{0};
    adjust_ = [&](TrainOptions& options, const collectives::Communicator&) {
      options.observe = [&views](std::shared_ptr<const RankView> view) {
        EXPECT_EQ(view->figures().times.steps, 0u);
        EXPECT_EQ(view->counts().records_bad, 3);
        views.Add(std::move(view));
      };
      options.metrics = std::make_shared<Metrics>();
      options.metrics->counter(metric::kRecordsBad).Add(3);
      options.metrics->counter(metric::kFetchedBytes).Add(500);
      options.progress = [&](uint64_t, uint64_t) { rows_seen = views[0].profile().rows; };
    };
    WriteJob(absl::StrCat("checkpoints", world));
    ASSERT_TRUE(Run(world).ok());
    EXPECT_GT(rows_seen, 0);
    for (int rank = 0; rank < world; ++rank) {
      const RankView& view = views[rank];
      EXPECT_EQ(view.world(), world);
      const RankFigures figures = view.figures();
      EXPECT_EQ(figures.step, static_cast<uint64_t>(kSteps));
      EXPECT_EQ(figures.total_steps, static_cast<uint64_t>(kSteps));
      EXPECT_EQ(figures.epoch, 2);
      EXPECT_TRUE(figures.loss.has_value());
      EXPECT_EQ(figures.times.steps, static_cast<uint64_t>(kSteps));
      EXPECT_EQ(figures.times.samples, 2 * kTrainSamples);  // of all ranks
      EXPECT_GT(figures.times.step_seconds, 0);
      EXPECT_GE(view.profile().batches, kSteps);
      EXPECT_EQ(view.counts().records_bad, 3);
      EXPECT_EQ(view.counts().fetched_bytes, 500);
    }
  }
}

TEST_F(TrainTest, RanksCanBeTracedWhileTheyTrainAndNotAfterwards) {
  Views views(1);
  size_t events = 0;
  adjust_ = [&](TrainOptions& options, const collectives::Communicator&) {
    options.observe = [&views](std::shared_ptr<const RankView> view) {
      view->StartTrace();
      views.Add(std::move(view));
    };
    options.progress = [&](uint64_t, uint64_t) { events += views[0].TakeTrace().events.size(); };
  };
  WriteJob("checkpoints");
  ASSERT_TRUE(Run(1).ok());
  EXPECT_GT(events, 0u);
  views[0].StartTrace();
  EXPECT_TRUE(views[0].TakeTrace().events.empty());
}

TEST_F(TrainTest, EvaluationsShowProgressOnRankZero) {
  std::vector<std::pair<int64_t, int64_t>> told;
  adjust_ = [&told](TrainOptions& options, const collectives::Communicator& communicator) {
    options.evaluation_progress = [&told, rank = communicator.rank()](int64_t done, int64_t all) {
      EXPECT_EQ(rank, 0);
      told.emplace_back(done, all);
    };
  };
  ASSERT_TRUE(Run(2).ok());
  ASSERT_THAT(told, SizeIs(2 * 5));  // two evaluations of 23 samples in batches of 5
  EXPECT_EQ(told.front(), std::pair(int64_t{1}, int64_t{5}));
  EXPECT_EQ(told.back(), std::pair(int64_t{5}, int64_t{5}));
}

TEST_F(TrainTest, TheTableSaysEverySetting) {
  ASSERT_TRUE(Run(2).ok());
  for (const char* expected :
       {"DATA=", "epochs", "every 1 steps", "every 3 steps", "of the pipeline", "ahead",
        "batches of 5", "fingerprint", "threads per rank", "seeds"}) {
    EXPECT_THAT(lines_, Contains(HasSubstr(expected))) << expected;
  }
}

}  // namespace
}  // namespace millrace::trainer
