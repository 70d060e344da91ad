#include "trainer/explain.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/messages.h"
#include "tests/trainer/loop/train_fixture.h"

namespace millrace::trainer {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Ne;
using ::testing::Not;
using ::testing::StartsWith;

class ExplainTest : public TrainTest {
 protected:
  ExplainTest() {
    options_.job_path = folder_ / "job.pbtxt";
    options_.variables = {{"DATA", folder_}};
  }
  std::string Explain() {
    const auto text = ExplainJob(options_);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  }
  // The stars of the plot, from the top, each line without its label.
  std::vector<std::string> Plot() {
    std::vector<std::string> rows;
    for (const auto line : absl::StrSplit(Explain(), '\n')) {
      const size_t bar = line.find('|');
      if (bar != line.npos) rows.emplace_back(line.substr(bar + 1));
    }
    return rows;
  }

  ExplainOptions options_;
};

TEST_F(ExplainTest, ALayerIsALineWithItsCost) {
  const std::vector<std::string> lines = absl::StrSplit(Explain(), '\n');
  EXPECT_THAT(lines,
              Contains("conv1   convolution                               [4, 4, 8]          80"
                       "  2.30 k         512 B"));
  EXPECT_THAT(lines,
              Contains("relu1   relu                          conv1       [4, 4, 8]            "
                       "                 512 B"));
  EXPECT_THAT(lines,
              Contains("fc1     fully connected                           [3]                99"
                       "     192          12 B"));
  EXPECT_THAT(lines, Contains("loss1   softmax cross-entropy"));
}

TEST_F(ExplainTest, ABatchNormTellsWhetherItIsSynchronized) {
  for (const bool synchronized : {false, true}) {
    Write(folder_ / "model.pbtxt", absl::StrCat("layer { input_layer { shape: [6, 6, 1] } }\n"
                                                "layer { batch_norm { ",
                                                synchronized ? "synchronized: true" : "",
                                                " } } layer { fully_connected { outputs: 3 } }\n"
                                                "layer { softmax_cross_entropy {} }\n"));
    const bool tells = Explain().find("batch norm, synchronized ") != std::string::npos;
    EXPECT_EQ(tells, synchronized);
  }
}

TEST_F(ExplainTest, TheTotalsAreThoseOfTheTable) {
  const std::string text = Explain();
  EXPECT_THAT(text, HasSubstr("parameters       179 (716 B)\n"));
  EXPECT_THAT(text, HasSubstr("FLOPs            2.50 k a sample, forward: 1.25 k multiply-adds\n"));
  EXPECT_THAT(text, HasSubstr("optimizer state  716 B: momentum\n"));
  // 36 + 128 + 128 + 32 + 3 values of a sample.
  EXPECT_THAT(text, HasSubstr("activations      10.2 KiB: the results of all layers for a batch of "
                              "8, over all ranks\n"));
  EXPECT_THAT(text, ContainsRegex("\nactivation peak  [0-9.]+ KiB, [0-9.]+ KiB with "
                                  "recompute_activations: to train a batch of 8 on one rank\n"));
  WriteJob("", "adam {} ema {}");
  EXPECT_THAT(Explain(), HasSubstr("optimizer state  2.1 KiB: adam_m, adam_v, ema\n"));
}

TEST_F(ExplainTest, TheActivationPeakIsThatOfTheJobsPrecisionAndChoice) {
  const auto peak = [this](const std::string& more) {
    WriteJob("", "base_lr: 0.1", more);
    const std::string text = Explain();
    const size_t begin = text.find("activation peak");
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  const std::string whole = peak("");
  EXPECT_THAT(peak("precision: 'bfloat16'"), AllOf(StartsWith("activation peak"), Ne(whole)));
  EXPECT_THAT(peak("recompute_activations: true"),
              ContainsRegex("KiB with recompute_activations, [0-9.]+ KiB without: to train"));
}

TEST_F(ExplainTest, TheRatesAreThoseOfTheTraining) {
  EXPECT_THAT(Explain(), HasSubstr("learning rate: linear warm-up over 3 steps from 0, then cosine "
                                   "to 0; 10 steps, 5 an epoch\n"));
  EXPECT_THAT(Explain(), HasSubstr("step 1: 0.01667; step 3 (end of the warm-up): 0.05; step 10 "
                                   "(the last): "));
}

TEST_F(ExplainTest, ThePlotGoesUpAndDown) {
  WriteJob("", "base_lr: 0.9 warmup_steps: 9 step { epoch: 1.8 factor: 0 }");
  const std::vector<std::string> rows = Plot();
  ASSERT_EQ(rows.size(), 10u);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(rows[i].find('*'), 8 - i) << i;
  EXPECT_EQ(rows[9], "         *");
  WriteJob("", "base_lr: 0");
  EXPECT_EQ(Plot()[9], "**********");
}

TEST_F(ExplainTest, WithoutDataTheModelIsShownAndTheReasonSaid) {
  fs::remove(folder_ / "train-0.tfrecord");
  fs::remove(folder_ / "train-1.tfrecord");
  EXPECT_THAT(Explain(), HasSubstr("parameters       179"));
  EXPECT_THAT(Explain(),
              HasSubstr("learning rate: not shown, because this cannot be trained on: "));
  EXPECT_THAT(Explain(), HasSubstr("no file matches"));
}

TEST_F(ExplainTest, WithoutAVariableOfThePlanTheModelIsShownAndTheFlagSaid) {
  options_.variables.clear();
  const std::string text = Explain();
  EXPECT_THAT(text, HasSubstr("parameters       179 (716 B)\n"));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("learning rate: not shown, because ",
                                           std::string(folder_ / "train.pbtxt"),
                                           " needs --var DATA=VALUE")));
  options_.variables["DAT"] = "1";
  EXPECT_THAT(std::string(ExplainJob(options_).status().message()),
              HasSubstr("variable DAT is given but never used"));
}

TEST_F(ExplainTest, AModelFileIsExplainedByItself) {
  ExplainOptions options = {folder_ / "model.pbtxt", {}, false, {}};
  const auto text = ExplainModel(options);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("fc1     fully connected                           [3]"));
  EXPECT_THAT(*text, HasSubstr("parameters   179 (716 B)\n"));
  EXPECT_THAT(*text, HasSubstr("activations  1.3 KiB a sample: the results of all layers\n"));
  options.as_dot = true;
  EXPECT_EQ(*ExplainModel(options), [&] {
    options_.as_dot = true;
    return Explain();
  }());
  options = {folder_ / "made.pbtxt", {}, false, {}};
  Write(folder_ / "made.pbtxt",
        "layer { input_layer { shape: 4 } } layer { fully_connected { outputs: 3 } }");
  EXPECT_THAT(*ExplainModel(options), HasSubstr("without a loss: the generator"));
  Write(folder_ / "made.pbtxt", "layer { input_layer { shape: 4 } } layer { pool {} }");
  EXPECT_EQ(ExplainModel(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ExplainTest, WhatIsWrongIsAnError) {
  options_.variables["OTHER"] = "1";
  EXPECT_MESSAGE(ExplainJob(options_), absl::StatusCode::kInvalidArgument, "variable");
  options_.variables.erase("OTHER");
  Write(folder_ / "model.pbtxt", "layer { input_layer {} }");
  EXPECT_MESSAGE(ExplainJob(options_), absl::StatusCode::kInvalidArgument, "model");
  options_.job_path = folder_ / "none.pbtxt";
  EXPECT_EQ(ExplainJob(options_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ExplainTest, TheGraphHasAnEdgeForEachInput) {
  Write(folder_ / "model.pbtxt",
        "name: 'a \"b\"' layer { input_layer { shape: [6, 6, 1] } }\n"
        "layer { name: 'x' relu {} } layer { name: 'y' input: 'input1' tanh {} }\n"
        "layer { input: ['x', 'y'] add {} } layer { fully_connected { outputs: 3 } }\n"
        "layer { softmax_cross_entropy {} }\n");
  options_.as_dot = true;
  EXPECT_EQ(Explain(), R"(digraph "a \"b\"" {
  node [shape=box];
  "input1" [label="input1\ninput\n[6, 6, 1]"];
  "x" [label="x\nrelu\n[6, 6, 1]"];
  "input1" -> "x";
  "y" [label="y\ntanh\n[6, 6, 1]"];
  "input1" -> "y";
  "add1" [label="add1\nadd\n[6, 6, 1]"];
  "x" -> "add1";
  "y" -> "add1";
  "fc1" [label="fc1\nfully connected\n[3]"];
  "add1" -> "fc1";
  "loss1" [label="loss1\nsoftmax cross-entropy"];
  "fc1" -> "loss1";
}
)");
}

TEST_F(ExplainTest, AJobIsToldFromAPlan) {
  const std::string path = folder_ / "file";
  const auto is_job = [&path](const std::string& text) {
    Write(path, text);
    return IsJobFile(path);
  };
  EXPECT_TRUE(IsJobFile(folder_ / "job.pbtxt"));
  EXPECT_FALSE(IsJobFile(folder_ / "train.pbtxt"));
  EXPECT_TRUE(is_job("# train\nepochs: 1 train : 't.pbtxt'"));
  EXPECT_TRUE(is_job("optimizer { } modle: 'm' train: 't' {")) << "with mistakes";
  EXPECT_FALSE(is_job("stage { train: 't' }"));
  EXPECT_FALSE(is_job("# model: 'm'\nname: \"model: \\\" 'm' train: \" seed: 1"));
  EXPECT_FALSE(is_job("model { }"));
  EXPECT_FALSE(is_job("\"model: "));
  EXPECT_FALSE(IsJobFile(folder_));
  EXPECT_FALSE(IsJobFile(folder_ / "none"));
  EXPECT_TRUE(IsModelFile(folder_ / "model.pbtxt"));
  EXPECT_FALSE(IsModelFile(folder_ / "job.pbtxt"));
  EXPECT_FALSE(IsModelFile(folder_ / "train.pbtxt"));
  Write(path, "# a model\nname: 'm' layer: [{ input_layer {} }");
  EXPECT_TRUE(IsModelFile(path)) << "with mistakes";
  Write(path, "name: 'layer {' stage { layer {} }");
  EXPECT_FALSE(IsModelFile(path));
}

}  // namespace
}  // namespace millrace::trainer
