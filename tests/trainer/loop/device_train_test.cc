#include <gmock/gmock.h>

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/messages.h"
#include "tests/trainer/loop/device_train_fixture.h"
#include "trainer/inference/inference.h"

namespace millrace::trainer {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

void ExpectNear(const TensorSet& found, const TensorSet& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].size(), expected[i].size());
    for (size_t k = 0; k < found[i].size(); ++k) {
      ASSERT_NEAR(found[i][k], expected[i][k], tolerance) << i << " " << k;
    }
  }
}

TEST_F(DeviceTrainTest, TrainsAsTheCpuDoes) {
  const TensorSet on_device = TensorsOfRun(1, "");
  const std::vector<std::string> steps = steps_;
  RemoveCheckpoints();
  WriteJob("checkpoints", kNesterov);
  const TensorSet on_cpu = TensorsOf(Run(1));
  ExpectNear(on_device, on_cpu, 1e-5);
  EXPECT_EQ(steps.size(), steps_.size());
}

// All ranks have the same weights after every step (digest_every), and a run can be repeated.
TEST_F(DeviceTrainTest, EveryKindOfTrainingHasTheSameBitsAgain) {
  const std::string kinds[] = {
      "reduction { exact: true digest_every: 1 }",
      "reduction { digest_every: 1 shard_optimizer: true bucket_bytes: 256 edge_bucket_bytes: 64 }",
      "reduction { digest_every: 1 stale_steps: 2 synchronous_tail: 3 }",
      "reduction { digest_every: 1 accumulate_steps: 2 clip_norm: 0.5 skip_non_finite: true }",
      "reduction { digest_every: 1 } precision: \"bfloat16\"",
      "reduction { digest_every: 1 } precision: \"float16\" loss_scaling { dynamic {} }"};
  for (const std::string& kind : kinds) {
    for (const int world : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat(world, ", ", kind));
      const TensorSet first = TensorsOfRun(world, kind);
      EXPECT_EQ(first, TensorsOfRun(world, kind));
    }
  }
}

// What a graph holds must not differ between steps. These differ in the memory of the batch, which
// has padding in some steps, in the values that a dropout drops, and in the loss scale.
TEST_F(DeviceTrainTest, GraphsChangeNoBit) {
  Write(folder_ / "model.pbtxt",
        R"(layer { input_layer { shape: [6, 6, 1] } }
           layer { convolution { filters: 8 kernel: 3 bias: false } }
           layer { batch_norm { synchronized: true } } layer { relu {} }
           layer { dropout { rate: 0.25 } } layer { pool { kernel: 2 } }
           layer { fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  std::set<const void*> batches;
  fault_ = [&](std::string_view call, const void*, const void* from, size_t bytes) {
    const std::lock_guard lock(mu_);
    if (call == "Launch") ++calls_;
    if (call == "Copy" && bytes == 8 * 36 * sizeof(float)) batches.insert(from);
    return absl::OkStatus();
  };
  const std::string small_buckets = "bucket_bytes: 256 edge_bucket_bytes: 64 digest_every: 1";
  const std::string kinds[] = {
      absl::StrCat("reduction { exact: true ", small_buckets, " }"),
      absl::StrCat("reduction { accumulate_steps: 2 ", small_buckets, " }"),
      absl::StrCat("reduction { stale_steps: 2 synchronous_tail: 3 ", small_buckets, " }"),
      "precision: \"float16\" loss_scaling { dynamic { init_scale: 1 growth_interval: 3 } }"};
  for (const std::string& kind : kinds) {
    for (const int world : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat(world, ", ", kind));
      calls_ = 0;
      const TensorSet plain = TensorsOfRun(world, absl::StrCat(kind, " cuda_graphs: false"));
      EXPECT_EQ(calls_, 0);
      EXPECT_EQ(TensorsOfRun(world, kind), plain);
      EXPECT_GE(calls_, world * kSteps * 2);
    }
  }
  EXPECT_GT(batches.size(), 1u);
}

TEST_F(DeviceTrainTest, AFeedDoesNotChangeTheBits) {
  const TensorSet fed = TensorsOfRun(2, "reduction { exact: true }");
  feed_ = {};
  EXPECT_EQ(TensorsOfRun(2, "reduction { exact: true }"), fed);
}

TEST_F(DeviceTrainTest, CheckpointsGoFromTheCpuToTheDeviceAndBack) {
  const std::string with_average = absl::StrCat(kNesterov, " ema { decay: 0.9 }");
  RemoveCheckpoints();
  WriteJob("checkpoints", with_average);
  const TensorSet expected = TensorsOf(Run(1));
  for (const bool starts_on_device : {true, false}) {
    SCOPED_TRACE(starts_on_device);
    RemoveCheckpoints();
    const auto write = [&](bool on_device) {
      WriteJob("checkpoints", with_average, on_device ? "epochs: 2 device: \"cuda\"" : "epochs: 2");
    };
    write(starts_on_device);
    const auto stopped = Run(1, /*resume=*/false, /*stop_after=*/4);
    ASSERT_TRUE(stopped.ok()) << stopped.status();
    ASSERT_TRUE(stopped->stopped);
    write(!starts_on_device);
    const auto outcome = Run(1, /*resume=*/true);
    ExpectNear(TensorsOf(outcome), expected, 1e-5);
  }
}

// What the model says of the evaluation's samples, with the weights of the newest checkpoint.
std::vector<float> OutputsOf(const InferenceOptions& options, const DeviceParts& parts) {
  Inference inference;
  EXPECT_TRUE(LoadFiles(options, inference).ok());
  auto loaded = LoadOwnWeights(options, inference);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  inference.loaded = *std::move(loaded);
  const absl::Status made = MakeBackend(options, {}, nullptr, inference, parts.open);
  EXPECT_TRUE(made.ok()) << made;
  EXPECT_EQ(inference.device != nullptr, options.device == "cuda");
  const auto pipeline = OpenEvaluation(inference.parts(), *collectives::MakeSingle());
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  std::vector<float> outputs;
  while (const auto batch = *(*pipeline)->Next()) {
    Network& network = **inference.backend->Compile(batch->num_rows(), NetworkUse::kPrediction);
    StepInput input = InputOf(inference.model, **pipeline, *batch);
    input.targets.clear();
    EXPECT_TRUE(network.Forward(input).ok());
    const std::span<const float> output = *network.output(0);
    outputs.insert(outputs.end(), output.begin(), output.end());
  }
  return outputs;
}

TEST_F(DeviceTrainTest, ATrainedModelPredictsOnTheDeviceAsOnTheCpu) {
  WriteDeviceJob("");
  ASSERT_TRUE(Run(1).ok());
  TrainParts parts;
  change_parts_(parts, *collectives::MakeSingle());
  InferenceOptions options;
  options.job_path = folder_ / "job.pbtxt";
  options.variables = {{"DATA", folder_}};
  options.threads = 1;
  options.device = "cpu";
  const std::vector<float> on_cpu = OutputsOf(options, parts.device);
  options.device = "cuda";
  const std::vector<float> on_device = OutputsOf(options, parts.device);
  ASSERT_GE(on_cpu.size(), 3u * kTestSamples);
  ExpectNear({on_device}, {on_cpu}, 1e-4);
}

TEST_F(DeviceTrainTest, WeightsAreReadForCheckpointsAlone) {
  WriteDeviceJob("");
  fault_ = [this](std::string_view call, const void*, const void*, size_t bytes) {
    const std::lock_guard lock(mu_);
    if (call == "Copy" && bytes == 8 * 9 * sizeof(float)) ++calls_;
    return absl::OkStatus();
  };
  const auto outcome = Run(1);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(steps_.size(), static_cast<size_t>(kSteps));  // each looks at the weights
  const auto files = std::distance(fs::directory_iterator(folder_ / "checkpoints"), {});
  EXPECT_EQ(calls_, 2 * (1 + files));  // the weights of a convolution and their momentum
}

TEST_F(DeviceTrainTest, ADeviceThatFailsEndsAllRanksWithItsReason) {
  for (const bool graphs : {false, true}) {
    SCOPED_TRACE(graphs);
    const std::string folder = absl::StrCat("checkpoints_", graphs);
    WriteJob(folder, kNesterov,
             absl::StrCat("epochs: 2 device: \"cuda\" cuda_graphs: ", graphs ? "true" : "false"));
    calls_ = 0;
    reported_.clear();
    fault_ = [this, graphs](std::string_view call, const void*, const void*, size_t) {
      const std::lock_guard lock(mu_);
      if (call != (graphs ? "Launch" : "Product")) return absl::OkStatus();
      if (++calls_ < (graphs ? 5 : 50)) return absl::OkStatus();
      return absl::InternalError("the device has fallen off the bus");
    };
    EXPECT_FALSE(Run(2).ok());
    ASSERT_FALSE(reported_.empty());
    EXPECT_THAT(reported_[0].second, HasSubstr("the device has fallen off the bus"));
  }
}

TEST_F(DeviceTrainTest, AllRanksTakeThePlansThatTheFirstOneFindsQuick) {
  const TensorSet expected = TensorsOfRun(2, "reduction { exact: true }");
  EXPECT_THAT(built_[0], ElementsAre("eng0"));
  EXPECT_THAT(num_timed_, IsEmpty());
  built_.clear();
  const std::string tuned = "reduction { exact: true } cudnn_plans: \"tuned\"";
  EXPECT_EQ(TensorsOfRun(2, tuned), expected) << "these plans compute alike";
  EXPECT_THAT(built_[0], ElementsAre("eng0", "eng1", "eng2"));
  EXPECT_THAT(built_[1], Contains("eng1"));
  EXPECT_THAT(built_[1], Not(Contains("eng2")));
  EXPECT_GT(num_timed_[0], 0);
  EXPECT_EQ(num_timed_[1], 0);
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("backend"), HasSubstr(" tuned plans, "))));

  built_.clear();
  num_timed_.clear();
  EXPECT_EQ(TensorsOfRun(2, tuned), expected);
  EXPECT_EQ(num_timed_[0], 0) << "they are kept";
  for (const int rank : {0, 1}) EXPECT_THAT(built_[rank], Contains("eng1"));
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("backend"), HasSubstr(" 0 of them timed now"))));
}

TEST_F(DeviceTrainTest, RanksOfUnlikeLibrariesDoNotShareTunedPlans) {
  have_unlike_libraries_ = true;
  WriteDeviceJob("cudnn_plans: \"tuned\"");
  EXPECT_MESSAGE(Run(2).status(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DeviceTrainTest, AFileOfPlansThatIsNotWholeIsAWarning) {
  const std::vector<std::string>& warnings = KeepWarningsOfPlans();
  const std::string tuned = "cudnn_plans: \"tuned\"";
  const TensorSet expected = TensorsOfRun(1, tuned);
  EXPECT_THAT(warnings, IsEmpty());
  for (const auto& entry : fs::directory_iterator(folder_ / "plans")) Write(entry.path(), "eng1");
  num_timed_.clear();
  EXPECT_EQ(TensorsOfRun(1, tuned), expected);
  EXPECT_GT(num_timed_[0], 0);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_MESSAGE(warnings[0]);
  num_timed_.clear();
  EXPECT_EQ(TensorsOfRun(1, tuned), expected);
  EXPECT_EQ(num_timed_[0], 0) << "it was replaced";
}

TEST_F(DeviceTrainTest, PlansThatCannotBeKeptAreAWarning) {
  const std::vector<std::string>& warnings = KeepWarningsOfPlans();
  Write(folder_ / "plans", "no folder");
  WriteDeviceJob("cudnn_plans: \"tuned\"");
  const auto outcome = Run(1);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(warnings.size(), 1u);
}

TEST_F(DeviceTrainTest, WhatADeviceDoesNotDoIsNamed) {
  WriteJob("checkpoints", kNesterov, "epochs: 2 precision: \"float16\"");
  EXPECT_MESSAGE(Run(1), absl::StatusCode::kInvalidArgument);
  WriteJob("checkpoints", kNesterov, "epochs: 2 device: \"tpu\"");
  EXPECT_MESSAGE(Run(1), absl::StatusCode::kInvalidArgument);
  WriteJob("checkpoints", kNesterov, "epochs: 2 device: \"cuda\" strategy { parameter_server {} }");
  EXPECT_MESSAGE(Run(1), absl::StatusCode::kInvalidArgument);
  WriteJob("checkpoints", kNesterov, "epochs: 2 cudnn_plans: \"tuned\"");
  EXPECT_MESSAGE(Run(1), absl::StatusCode::kInvalidArgument);
  WriteJob("checkpoints", kNesterov, "epochs: 2 device: \"cuda\" cudnn_plans: \"best\"");
  EXPECT_MESSAGE(Run(1), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::trainer
