// Trainings of a generator and a discriminator.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_replace.h"
#include "pipeline/pipeline.h"
#include "tests/messages.h"
#include "tests/trainer/loop/train_fixture.h"
#include "tests/trainer/model/test_nets.h"
#include "trainer/explain.h"
#include "trainer/inference.h"
#include "trainer/job/job.h"
#include "trainer/job/models.h"
#include "trainer/loop/noise.h"
#include "trainer/weights.h"

namespace millrace::trainer {
namespace {

constexpr char kGenerator[] = R"(layer { name: "noise" input_layer { field: "noise" shape: 4 } }
    layer { name: "fc" fully_connected { outputs: 36 } }
    layer { name: "small" reshape { shape: [3, 3, 4] } } layer { name: "relu" relu {} }
    layer { name: "conv" transposed_convolution { filters: 1 kernel: 5 stride: 2 same: true } }
    layer { name: "made" tanh {} })";
constexpr char kDiscriminator[] =
    R"(layer { name: "image" input_layer { field: "image" shape: [6, 6, 1] } }
    layer { name: "conv" convolution { filters: 4 kernel: 5 stride: 2 same: true } }
    layer { name: "relu" leaky_relu { slope: 0.2 } }
    layer { name: "fc" fully_connected { outputs: 1 } }
    layer { name: "judgement" sigmoid_cross_entropy {} })";
constexpr char kAdam[] = "optimizer { base_lr: 0.01 adam { beta1: 0.5 } }";
constexpr char kSgd[] = "optimizer { base_lr: 0.05 }";

class AdversarialTrainTest : public TrainTest {
 protected:
  AdversarialTrainTest() {
    for (const int shard : {0, 1}) {
      auto writer = readers::TfRecordWriter::Open(
          (folder_ / absl::StrCat("train-", shard, ".tfrecord")).string());
      EXPECT_TRUE(writer.ok());
      for (int i = 0; i < 20 - 3 * shard; ++i) EXPECT_TRUE((*writer)->Write(Sample(i)).ok());
      EXPECT_TRUE((*writer)->Close().ok());
    }
    Write(folder_ / "generator.pbtxt", kGenerator);
    Write(folder_ / "discriminator.pbtxt", kDiscriminator);
    WriteAdversarialJob(kAdam);
  }

  // Pixels about 0.6: a generator begins about 0.
  static std::string Sample(int number) {
    RandomKey key;
    key.record = static_cast<uint64_t>(number) + 5000;
    RandomStream random(key);
    std::vector<float> pixels(36);
    for (float& pixel : pixels) pixel = 0.6f + 0.2f * (random.NextFloat() - 0.5f);
    readers::ExampleBuilder example;
    example.AddFloats("pixels", pixels);
    example.AddInt("label", 0);
    return example.Serialize();
  }

  void WriteAdversarialJob(const std::string& more, const std::string& adversarial = "",
                           const std::string& checkpoints = "checkpoints",
                           const std::string& generator = "") {
    const std::string epochs = more.find("epochs") == std::string::npos ? "epochs: 2 " : "";
    Write(folder_ / "job.pbtxt",
          absl::StrCat("train: \"train.pbtxt\" seed: 3 log_every_steps: 1 ", epochs, more,
                       "\nadversarial { generator { model: \"generator.pbtxt\" ", generator,
                       " }\n  discriminator { model: \"discriminator.pbtxt\" } ", adversarial,
                       " }\ncheckpoint { folder: \"", checkpoints,
                       "\" every_steps: 3 keep: 100 }\n"));
  }

  std::vector<Model> Models() {
    std::set<std::string> used;
    const auto job = LoadJob(folder_ / "job.pbtxt", {}, used);
    EXPECT_TRUE(job.ok()) << job.status();
    const auto models = LoadModels(*job, {}, used);
    EXPECT_TRUE(models.ok()) << models.status();
    return *models;
  }

  // The weights of `model` in a checkpoint.
  TensorSet WeightsIn(const std::string& path, const Model& model) {
    const TensorFile file = Load(path);
    TensorSet weights;
    for (const Parameter& parameter : model.parameters) {
      weights.push_back(file.tensors.at(parameter.name).data);
    }
    return weights;
  }

  // Trains on 1, 2 and 3 ranks.
  void ExpectRanksAreOne(double tolerance) {
    std::map<int, TensorFile> trained;
    for (const int world : {1, 2, 3}) {
      WriteAdversarialJob(std::string(kSgd) + " reduction { digest_every: 1 exact: true }",
                          "flip_probability: 0.3", absl::StrCat("ranks", world));
      const auto outcome = Run(world);
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      trained[world] = Load(outcome->checkpoint);
    }
    for (const int world : {2, 3}) {
      for (const auto& [name, tensor] : trained[1].tensors) {
        const std::vector<float>& values = trained[world].tensors.at(name).data;
        for (size_t k = 0; k < values.size(); ++k) {
          ASSERT_NEAR(values[k], tensor.data[k], tolerance) << name << " of " << world << " ranks";
        }
      }
    }
  }

  void ExpectSameTensors(const std::string& a, const std::string& b) {
    const TensorFile first = Load(a);
    const TensorFile second = Load(b);
    ASSERT_EQ(first.tensors.size(), second.tensors.size());
    for (const auto& [name, tensor] : first.tensors) {
      EXPECT_EQ(tensor.data, second.tensors.at(name).data) << name;
    }
  }
};

// The outputs of a model, and its loss if it has one.
struct Evaluated {
  std::vector<float> output;
  double loss = 0;
};

Evaluated RunModel(const Model& model, const TensorSet& weights, std::vector<float> inputs,
                   int64_t rows, float target) {
  TensorSet gradients = MakeZeros(model);
  const TensorSet buffers = MakeInitialBuffers(model);
  const auto backend = MakeOneDnnBackend(model, weights, buffers, Spans(gradients), 1);
  EXPECT_TRUE(backend.ok()) << backend.status();
  const std::vector<float> targets(model.losses[0].shape.Prepend(rows).num_elements(), target);
  const std::vector<uint8_t> valid(rows, 1);
  StepInput input;
  input.inputs = {{inputs.data(), DType::kF32, model.input_shape(0).Prepend(rows)}};
  input.targets = {{targets.data(), DType::kF32, model.losses[0].shape.Prepend(rows)}};
  input.valid = valid;
  const auto network = (*backend)->Compile(rows, NetworkUse::kEvaluation);
  EXPECT_TRUE(network.ok()) << network.status();
  EXPECT_TRUE((*network)->Forward(input).ok());
  const auto result = (*network)->Result();
  EXPECT_TRUE(result.ok()) << result.status();
  const std::span<const float> output = *(*network)->output(0);
  return {{output.begin(), output.end()}, result->loss_sum / static_cast<double>(rows)};
}

double MeanOf(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST_F(AdversarialTrainTest, SamplesApproachTheData) {
  WriteAdversarialJob(std::string(kAdam) + " epochs: 8");
  const auto outcome = Run(1);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_TRUE(std::isfinite(outcome->last_loss) && outcome->last_loss > 0);
  EXPECT_TRUE(std::isfinite(outcome->last_generator_loss) && outcome->last_generator_loss > 0);
  EXPECT_THAT(steps_.back(), ::testing::HasSubstr("generator loss "));
  const std::vector<Model> models = Models();
  ASSERT_EQ(models.size(), 2u);
  const TensorSet before = MakeInitialWeights(models[1], 3);
  const TensorSet after = WeightsIn(outcome->checkpoint, models[1]);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_NE(before[i], after[i]) << models[1].parameters[i].name;
  }
  EXPECT_NE(MakeInitialWeights(models[0], 3), WeightsIn(outcome->checkpoint, models[0]));
  std::vector<float> noise(64 * 4);
  std::vector<SampleId> ids(64);
  for (size_t i = 0; i < ids.size(); ++i) ids[i].record = i;
  FillNoise(NORMAL, 9, 0, ids, noise);
  const double first = MeanOf(RunModel(models[1], before, noise, 64, 0).output);
  const double last = MeanOf(RunModel(models[1], after, noise, 64, 0).output);
  EXPECT_LT(std::abs(last - 0.6), 0.5 * std::abs(first - 0.6)) << first << " -> " << last;
}

// One step of SGD moves each weight by the rate times the difference of its model's loss.
TEST_F(AdversarialTrainTest, AStepGoesDownBothLosses) {
  constexpr int kRows = 8;
  WriteAdversarialJob("steps_per_epoch: 1 epochs: 1 optimizer { base_lr: 0.5 }",
                      "noise: UNIFORM real_label: 0.9", "checkpoints", "optimizer { base_lr: 1 }");
  const auto outcome = Run(1);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const std::vector<Model> models = Models();
  const auto plan = pipeline::Plan::FromFile(folder_ / "train.pbtxt", {{"DATA", folder_}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto context = pipeline::MakeContext({});
  ASSERT_TRUE(context.ok()) << context.status();
  const auto opened = pipeline::Pipeline::Open(*plan, *context);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto batch = (*opened)->Next();
  ASSERT_TRUE(batch.ok() && batch->has_value());
  const std::span<const float> pixels = ConstTensorView((*batch)->Find("image")).as<float>();
  std::vector<float> noise(kRows * 4);
  FillNoise(UNIFORM, 3, 0, (*batch)->ids(), noise);

  std::vector<TensorSet> weights = {MakeInitialWeights(models[0], 3),
                                    MakeInitialWeights(models[1], 3)};
  const auto judge = [&](std::vector<float> images, float target) {
    return RunModel(models[0], weights[0], std::move(images), kRows, target).loss;
  };
  const auto samples = [&] { return RunModel(models[1], weights[1], noise, kRows, 0).output; };
  const auto loss_of = [&](size_t m) {
    if (m == 1) return judge(samples(), 1);
    return judge({pixels.begin(), pixels.end()}, 0.9f) + judge(samples(), 0);
  };
  EXPECT_NEAR(outcome->last_loss, loss_of(0), 1e-5);
  EXPECT_NEAR(outcome->last_generator_loss, loss_of(1), 1e-5);
  for (size_t m = 0; m < models.size(); ++m) {
    const TensorSet after = WeightsIn(outcome->checkpoint, models[m]);
    for (size_t i = 0; i < after.size(); ++i) {
      for (size_t k = 0; k < after[i].size(); k += 1 + after[i].size() / 3) {
        const float saved = weights[m][i][k];
        weights[m][i][k] = saved + 0.01f;
        const double high = loss_of(m);
        weights[m][i][k] = saved - 0.01f;
        const double low = loss_of(m);
        weights[m][i][k] = saved;
        const double slope = (high - low) / 0.02;
        const double rate = m == 0 ? 0.5 : 1;
        EXPECT_NEAR((saved - after[i][k]) / rate, slope, 2e-3 + 0.05 * std::abs(slope))
            << models[m].parameters[i].name << "[" << k << "]";
      }
    }
  }
}

TEST_F(AdversarialTrainTest, AResumedTrainingHasTheSameBits) {
  WriteAdversarialJob(kAdam, "flip_probability: 0.3", "whole");
  const auto whole = Run(2);
  ASSERT_TRUE(whole.ok()) << whole.status();
  WriteAdversarialJob(kAdam, "flip_probability: 0.3");
  const auto stopped = Run(2, false, 4);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  ASSERT_TRUE(stopped->stopped);
  const auto resumed = Run(2, true);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->steps, whole->steps);
  ExpectSameTensors(whole->checkpoint, resumed->checkpoint);
}

// The discriminator runs backward twice after its judgement of generated samples.
TEST_F(AdversarialTrainTest, RecomputedActivationsChangeNoBit) {
  std::string layers = "layer { input_layer { field: \"image\" shape: [6, 6, 1] } }\n";
  for (int i = 0; i < 4; ++i) {
    layers +=
        "layer { convolution { filters: 4 kernel: 3 padding: 1 } } layer { batch_norm {} }\n"
        "layer { leaky_relu { slope: 0.2 } }\n";
  }
  Write(folder_ / "discriminator.pbtxt",
        layers + "layer { fully_connected { outputs: 1 } } layer { sigmoid_cross_entropy {} }");
  WriteAdversarialJob(kAdam, "", "kept");
  const auto kept = Run(1);
  ASSERT_TRUE(kept.ok()) << kept.status();
  WriteAdversarialJob(absl::StrCat(kAdam, " recompute_activations: true"), "", "recomputed");
  const auto recomputed = Run(1);
  ASSERT_TRUE(recomputed.ok()) << recomputed.status();
  ExpectSameTensors(kept->checkpoint, recomputed->checkpoint);
}

// The sums of rows round differently for another number of ranks, all else is the same.
TEST_F(AdversarialTrainTest, RanksShareTheBatchAndTheNoise) { ExpectRanksAreOne(1e-5); }

TEST_F(AdversarialTrainTest, RanksShareTheBatchesOfSynchronizedNorms) {
  const std::string norm = "layer { batch_norm { synchronized: true } } ";
  Write(folder_ / "generator.pbtxt",
        absl::StrReplaceAll(kGenerator,
                            {{"layer { name: \"relu\"", norm + "layer { name: \"relu\""}}));
  Write(folder_ / "discriminator.pbtxt",
        absl::StrReplaceAll(kDiscriminator,
                            {{"layer { name: \"relu\"", norm + "layer { name: \"relu\""}}));
  ExpectRanksAreOne(1e-4);
}

TEST_F(AdversarialTrainTest, ShardsAndAccumulatedBatchesAreTheSameTraining) {
  std::map<std::string, std::string> checkpoints;
  const char* const kReductions[] = {"", "shard_optimizer: true",
                                     "bucket_bytes: 64 edge_bucket_bytes: 64",
                                     "progress_policy: \"thread\""};
  for (const char* const reduction : kReductions) {
    WriteAdversarialJob(absl::StrCat(kAdam, " reduction { ", reduction, " }"), "",
                        absl::StrCat("folder", checkpoints.size()));
    const auto outcome = Run(2);
    ASSERT_TRUE(outcome.ok()) << reduction << ": " << outcome.status();
    checkpoints[reduction] = outcome->checkpoint;
    ExpectSameTensors(checkpoints[kReductions[0]], outcome->checkpoint);
  }
  WriteAdversarialJob(absl::StrCat(kAdam, " reduction { accumulate_steps: 2 }"), "", "two");
  const auto outcome = Run(2);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->steps, 6u) << "two steps of two batches and one of one, twice";
}

// More samples than a batch has rows.
TEST_F(AdversarialTrainTest, TheGeneratorsSamplesArePredicted) {
  WriteAdversarialJob(kAdam, "noise: UNIFORM");
  const auto outcome = Run(1, false, 3);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const Model generator = Models()[1];
  InferenceOptions options;
  options.job_path = folder_ / "job.pbtxt";
  options.variables = {{"DATA", folder_}};
  options.threads = 1;
  options.seed = 9;
  const auto predict = [&](int64_t samples) {
    options.samples = samples;
    const auto made = PredictJob(options, folder_ / "made.jsonl");
    EXPECT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->samples, samples);
    std::vector<std::vector<float>> rows;
    std::ifstream file(folder_ / "made.jsonl");
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json row = nlohmann::json::parse(line);
      EXPECT_EQ(row["sample"], rows.size());
      rows.push_back(row["output"].get<std::vector<float>>());
    }
    return rows;
  };
  const std::vector<std::vector<float>> rows = predict(21);
  ASSERT_EQ(rows.size(), 21u);
  std::vector<float> noise(rows.size() * 4);
  std::vector<SampleId> ids(rows.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i].record = i;
  FillNoise(UNIFORM, 9, 0, ids, noise);
  const std::vector<float> expected =
      RunModel(generator, WeightsIn(outcome->checkpoint, generator), noise, 21, 0).output;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(rows[i / 36][i % 36], expected[i], 1e-6) << i;
  }
  EXPECT_EQ(predict(2), (std::vector<std::vector<float>>{rows[0], rows[1]}));
  options.seed = 10;
  EXPECT_NE(predict(1)[0], rows[0]);
  // Weights that are no checkpoint's, with those of the discriminator beside them.
  WeightsOptions weights;
  weights.job_path = options.job_path;
  weights.variables = options.variables;
  weights.to = options.checkpoint = folder_ / "weights.safetensors";
  ASSERT_TRUE(ExportWeights(weights).ok());
  options.seed = 9;
  EXPECT_EQ(predict(1)[0], rows[0]);
  options.plan_path = folder_ / "eval.pbtxt";
  EXPECT_EQ(PredictJob(options, folder_ / "made.jsonl").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(NoiseTest, DependsOnTheSampleAlone) {
  std::vector<SampleId> ids(6);
  for (size_t i = 0; i < ids.size(); ++i) ids[i].record = 10 + i;
  for (const auto distribution : {NORMAL, UNIFORM}) {
    std::vector<float> all(6 * 5);
    FillNoise(distribution, 1, 2, ids, all);
    std::vector<float> part(2 * 5);
    FillNoise(distribution, 1, 2, std::span(ids).subspan(3, 2), part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 3 * 5));
    std::vector<float> next(6 * 5);
    FillNoise(distribution, 1, 3, ids, next);
    EXPECT_NE(all, next);
  }
  int flips = 0;
  for (uint64_t step = 0; step < 1000; ++step) flips += IsFlipped(0.1, 7, step) ? 1 : 0;
  EXPECT_NEAR(flips, 100, 40);
  EXPECT_FALSE(IsFlipped(0, 7, 1));
}

TEST_F(AdversarialTrainTest, BadJobsAreRefused) {
  const auto refused = [&] {
    const absl::Status status = Run(1).status();
    return absl::Status(status.code(),
                        absl::StrReplaceAll(status.message(), {{folder_.string(), "FOLDER"}}));
  };
  WriteAdversarialJob("model: \"discriminator.pbtxt\"");
  EXPECT_MESSAGE(refused(), absl::StatusCode::kInvalidArgument);
  WriteAdversarialJob("eval: \"eval.pbtxt\"");
  EXPECT_MESSAGE(refused(), absl::StatusCode::kInvalidArgument);
  WriteAdversarialJob("reduction { stale_steps: 1 }");
  EXPECT_MESSAGE(refused(), absl::StatusCode::kInvalidArgument);
  WriteAdversarialJob("strategy { parameter_server {} }");
  EXPECT_MESSAGE(refused(), absl::StatusCode::kInvalidArgument);
  WriteAdversarialJob("");
  adjust_ = [](TrainOptions& options, const collectives::Communicator&) {
    options.reduction = {{"stale_steps", "2"}};
  };
  EXPECT_MESSAGE(refused(), absl::StatusCode::kInvalidArgument);
  adjust_ = nullptr;
  WriteAdversarialJob("", "flip_probability: 1.5");
  EXPECT_MESSAGE(refused(), absl::StatusCode::kInvalidArgument);
  WriteAdversarialJob("", "", "checkpoints", "optimizer { base_lr: -1 }");
  EXPECT_MESSAGE(refused(), absl::StatusCode::kInvalidArgument);
  WriteAdversarialJob("", "", "checkpoints", "optimizer { group { pattern: \"none\" } }");
  EXPECT_MESSAGE(refused(), absl::StatusCode::kInvalidArgument);
  WriteAdversarialJob("");
  Write(folder_ / "generator.pbtxt",
        absl::StrReplaceAll(kGenerator, {{"filters: 1", "filters: 2"}}));
  EXPECT_MESSAGE(refused(), absl::StatusCode::kInvalidArgument) << "shapes differ";
  Write(folder_ / "generator.pbtxt", kDiscriminator);
  EXPECT_MESSAGE(refused(), absl::StatusCode::kInvalidArgument) << "it has a loss";
  Write(folder_ / "generator.pbtxt", kGenerator);
  Write(folder_ / "discriminator.pbtxt",
        absl::StrReplaceAll(kDiscriminator,
                            {{"outputs: 1", "outputs: 2"}, {"sigmoid_cross", "softmax_cross"}}));
  EXPECT_MESSAGE(refused(), absl::StatusCode::kInvalidArgument) << "a softmax";
}

TEST_F(AdversarialTrainTest, IsExplainedByModelAndHasNoEvaluation) {
  WriteAdversarialJob("", "", "checkpoints", "optimizer { adam {} }");
  const auto text = ExplainJob({folder_ / "job.pbtxt", {{"DATA", folder_}}, false, {}});
  ASSERT_TRUE(text.ok()) << text.status();
  for (const char* const part :
       {"\ndiscriminator's model ", "\ngenerator's model ", "\ngenerator's optimizer state ",
        "adam_m, adam_v\n", "\ndiscriminator's learning rate: "}) {
    EXPECT_THAT(*text, ::testing::HasSubstr(part));
  }
  InferenceOptions options;
  options.job_path = folder_ / "job.pbtxt";
  options.variables = {{"DATA", folder_}};
  EXPECT_MESSAGE(EvaluateJob(options, *collectives::MakeSingle()),
                 absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::trainer
