// What a job's `reduction` does to a training: real shards, ranks as threads.

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <map>
#include <span>
#include <thread>

#include "base/status.h"
#include "tests/messages.h"
#include "tests/trainer/loop/sees_asks.h"
#include "tests/trainer/loop/train_fixture.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"

namespace millrace::trainer {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

// Ranks as threads that talk over TCP, as processes do.
absl::Status RunRanksOverTcp(const std::string& folder, int world, const RankBody& body) {
  std::vector<absl::Status> statuses(world);
  {
    std::vector<std::jthread> running;
    for (int rank = 0; rank < world; ++rank) {
      running.emplace_back([&, rank] {
        collectives::ConnectOptions options;
        options.backend = "tcp";
        options.flags.rank = rank;
        options.flags.size = world;
        options.rendezvous = "file:" + folder;
        const auto launch = collectives::Connect(options);
        statuses[rank] = launch.ok() ? body(*launch->communicator) : launch.status();
      });
    }
  }
  for (const absl::Status& status : statuses) MILLRACE_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

class ReductionTrainTest : public TrainTest {
 protected:
  void SetBatch(int size) {
    Write(folder_ / "train.pbtxt", PipelineText("${DATA}/train-*.tfrecord", size, true));
  }
  // Trains from the start with `reduction`; returns the newest checkpoint's tensors.
  std::map<std::string, std::vector<float>> TrainWith(int world, const std::string& reduction,
                                                      const std::string& optimizer = "",
                                                      const std::string& more = "epochs: 2") {
    RemoveCheckpoints();
    WriteJob("checkpoints", optimizer, absl::StrCat(more, " reduction { ", reduction, " }"));
    return Tensors(Run(world));
  }
  std::map<std::string, std::vector<float>> Tensors(const absl::StatusOr<TrainOutcome>& outcome) {
    std::map<std::string, std::vector<float>> tensors;
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    if (!outcome.ok()) return tensors;
    for (auto& [name, tensor] : Load(outcome->checkpoint).tensors) tensors[name] = tensor.data;
    return tensors;
  }
  static void ExpectNear(const std::map<std::string, std::vector<float>>& actual,
                         const std::map<std::string, std::vector<float>>& expected) {
    for (const auto& [name, values] : expected) {
      for (size_t k = 0; k < values.size(); ++k) {
        ASSERT_NEAR(actual.at(name)[k], values[k], 1e-5) << name << "[" << k << "]";
      }
    }
  }
};

// An epoch of 37 samples: batches of 3 make steps of 3, 3, 3, 3 and 1 batches.
TEST_F(ReductionTrainTest, MicroBatchesEqualOneBatchOfTheirRows) {
  SetBatch(9);
  const auto expected = TrainWith(1, "");
  SetBatch(3);
  for (const int world : {1, 2}) {
    const auto actual = TrainWith(world, "accumulate_steps: 3");
    ExpectNear(actual, expected);
    EXPECT_EQ(steps_.size(), static_cast<size_t>(kSteps)) << world;
    EXPECT_THAT(lines_, Contains(HasSubstr("total: 10 steps, 74 samples")));
  }
}

// S-TRAIN-5.
TEST_F(ReductionTrainTest, MicroBatchesHaveTheBitsOfRanksThatTakeTheirRows) {
  const auto expected = TrainWith(2, "");
  SetBatch(4);
  EXPECT_EQ(TrainWith(1, "accumulate_steps: 2"), expected);
}

TEST_F(ReductionTrainTest, TheRateGrowsWithTheRowsOfAStep) {
  SetBatch(4);
  (void)TrainWith(1, "accumulate_steps: 2", "base_lr: 0.05 base_batch: 16");
  EXPECT_THAT(lines_, Contains(HasSubstr("0.025 after scaling")));
}

TEST_F(ReductionTrainTest, TheRateGrowsWithNoMoreRowsThanAnEpochHas) {
  SetBatch(4);
  const auto expected = TrainWith(1, "accumulate_steps: 10", "base_lr: 0.05 base_batch: 80");
  EXPECT_EQ(TrainWith(1, "accumulate_steps: 1000", "base_lr: 0.05 base_batch: 80"), expected);
  EXPECT_THAT(lines_, Contains(HasSubstr("0.025 after scaling")));
  EXPECT_THAT(lines_, Contains(HasSubstr("10 batches a step")));
  EXPECT_THAT(lines_, Contains(HasSubstr("total: 2 steps, 74 samples")));
}

TEST_F(ReductionTrainTest, AStopInsideAStepContinuesAtItsFirstBatchBitForBit) {
  SetBatch(3);
  const auto expected = TrainWith(1, "accumulate_steps: 3");
  for (const int batch : {1, 2, 5, 13, 16}) {  // of 13 per epoch
    RemoveCheckpoints();
    std::atomic<bool> stop = false;
    adjust_ = [&](TrainOptions& options, const collectives::Communicator&) {
      options.stop = &stop;
    };
    run_ranks_ = [&](int, const RankBody& body) {
      const auto real = collectives::MakeSingle();
      // The loop stops before its next batch.
      SeesAsks communicator(*real, [&](int ask, std::span<const double>) {
        if (ask == batch) stop = true;
      });
      return body(communicator);
    };
    const auto stopped = Run(1);
    ASSERT_TRUE(stopped.ok()) << stopped.status();
    EXPECT_TRUE(stopped->stopped);
    adjust_ = {};
    run_ranks_ = collectives::RunRanks;
    EXPECT_EQ(Tensors(Run(1, true)), expected) << "stopped at batch " << batch;
    EXPECT_EQ(stopped->steps + steps_.size(), static_cast<size_t>(kSteps));
  }
}

// An epoch of 13 batches makes steps of 4, 4, 4 and 1.
TEST_F(ReductionTrainTest, WaitsOfAStepsBatchesAreAddedUpAndCountedOnce) {
  constexpr double kWait = 0.5;
  SetBatch(3);
  run_ranks_ = [](int world, const RankBody& body) {
    return collectives::RunRanks(world, [&](collectives::Communicator& real) {
      const size_t own = 2 + static_cast<size_t>(real.rank());
      const auto begins_step = [](int ask) { return (ask - 1) % 13 % 4 == 0; };
      double waited = 0;  // in the exchanges of the step
      const auto before = [&](int ask, std::span<const double> told) {
        if (begins_step(ask)) {
          EXPECT_GE(told[own], waited) << ask;
          waited = 0;
        } else {
          EXPECT_EQ(told[own], 0) << ask;
        }
      };
      const auto after = [&](int ask, std::span<double> heard, double seconds) {
        waited += seconds;
        if (!begins_step(ask)) return;
        heard[2] = kWait;
        heard[3] = 0;
      };
      SeesAsks communicator(real, before, after);
      return body(communicator);
    });
  };
  WriteJob("checkpoints", "", "epochs: 2 reduction { accumulate_steps: 4 }");
  const auto outcome = Run(2);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_TRUE(outcome->straggler.has_value());
  EXPECT_EQ(outcome->straggler->rank, 1);
  EXPECT_NEAR(outcome->straggler->median_seconds, kWait, 0.05 * kWait);
}

// S-TRAIN-5.
TEST_F(ReductionTrainTest, ShardedStateHasTheBitsOfWholeState) {
  for (const int world : {1, 2, 3}) {
    const auto expected = TrainWith(world, "clip_norm: 1");
    EXPECT_EQ(TrainWith(world, "clip_norm: 1 shard_optimizer: true digest_every: 1"), expected)
        << world;
  }
}

TEST_F(ReductionTrainTest, ShardedStateHasTheBitsOfWholeStateWithEveryOptimizer) {
  for (const char* const optimizer : {"adam {} weight_decay: 0.01", "adamw {} weight_decay: 0.01",
                                      "rmsprop { momentum: 0.5 centered: true }",
                                      "lars { trust_coefficient: 0.5 } weight_decay: 0.01"}) {
    const std::string spec = absl::StrCat("base_lr: 0.01 ", optimizer);
    const auto expected = TrainWith(3, "clip_norm: 1", spec);
    for (const int bytes : {64, 1 << 20}) {
      const std::string sizes = absl::StrCat("bucket_bytes: ", bytes, " edge_bucket_bytes: 64");
      const auto whole = TrainWith(3, absl::StrCat("clip_norm: 1 ", sizes), spec);
      EXPECT_EQ(TrainWith(3, absl::StrCat("clip_norm: 1 shard_optimizer: true ", sizes), spec),
                whole)
          << optimizer << ", " << sizes;
    }
    RemoveCheckpoints();
    WriteJob("checkpoints", spec, "epochs: 2 reduction { clip_norm: 1 shard_optimizer: true }");
    ASSERT_TRUE(Run(3, false, 4).ok());
    EXPECT_EQ(Tensors(Run(3, true)), expected) << optimizer << ", continued";
  }
}

TEST_F(ReductionTrainTest, ShardedStateContinuesOnAnotherNumberOfRanks) {
  std::vector<std::map<std::string, std::vector<float>>> ends;
  for (const char* reduction : {"", "shard_optimizer: true"}) {
    RemoveCheckpoints();
    WriteJob("checkpoints", "", absl::StrCat("epochs: 2 reduction { ", reduction, " }"));
    ASSERT_TRUE(Run(3, false, 4).ok());
    ends.push_back(Tensors(Run(2, true)));
  }
  EXPECT_EQ(ends[0], ends[1]);
}

TEST_F(ReductionTrainTest, ShardsGoWithAccumulation) {
  SetBatch(3);
  const auto expected = TrainWith(2, "accumulate_steps: 3");
  EXPECT_EQ(TrainWith(2, "accumulate_steps: 3 shard_optimizer: true"), expected);
}

// S-TRAIN-6.
TEST_F(ReductionTrainTest, AStepThatIsNotFiniteIsSkippedOnAllRanksAndCounted) {
  WriteShard(folder_ / "train-1.tfrecord", 20, kTrainSamples - 20, -1, /*infinite=*/25);
  std::vector<std::vector<uint64_t>> digests(2);
  std::vector<std::string> warnings;
  adjust_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
    options.on_weights = [&digests, rank = communicator.rank()](uint64_t, TensorSet& weights) {
      digests[rank].push_back(Digest(weights));
    };
    if (communicator.rank() == 0) {
      options.warn = [&](std::string_view line) { warnings.emplace_back(line); };
    }
  };
  WriteJob("checkpoints", "", "epochs: 2 reduction { skip_non_finite: true }");
  const auto outcome = Run(2);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->skipped, 2u) << "once per epoch";
  EXPECT_EQ(Load(outcome->checkpoint).metadata.at("updates"), std::to_string(kSteps - 2));
  EXPECT_EQ(outcome->steps, static_cast<uint64_t>(kSteps));
  EXPECT_TRUE(std::isfinite(outcome->last_loss));
  EXPECT_EQ(digests[0], digests[1]);
  ASSERT_EQ(digests[0].size(), static_cast<size_t>(kSteps));
  size_t same = 0;
  for (size_t i = 1; i < digests[0].size(); ++i) same += digests[0][i] == digests[0][i - 1];
  EXPECT_GE(same, 1u) << "weights of a skipped step are those before it";
  EXPECT_LE(same, 2u);
  EXPECT_THAT(warnings, AllOf(::testing::SizeIs(2), Each(HasSubstr("the step is skipped"))));
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("step "), HasSubstr("  skipped 1"))));
  EXPECT_THAT(lines_, Contains("skipped: 2 steps whose gradients were not finite"));
}

TEST_F(ReductionTrainTest, TooManySkippedStepsInARowEndEveryRank) {
  for (const char* shard : {"train-0.tfrecord", "train-1.tfrecord"}) {
    auto writer = readers::TfRecordWriter::Open(folder_ / shard);
    ASSERT_TRUE(writer.ok());
    for (int i = 0; i < 18; ++i) ASSERT_TRUE((*writer)->Write(MakeExample(i, 0, INFINITY)).ok());
    ASSERT_TRUE((*writer)->Close().ok());
  }
  WriteJob("checkpoints", "", "epochs: 2 reduction { skip_non_finite: true max_skipped_steps: 1 }");
  EXPECT_FALSE(Run(2).ok());
  for (const absl::Status& status : statuses_) {
    EXPECT_MESSAGE(status, absl::StatusCode::kOutOfRange, "every-rank");
  }
  EXPECT_EQ(reported_.size(), 1u);
}

TEST_F(ReductionTrainTest, AScaleOfTheLossChangesNoBit) {
  const std::string clipped = "skip_non_finite: true clip_norm: 0.5";
  const auto plain = TrainWith(2, clipped);
  for (const char* const scaling : {"static: 1024", "dynamic { growth_interval: 2 }"}) {
    EXPECT_EQ(TrainWith(2, clipped, "", absl::StrCat("epochs: 2 loss_scaling { ", scaling, " }")),
              plain)
        << scaling;
  }
}

TEST_F(ReductionTrainTest, ADynamicScaleFollowsSkippedStepsAndIsResumed) {
  WriteShard(folder_ / "train-1.tfrecord", 20, kTrainSamples - 20, -1, /*infinite=*/25);
  std::vector<std::string> warnings;
  adjust_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
    if (communicator.rank() != 0) return;
    options.warn = [&](std::string_view line) { warnings.emplace_back(line); };
  };
  const std::string job = "epochs: 2 loss_scaling { dynamic { growth_interval: 4 } }";
  WriteJob("whole", "", job);
  const auto whole = Run(2);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->skipped, 2u);
  EXPECT_THAT(warnings, Each(HasSubstr("the step is skipped, and the loss scale is now ")));
  EXPECT_THAT(lines_, Contains(HasSubstr("dynamic from 65536")));
  const TensorFile expected = Load(whole->checkpoint);
  const std::string scale = expected.metadata.at("loss_scale");
  EXPECT_THAT(scale, ::testing::MatchesRegex("[0-9]+ [0-3]"));
  WriteJob("checkpoints", "", job);
  ASSERT_TRUE(Run(2, false, 7).ok());
  const auto resumed = Run(2, true);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  const TensorFile actual = Load(resumed->checkpoint);
  EXPECT_EQ(actual.metadata.at("loss_scale"), scale);
  for (const auto& [name, tensor] : expected.tensors) {
    EXPECT_EQ(actual.tensors.at(name).data, tensor.data) << name;
  }
}

// One step of plain descent from known weights gives the gradient back.
TEST_F(ReductionTrainTest, ClippingEqualsTheReference) {
  const std::string plain = "base_lr: 0.5";
  const std::string one_step = "epochs: 1 steps_per_epoch: 1";
  std::set<std::string> used;
  const auto model = LoadModel(folder_ / "model.pbtxt", {}, used);
  ASSERT_TRUE(model.ok());
  const TensorSet before = MakeInitialWeights(*model, 3);
  const auto free = TrainWith(2, "", plain, one_step);
  double squares = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    for (size_t k = 0; k < before[i].size(); ++k) {
      squares += std::pow((before[i][k] - free.at(model->parameters[i].name)[k]) / 0.5, 2);
    }
  }
  const double norm = std::sqrt(squares);
  ASSERT_GT(norm, 0.2);
  const auto clipped = TrainWith(2, "clip_norm: 0.1", plain, one_step);
  for (size_t i = 0; i < before.size(); ++i) {
    const std::string& name = model->parameters[i].name;
    for (size_t k = 0; k < before[i].size(); ++k) {
      const double step = (before[i][k] - free.at(name)[k]) * 0.1 / norm;
      ASSERT_NEAR(clipped.at(name)[k], before[i][k] - step, 1e-6) << name;
    }
  }
  EXPECT_THAT(steps_, Contains(HasSubstr(absl::StrCat("  norm ", std::floor(norm * 100) / 100))));
  EXPECT_THAT(steps_, Contains(HasSubstr("(1 clipped)")));
  EXPECT_EQ(TrainWith(2, "clip_norm: 1000", plain, one_step), free);
}

TEST_F(ReductionTrainTest, ADigestThatDiffersNamesTheParameterOnEveryRank) {
  adjust_ = [](TrainOptions& options, const collectives::Communicator& communicator) {
    if (communicator.rank() != 1) return;
    options.on_weights = [](uint64_t step, TensorSet& weights) {
      if (step == 3) weights[2][1] = std::nextafter(weights[2][1], 1e9f);
    };
  };
  WriteJob("checkpoints", "", "epochs: 2 reduction { digest_every: 2 }");
  EXPECT_FALSE(Run(3).ok());
  for (const absl::Status& status : statuses_) {
    EXPECT_MESSAGE(status, absl::StatusCode::kDataLoss, "every-rank");
  }
  EXPECT_EQ(reported_.size(), 1u) << "said once";
}

// S-TRAIN-5.
TEST_F(ReductionTrainTest, ExactSumsHaveTheSameBitsOverThreadsAndTcp) {
  const auto threads = TrainWith(3, "exact: true");
  const std::string meeting = folder_ / "meeting";
  fs::create_directories(meeting);
  run_ranks_ = [&](int world, const RankBody& body) {
    return RunRanksOverTcp(meeting, world, body);
  };
  EXPECT_EQ(TrainWith(3, "exact: true"), threads);
}

TEST_F(ReductionTrainTest, LateSumsAreUsedOnceEachAndEndWithASynchronousTail) {
  const auto plain = TrainWith(2, "");
  EXPECT_EQ(TrainWith(2, "stale_steps: 2 synchronous_tail: 10"), plain) << "nothing is late";
  std::vector<uint64_t> late;
  adjust_ = [&](TrainOptions& options, const collectives::Communicator& communicator) {
    if (communicator.rank() != 0) return;
    options.on_weights = [&late](uint64_t step, TensorSet&) { late.push_back(step); };
  };
  EXPECT_NE(TrainWith(2, "stale_steps: 2 synchronous_tail: 3 digest_every: 1"), plain);
  EXPECT_THAT(late, ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(lines_, Contains(HasSubstr("total: 10 steps, 74 samples")));
}

// S-TRAIN-7. Plain steps whose weights are put back to older ones give the gradients at those.
TEST_F(ReductionTrainTest, LateSumsMatchTheReference) {
  constexpr size_t kDelay = 2;
  std::set<std::string> used;
  const auto model = LoadModel(folder_ / "model.pbtxt", {}, used);
  ASSERT_TRUE(model.ok());
  std::vector<TensorSet> after = {MakeInitialWeights(*model, 3)};  // so many updates
  TensorSet before = after[0];
  adjust_ = [&](TrainOptions& options, const collectives::Communicator&) {
    options.on_weights = [&](uint64_t step, TensorSet& weights) {
      TensorSet next = after.back();
      for (size_t i = 0; i < next.size(); ++i) {
        for (size_t k = 0; k < next[i].size(); ++k) next[i][k] += weights[i][k] - before[i][k];
      }
      after.push_back(std::move(next));
      weights = before = after[step < kDelay ? 0 : step - kDelay];
    };
  };
  (void)TrainWith(1, "", "base_lr: 0.05");
  ASSERT_EQ(after.size(), static_cast<size_t>(kSteps) + 1);
  adjust_ = {};
  const auto late = TrainWith(1, "stale_steps: 2", "base_lr: 0.05");
  for (size_t i = 0; i < model->parameters.size(); ++i) {
    const std::string& name = model->parameters[i].name;
    for (size_t k = 0; k < after.back()[i].size(); ++k) {
      ASSERT_NEAR(late.at(name)[k], after.back()[i][k], 1e-5) << name;
    }
  }
}

TEST_F(ReductionTrainTest, AStopAmongLateSumsContinuesWithTheStepsThatWereUnderWay) {
  WriteJob("checkpoints", "", "epochs: 2 reduction { stale_steps: 2 synchronous_tail: 2 }");
  const auto stopped = Run(2, false, 3);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_TRUE(stopped->stopped);
  EXPECT_EQ(stopped->steps, 3u) << "two more were under way";
  const auto resumed = Run(2, true);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->steps, static_cast<uint64_t>(kSteps));
  EXPECT_EQ(steps_.size(), 7u);
}

TEST_F(ReductionTrainTest, TheTableSaysWhatTheReductionDoes) {
  (void)TrainWith(2,
                  "clip_norm: 2 skip_non_finite: true digest_every: 5 accumulate_steps: 2 "
                  "progress_policy: \"inline\"");
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("gradients"), HasSubstr("plan 0x"),
                                     HasSubstr("inline (as asked for)"))));
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("reduction"), HasSubstr("2 batches a step"),
                                     HasSubstr("norm clipped to 2"), HasSubstr("skipped"),
                                     HasSubstr("compared every 5 steps"))));
}

TEST_F(ReductionTrainTest, RanksWithOtherReductionsAreNamed) {
  adjust_ = [](TrainOptions& options, const collectives::Communicator& communicator) {
    if (communicator.rank() == 1) options.reduction = {{"clip_norm", "1"}};
  };
  const auto outcome = Run(2);
  EXPECT_MESSAGE(outcome.status(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::trainer
