#ifndef MILLRACE_TESTS_TRAINER_LOOP_TRAIN_FIXTURE_H_
#define MILLRACE_TESTS_TRAINER_LOOP_TRAIN_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "collectives/factory.h"
#include "readers/example_builder.h"
#include "readers/record_writer.h"
#include "tests/temp_folder.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/loop/parts.h"
#include "trainer/train.h"

// A small job on shards of its own, run by ranks as threads.

namespace millrace::trainer {

namespace fs = std::filesystem;

inline constexpr int kTrainSamples = 37;  // batches of 8: four full ones and one of 5
inline constexpr int kTestSamples = 23;   // batches of 5: nothing divides it
inline constexpr int kStepsPerEpoch = 5;
inline constexpr int kSteps = 2 * kStepsPerEpoch;

inline void Write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

// A 6x6 image whose brightness tells its class.
inline std::string MakeExample(int number, int label, float scale = 1) {
  RandomKey key;
  key.record = static_cast<uint64_t>(number);
  RandomStream random(key);
  std::vector<float> pixels(36);
  for (float& pixel : pixels)
    pixel = scale * (random.NextFloat() + 0.5f * static_cast<float>(label) - 1);
  readers::ExampleBuilder example;
  example.AddFloats("pixels", pixels);
  example.AddInt("label", label);
  return example.Serialize();
}

// Record `bad` has a label that is no class, `infinite` pixels that are infinite.
inline void WriteShard(const fs::path& path, int first, int count, int bad = -1,
                       int infinite = -1) {
  auto writer = readers::TfRecordWriter::Open(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (int i = first; i < first + count; ++i) {
    ASSERT_TRUE(
        (*writer)->Write(MakeExample(i, i == bad ? 9 : i % 3, i == infinite ? INFINITY : 1)).ok());
  }
  ASSERT_TRUE((*writer)->Close().ok());
}

inline std::string PipelineText(const std::string& files, int batch, bool training) {
  return absl::StrCat("stage { tfrecord { files: \"", files, "\" } }\n",
                      training ? "stage { global_shuffle {} }\n" : "",
                      "stage { parse_example {\n"
                      "  feature { key: \"pixels\" name: \"image\" dtype: FLOAT32"
                      " shape: 6 shape: 6 shape: 1 }\n"
                      "  feature { key: \"label\" dtype: INT64 } } }\n"
                      "stage { batch { size: ",
                      batch, " } }\n", training ? "stage { repeat {} }\n" : "");
}

using RankBody = std::function<absl::Status(collectives::Communicator&)>;

class TrainTest : public ::testing::Test {
 protected:
  TrainTest() {
    WriteShard(folder_ / "train-0.tfrecord", 0, 20);
    WriteShard(folder_ / "train-1.tfrecord", 20, kTrainSamples - 20);
    WriteShard(folder_ / "test-0.tfrecord", 1000, kTestSamples);
    Write(folder_ / "train.pbtxt", PipelineText("${DATA}/train-*.tfrecord", 8, true));
    Write(folder_ / "eval.pbtxt", PipelineText("${DATA}/test-*.tfrecord", 5, false));
    WriteModel(8);
    WriteJob("checkpoints");
  }

  void WriteModel(int filters) {
    Write(folder_ / "model.pbtxt",
          absl::StrCat("layer { input_layer { shape: 6 shape: 6 shape: 1 } }\n"
                       "layer { convolution { filters: ",
                       filters,
                       " kernel: 3 } } layer { relu {} } layer { pool { kernel: 2 } }\n"
                       "layer { fully_connected { outputs: 3 } }\n"
                       "layer { softmax_cross_entropy {} }\n"));
  }
  void WriteJob(const std::string& checkpoints, const std::string& optimizer = "",
                const std::string& more = "epochs: 2") {
    Write(folder_ / "job.pbtxt",
          absl::StrCat("model: \"model.pbtxt\" train: \"train.pbtxt\" eval: \"eval.pbtxt\"\n"
                       "seed: 3 log_every_steps: 1 ",
                       more, "\noptimizer { ",
                       optimizer.empty() ? "base_lr: 0.05 momentum: 0.9 weight_decay: 0.001 "
                                           "warmup_steps: 3 cosine {}"
                                         : optimizer,
                       " }\ncheckpoint { folder: \"", checkpoints,
                       "\" every_steps: 3 keep: 100 }\n"));
  }

  // Trains on rank threads. `stop_after` lines of steps (-1: never) sets the stop flag.
  absl::StatusOr<TrainOutcome> Run(int world, bool resume = false, int stop_after = -1) {
    lines_.clear();
    steps_.clear();
    reported_.clear();
    std::atomic<bool> stop{stop_after == 0};
    statuses_.assign(world, absl::OkStatus());
    std::vector<TrainOutcome> outcomes(world);
    const absl::Status status = run_ranks_(world, [&](collectives::Communicator& communicator) {
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
      options.report = [&](const absl::Status& why) {
        const std::lock_guard lock(mu_);
        reported_.emplace_back(communicator.rank(), std::string(why.message()));
      };
      if (adjust_) adjust_(options, communicator);
      TrainParts parts;
      if (change_parts_) change_parts_(parts, communicator);
      absl::StatusOr<TrainOutcome> outcome = TrainWith(parts, options, communicator);
      {
        const std::lock_guard lock(mu_);
        statuses_[communicator.rank()] = outcome.status();
      }
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

  const TempFolder scratch_;
  const fs::path folder_ = scratch_.path();
  std::vector<std::string> lines_;  // rank 0's; written by its thread alone
  std::vector<std::string> steps_;
  std::mutex mu_;
  std::vector<std::pair<int, std::string>> reported_;  // rank, message
  std::vector<absl::Status> statuses_;                 // by rank
  std::function<void(TrainOptions&, const collectives::Communicator&)> adjust_;
  // May change the parts of a rank's training.
  std::function<void(TrainParts&, const collectives::Communicator&)> change_parts_;
  // How ranks are run: collectives::RunRanks, or as it does.
  std::function<absl::Status(int, const RankBody&)> run_ranks_ = collectives::RunRanks;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_LOOP_TRAIN_FIXTURE_H_
