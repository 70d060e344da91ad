// Train end to end: real shards, real pipelines, ranks as threads.

#include "trainer/train.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "collectives/factory.h"
#include "readers/example_builder.h"
#include "readers/record_writer.h"
#include "trainer/safetensors.h"

namespace millrace::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int kTrainSamples = 37;  // batches of 8: four full ones and one of 5
constexpr int kTestSamples = 23;   // batches of 5: nothing divides it
constexpr int kStepsPerEpoch = 5;
constexpr int kSteps = 2 * kStepsPerEpoch;

void Write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

// A 6x6 image whose brightness tells its class.
std::string MakeExample(int number, int label) {
  RandomKey key;
  key.record = static_cast<uint64_t>(number);
  RandomStream random(key);
  std::vector<float> pixels(36);
  for (float& pixel : pixels) pixel = random.NextFloat() + 0.5f * static_cast<float>(label) - 1;
  readers::ExampleBuilder example;
  example.AddFloats("pixels", pixels);
  example.AddInt("label", label);
  return example.Serialize();
}

void WriteShard(const fs::path& path, int first, int count, int bad = -1) {
  auto writer = readers::TfRecordWriter::Open(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (int i = first; i < first + count; ++i) {
    ASSERT_TRUE((*writer)->Write(MakeExample(i, i == bad ? 9 : i % 3)).ok());
  }
  ASSERT_TRUE((*writer)->Close().ok());
}

std::string PipelineText(const std::string& files, int batch, bool training) {
  return absl::StrCat("stage { tfrecord { files: \"", files, "\" } }\n",
                      training ? "stage { global_shuffle {} }\n" : "",
                      "stage { parse_example {\n"
                      "  feature { key: \"pixels\" name: \"image\" dtype: FLOAT32"
                      " shape: 6 shape: 6 shape: 1 }\n"
                      "  feature { key: \"label\" dtype: INT64 } } }\n"
                      "stage { batch { size: ",
                      batch, " } }\n", training ? "stage { repeat {} }\n" : "");
}

class TrainTest : public ::testing::Test {
 protected:
  TrainTest() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / (std::string("train_test_") + info->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    WriteShard(folder_ / "train-0.tfrecord", 0, 20);
    WriteShard(folder_ / "train-1.tfrecord", 20, kTrainSamples - 20);
    WriteShard(folder_ / "test-0.tfrecord", 1000, kTestSamples);
    Write(folder_ / "train.pbtxt", PipelineText("${DATA}/train-*.tfrecord", 8, true));
    Write(folder_ / "eval.pbtxt", PipelineText("${DATA}/test-*.tfrecord", 5, false));
    WriteModel(8);
    WriteJob("checkpoints");
  }
  ~TrainTest() override { fs::remove_all(folder_); }

  void WriteModel(int filters) {
    Write(folder_ / "model.pbtxt",
          absl::StrCat("layer { input_layer { shape: 6 shape: 6 shape: 1 } }\n"
                       "layer { convolution { filters: ",
                       filters,
                       " kernel: 3 } } layer { relu {} } layer { pool { kernel: 2 } }\n"
                       "layer { fully_connected { outputs: 3 } }\n"
                       "layer { softmax_cross_entropy {} }\n"));
  }
  void WriteJob(const std::string& checkpoints) {
    Write(folder_ / "job.pbtxt",
          absl::StrCat("model: \"model.pbtxt\" train: \"train.pbtxt\" eval: \"eval.pbtxt\"\n"
                       "epochs: 2 seed: 3 log_every_steps: 1\n"
                       "optimizer { base_lr: 0.05 momentum: 0.9 weight_decay: 0.001\n"
                       "            warmup_steps: 3 cosine {} }\n"
                       "checkpoint { folder: \"",
                       checkpoints, "\" every_steps: 3 keep: 100 }\n"));
  }

  // Trains on rank threads. `stop_after` lines of steps (-1: never) sets the stop flag.
  absl::StatusOr<TrainOutcome> Run(int world, bool resume = false, int stop_after = -1) {
    lines_.clear();
    steps_.clear();
    std::atomic<bool> stop{stop_after == 0};
    std::vector<TrainOutcome> outcomes(world);
    const absl::Status status =
        collectives::RunRanks(world, [&](collectives::Communicator& communicator) {
          TrainOptions options;
          options.job_path = folder_ / "job.pbtxt";
          options.variables = {{"DATA", folder_}};
          options.resume = resume;
          options.threads = 1;
          options.stop = &stop;
          options.print = [&](std::string_view line) {
            lines_.emplace_back(line);
            if (!line.starts_with("step ")) return;
            steps_.emplace_back(line);
            if (static_cast<int>(steps_.size()) == stop_after) stop = true;
          };
          absl::StatusOr<TrainOutcome> outcome = Train(options, communicator);
          if (!outcome.ok()) return outcome.status();
          outcomes[communicator.rank()] = *outcome;
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    for (const TrainOutcome& outcome : outcomes) {
      EXPECT_EQ(outcome.last_loss, outcomes[0].last_loss);
      EXPECT_EQ(outcome.test_accuracy, outcomes[0].test_accuracy);
      EXPECT_EQ(outcome.checkpoint, outcomes[0].checkpoint);
    }
    return outcomes[0];
  }

  void RemoveCheckpoints() { fs::remove_all(folder_ / "checkpoints"); }
  TensorFile Load(const std::string& path) {
    auto file = ReadSafetensors(path);
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? *std::move(file) : TensorFile();
  }

  fs::path folder_;
  std::vector<std::string> lines_;  // rank 0's; written by its thread alone
  std::vector<std::string> steps_;
};

TEST_F(TrainTest, TrainsEvaluatesAndSaysSo) {
  const auto outcome = Run(1);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->steps, static_cast<uint64_t>(kSteps));
  EXPECT_FALSE(outcome->stopped);
  EXPECT_TRUE(fs::exists(outcome->checkpoint));
  EXPECT_EQ(steps_.size(), static_cast<size_t>(kSteps));
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("epoch 2: test accuracy"), HasSubstr("/23)"))));
  EXPECT_THAT(lines_, Contains(HasSubstr("input-bound")));
  EXPECT_THAT(lines_, Contains(HasSubstr("5 per epoch, 10 in all, 0 done")));
}

// S-TRAIN-4.
TEST_F(TrainTest, StoppedAtAnyStepItContinuesBitForBit) {
  const auto whole = Run(1);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const TensorFile expected = Load(whole->checkpoint);
  for (int step = 0; step < kSteps; ++step) {
    RemoveCheckpoints();
    const auto stopped = Run(1, false, step);
    ASSERT_TRUE(stopped.ok()) << stopped.status();
    ASSERT_TRUE(stopped->stopped);
    ASSERT_EQ(stopped->steps, static_cast<uint64_t>(step));
    const auto resumed = Run(1, true);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    EXPECT_EQ(resumed->last_loss, whole->last_loss) << step;
    EXPECT_EQ(resumed->test_accuracy, whole->test_accuracy) << step;
    const TensorFile actual = Load(resumed->checkpoint);
    EXPECT_EQ(actual.metadata, expected.metadata) << step;
    for (const auto& [name, tensor] : expected.tensors) {
      EXPECT_EQ(actual.tensors.at(name).data, tensor.data) << name << " at " << step;
    }
  }
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

TEST_F(TrainTest, ACheckpointIsNeverOverwrittenUnasked) {
  ASSERT_TRUE(Run(1).ok());
  for (const int world : {1, 2}) {
    const auto again = Run(world);
    EXPECT_EQ(again.status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(again.status().message()), HasSubstr("checkpoint-00000010"));
  }
}

TEST_F(TrainTest, ResumeWithoutACheckpointIsNotFound) {
  EXPECT_EQ(Run(2, true).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TrainTest, ResumingAFinishedJobOnlyEvaluates) {
  const auto whole = Run(1);
  ASSERT_TRUE(whole.ok());
  const auto again = Run(2, true);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(steps_.empty());
  EXPECT_EQ(again->test_accuracy, whole->test_accuracy);
  EXPECT_EQ(again->checkpoint, whole->checkpoint);
}

TEST_F(TrainTest, ADamagedNewestCheckpointIsDataLossNotTheOlderOne) {
  const auto whole = Run(1);
  ASSERT_TRUE(whole.ok());
  fs::resize_file(whole->checkpoint, fs::file_size(whole->checkpoint) - 1);
  const auto again = Run(2, true);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(again.status().message()), HasSubstr(whole->checkpoint));
}

TEST_F(TrainTest, AnotherModelPlanOrDataIsFailedPrecondition) {
  ASSERT_TRUE(Run(1, false, 4).ok());
  WriteModel(4);
  auto again = Run(2, true);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("another model"));
  WriteModel(8);
  Write(folder_ / "train.pbtxt", PipelineText("${DATA}/train-*.tfrecord", 7, true));
  again = Run(2, true);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("another training plan"));
  Write(folder_ / "train.pbtxt", PipelineText("${DATA}/train-*.tfrecord", 8, true));
  WriteShard(folder_ / "train-2.tfrecord", 50, 3);
  again = Run(2, true);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kFailedPrecondition) << again.status();
}

TEST_F(TrainTest, ABadLabelEndsAllRanksAndNamesTheRecord) {
  WriteShard(folder_ / "train-1.tfrecord", 20, kTrainSamples - 20, /*bad=*/25);
  const auto outcome = Run(2);
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(outcome.status().message()),
              AllOf(HasSubstr("rank "), HasSubstr("record 25 of epoch 0"), HasSubstr("is 9")));
}

TEST_F(TrainTest, FilesThatDoNotFitAreNamed) {
  Write(folder_ / "train.pbtxt", PipelineText("${DATA}/none-*.tfrecord", 8, true));
  EXPECT_THAT(std::string(Run(2).status().message()), HasSubstr("train.pbtxt"));
  std::string text = PipelineText("${DATA}/train-*.tfrecord", 8, true);
  text.replace(text.find("stage { repeat {} }"), std::string::npos, "");
  Write(folder_ / "train.pbtxt", text);
  EXPECT_THAT(std::string(Run(1).status().message()), HasSubstr("add repeat {}"));
  fs::remove(folder_ / "model.pbtxt");
  EXPECT_EQ(Run(2).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace::trainer
