// Predictions of a trained model.

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "readers/example_view.h"
#include "readers/record_reader.h"
#include "tests/messages.h"
#include "tests/trainer/loop/inference_fixture.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Json = nlohmann::json;

class PredictTest : public InferenceTest {
 protected:
  absl::Status Predict(const std::string& name) {
    const auto outcome = PredictJob(options_, folder_ / name);
    if (outcome.ok()) samples_ = outcome->samples;
    return outcome.status();
  }
  std::vector<std::string> Lines(const std::string& name) {
    std::ifstream file(folder_ / name);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    return absl::StrSplit(text, '\n', absl::SkipEmpty());
  }
  // Predicts, and reads the lines.
  std::vector<Json> Predictions() {
    const absl::Status status = Predict("out.jsonl");
    EXPECT_TRUE(status.ok()) << status;
    std::vector<Json> rows;
    for (const std::string& line : Lines("out.jsonl")) rows.push_back(Json::parse(line));
    return rows;
  }
  // The names in the folder that begin with "out" or are hidden.
  std::vector<std::string> Leftovers() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("out") || name.starts_with(".")) names.push_back(name);
    }
    return names;
  }
  // A plan of the test data without the labels.
  void WritePlanWithoutLabels() {
    std::string plan = PipelineText("${DATA}/test-*.tfrecord", 5, false);
    const std::string label = "  feature { key: \"label\" dtype: INT64 }";
    Write(folder_ / "eval.pbtxt", plan.replace(plan.find(label), label.size(), ""));
  }

  int64_t samples_ = 0;
};

// The last batch has padding, which leaves no line.
TEST_F(PredictTest, ClassesAreAsRightAsTheEvaluationSaysAndInOrder) {
  Train();
  const auto evaluation = Evaluate();
  ASSERT_TRUE(evaluation.ok());
  const std::vector<Json> rows = Predictions();
  ASSERT_THAT(rows, SizeIs(kTestSamples));
  EXPECT_EQ(samples_, kTestSamples);
  int64_t correct = 0;
  double loss = 0;
  for (int i = 0; i < kTestSamples; ++i) {
    const Json& row = rows[i];
    EXPECT_EQ(row["file"], std::string(folder_ / "test-0.tfrecord"));
    EXPECT_EQ(row["record"], i);
    EXPECT_EQ(row["sub_index"], 0);
    EXPECT_EQ(row["target"], (1000 + i) % 3);
    const auto probabilities = row["probabilities"].get<std::vector<double>>();
    ASSERT_THAT(probabilities, SizeIs(3));
    EXPECT_EQ(row["class"], std::ranges::max_element(probabilities) - probabilities.begin());
    correct += row["class"] == row["target"] ? 1 : 0;
    loss -= std::log(probabilities[row["target"].get<size_t>()]) / kTestSamples;
  }
  EXPECT_EQ(correct, evaluation->metrics.correct);
  EXPECT_NEAR(loss, evaluation->metrics.mean_loss, 1e-5);
}

TEST_F(PredictTest, AllFormatsSayTheSame) {
  Train();
  const std::vector<Json> rows = Predictions();
  ASSERT_TRUE(Predict("out.csv").ok());
  const std::vector<std::string> lines = Lines("out.csv");
  ASSERT_THAT(lines, SizeIs(kTestSamples + 1));
  EXPECT_EQ(lines[0],
            "file,record,sub_index,probabilities_0,probabilities_1,probabilities_2,class,target");
  ASSERT_TRUE(Predict("out.tfrecord").ok());
  auto reader = readers::OpenTfRecordReader(folder_ / "out.tfrecord");
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (int i = 0; i < kTestSamples; ++i) {
    const Json& row = rows[i];
    const std::vector<std::string> fields = absl::StrSplit(lines[i + 1], ',');
    const auto record = (*reader)->Next();
    ASSERT_TRUE(record.ok() && record->has_value());
    auto features = readers::ViewExample((*record)->payload);
    ASSERT_TRUE(features.ok());
    const auto floats = std::get<std::vector<float>>((*features)["probabilities"]);
    for (int k = 0; k < 3; ++k) {
      float number = 0;
      ASSERT_TRUE(absl::SimpleAtof(fields[3 + k], &number));
      EXPECT_EQ(number, row["probabilities"][k].get<float>());
      EXPECT_EQ(number, floats[k]);
    }
    EXPECT_EQ(fields[6], absl::StrCat(row["class"].get<int64_t>()));
    EXPECT_THAT(std::get<std::vector<int64_t>>((*features)["class"]),
                ElementsAre(row["class"].get<int64_t>()));
    EXPECT_THAT(std::get<std::vector<int64_t>>((*features)["record"]), ElementsAre(i));
    EXPECT_THAT(std::get<std::vector<std::string_view>>((*features)["file"]),
                ElementsAre(std::string_view(fields[0])));
  }
}

TEST_F(PredictTest, APlanWithoutTargetsGivesTheSameOutputs) {
  Train();
  std::vector<Json> expected = Predictions();
  WritePlanWithoutLabels();
  for (Json& row : expected) row.erase("target");
  EXPECT_EQ(Predictions(), expected);
}

TEST_F(PredictTest, ATargetThatIsNoneIsRefused) {
  Train();
  std::string plan = PipelineText("${DATA}/test-*.tfrecord", 5, false);
  plan.insert(plan.find("stage { batch"), "stage { cast { field: \"label\" dtype: FLOAT32 } }\n");
  Write(folder_ / "eval.pbtxt", plan);
  EXPECT_MESSAGE(Predict("out.csv"), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Leftovers(), IsEmpty());
}

TEST_F(PredictTest, OtherLossesGiveTheirOutputAndSeveralHaveTheirNames) {
  Write(
      folder_ / "model.pbtxt",
      "layer { input_layer { shape: [6, 6, 1] } }\n"
      "layer { name: 'code' fully_connected { outputs: 3 } }\n"
      "layer { softmax_cross_entropy {} }\n"
      "layer { input: 'code' fully_connected { outputs: 36 } } layer { reshape { shape: [6, 6, 1] "
      "} }\n"
      "layer { name: 'error' mean_squared_error { target: 'image' weight: 0.1 } }\n");
  Train();
  const std::vector<Json> rows = Predictions();
  ASSERT_THAT(rows, SizeIs(kTestSamples));
  EXPECT_EQ(rows[0]["loss1/target"], 1);
  EXPECT_THAT(rows[0]["loss1/probabilities"], SizeIs(3));
  EXPECT_THAT(rows[0]["error/output"], SizeIs(36));
  EXPECT_THAT(rows[0]["error/target"], SizeIs(36));
}

TEST_F(PredictTest, ASigmoidGivesOutputAndProbability) {
  Write(folder_ / "model.pbtxt",
        "layer { input_layer { shape: [6, 6, 1] } } layer { fully_connected { outputs: 1 } }\n"
        "layer { sigmoid_cross_entropy { target: 'other' } }\n");
  WriteJob("checkpoints");
  // Without a training: the weights that it would begin with.
  std::set<std::string> used;
  const auto model = LoadModel(folder_ / "model.pbtxt", {}, used);
  ASSERT_TRUE(model.ok());
  const TensorSet weights = MakeInitialWeights(*model, 3);
  const std::vector<TensorRef> tensors = {{"fc1/weights", Shape{1, 36}, weights[0]},
                                          {"fc1/bias", Shape{1}, weights[1]}};
  options_.checkpoint = folder_ / "weights.safetensors";
  ASSERT_TRUE(WriteSafetensors(options_.checkpoint, {}, tensors).ok());
  for (const Json& row : Predictions()) {
    const double output = row["output"][0];
    EXPECT_NEAR(row["probabilities"][0].get<double>(), 1 / (1 + std::exp(-output)), 1e-6);
    EXPECT_FALSE(row.contains("target"));
  }
}

TEST_F(PredictTest, NamesThatNeedQuotesHaveThem) {
  Train();
  fs::rename(folder_ / "test-0.tfrecord", folder_ / "test-\"a, b\".tfrecord");
  ASSERT_TRUE(Predict("out.csv").ok());
  EXPECT_TRUE(Lines("out.csv")[1].starts_with(
      absl::StrCat("\"", std::string(folder_), "/test-\"\"a, b\"\".tfrecord\",0,0,")));
}

TEST_F(PredictTest, AnOutputThatIsNotFiniteIsRefusedWithItsRecord) {
  Write(folder_ / "model.pbtxt",
        "layer { input_layer { shape: [6, 6, 1] } } layer { fully_connected { outputs: 3 } }\n"
        "layer { softmax_cross_entropy {} }\n");
  Train();
  WriteShard(folder_ / "test-0.tfrecord", 1000, kTestSamples, /*bad=*/-1, /*infinite=*/1003);
  const absl::Status status = Predict("out.csv");
  EXPECT_MESSAGE(status, absl::StatusCode::kOutOfRange);
  const auto error = GetRecordError(status);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->ordinal, 3);
  EXPECT_THAT(Leftovers(), IsEmpty());
}

TEST_F(PredictTest, ASignalEndsItWithoutAFile) {
  Train();
  const std::atomic<bool> stop{true};
  options_.stop = &stop;
  EXPECT_MESSAGE(Predict("out.csv"), absl::StatusCode::kCancelled);
  EXPECT_THAT(Leftovers(), IsEmpty());
}

// Before the checkpoint is looked for, which there is not.
TEST_F(PredictTest, EachBatchIsProgress) {
  Train();
  std::vector<std::pair<int64_t, int64_t>> told;
  options_.progress = [&told](int64_t done, int64_t all) { told.emplace_back(done, all); };
  ASSERT_TRUE(PredictJob(options_, folder_ / "out.csv").ok());
  ASSERT_EQ(told.size(), 5u);
  EXPECT_EQ(told.back(), std::pair(int64_t{5}, int64_t{5}));
}

TEST_F(PredictTest, WhereNoFileCanBeIsToldFirst) {
  fs::create_directories(folder_ / "folder.csv");
  EXPECT_MESSAGE(Predict("folder.csv"), absl::StatusCode::kInvalidArgument, "folder");
  EXPECT_MESSAGE(Predict("no/out.csv"), absl::StatusCode::kNotFound, "no_folder");
}

TEST_F(PredictTest, WhatAKilledProcessLeftIsRemoved) {
  Train();
  Write(folder_ / ".out.csv.tmp-1-0", "half a file");
  Write(folder_ / ".other.csv.tmp-1-0", "another's");
  ASSERT_TRUE(Predict("out.csv").ok());
  EXPECT_THAT(Leftovers(), ::testing::UnorderedElementsAre("out.csv", ".other.csv.tmp-1-0"));
}

TEST_F(PredictTest, SamplesAreMadeByGenerators) {
  options_.samples = 3;
  EXPECT_MESSAGE(Predict("out.csv"), absl::StatusCode::kInvalidArgument);
}

TEST_F(PredictTest, WhatFailsLeavesNothing) {
  EXPECT_MESSAGE(Predict("out.txt"), absl::StatusCode::kInvalidArgument, "extension");
  EXPECT_EQ(Predict("out.csv").code(), absl::StatusCode::kNotFound);  // no checkpoint
  Train();
  EXPECT_MESSAGE(Predict("no/out.tfrecord"), absl::StatusCode::kNotFound, "no_folder_tfrecord");
  const fs::path shard = folder_ / "test-0.tfrecord";
  fs::resize_file(shard, fs::file_size(shard) - 3);
  for (const char* const name : {"out.csv", "out.jsonl", "out.tfrecord"}) {
    EXPECT_EQ(Predict(name).code(), absl::StatusCode::kDataLoss);
  }
  EXPECT_THAT(Leftovers(), IsEmpty());
}

}  // namespace
}  // namespace millrace::trainer
