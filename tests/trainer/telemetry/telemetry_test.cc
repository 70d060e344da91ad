#include "trainer/telemetry/telemetry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "tests/temp_folder.h"
#include "tests/trainer/telemetry/events_of.h"

namespace millrace::trainer {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

StepLine LineOfStep(uint64_t step) {
  StepLine line;
  line.step = step;
  line.epoch = 0.5;
  line.loss = 2;
  line.learning_rate = 0.25;
  line.times.Add(/*num_samples=*/64, /*step=*/2, /*wait=*/0.5);
  return line;
}

EvaluationLine LineOfEvaluation(int64_t correct, int64_t total, double mean_loss) {
  EvaluationLine line;
  line.correct = correct;
  line.total = total;
  line.mean_loss = mean_loss;
  return line;
}

// Tag and value of each scalar of an event.
std::map<std::string, float> ScalarsOf(const events::Event& event) {
  std::map<std::string, float> scalars;
  for (const events::Value& value : event.summary().value()) {
    scalars[value.tag()] = value.simple_value();
  }
  return scalars;
}

TEST(TelemetryTest, StepsAndLinesAreInTheRegistry) {
  Metrics metrics;
  const auto telemetry = Telemetry::Open({}, metrics);
  ASSERT_TRUE(telemetry.ok());
  (*telemetry)->AddStep({.rows = 64, .skipped = false, .seconds = 2, .wait_seconds = 0.5});
  (*telemetry)->AddStep({.rows = 64, .skipped = true, .seconds = 1, .wait_seconds = 0});
  (*telemetry)->AddLine(LineOfStep(7));
  (*telemetry)->AddEvaluation(7, LineOfEvaluation(3, 4, 1.5));
  EXPECT_THAT(
      metrics.Snapshot(),
      AllOf(Contains(Pair("millrace_train_steps_total", 2)),
            Contains(Pair("millrace_train_skipped_steps_total", 1)),
            Contains(Pair("millrace_train_samples_total", 128)),
            Contains(Pair("millrace_train_step_seconds_sum", 3)),
            Contains(Pair("millrace_train_step_seconds_count", 2)),
            Contains(Pair("millrace_train_data_wait_seconds_total", 0.5)),
            Contains(Pair("millrace_train_step", 7)), Contains(Pair("millrace_train_epoch", 0.5)),
            Contains(Pair("millrace_train_loss", 2)),
            Contains(Pair("millrace_train_learning_rate", 0.25)),
            Contains(Pair("millrace_evaluation_accuracy_ratio", 0.75)),
            Contains(Pair("millrace_evaluation_loss", 1.5)),
            Contains(Pair("millrace_ranks_lost_total", 0)),
            Not(Contains(Key("millrace_train_generator_loss"))),
            Not(Contains(Key("millrace_train_gradient_norm")))));
}

TEST(TelemetryTest, OnlyTheFirstRankCountsSamplesAndWritesEvents) {
  const TempFolder folder;
  Metrics metrics;
  TelemetryOptions options;
  options.is_first = false;
  options.tensorboard_folder = folder.path();
  const auto telemetry = Telemetry::Open(options, metrics);
  ASSERT_TRUE(telemetry.ok());
  (*telemetry)->AddStep({.rows = 64, .skipped = false, .seconds = 2, .wait_seconds = 0});
  EXPECT_THAT(metrics.Snapshot(), AllOf(Contains(Pair("millrace_train_steps_total", 1)),
                                        Not(Contains(Key("millrace_train_samples_total")))));
  EXPECT_TRUE(EventFilesIn(folder.path()).empty());
}

TEST(TelemetryTest, EventsHaveTheNumbersOfTheLines) {
  const TempFolder folder;
  Metrics metrics;
  TelemetryOptions options;
  options.tensorboard_folder = folder.path();
  const auto telemetry = Telemetry::Open(options, metrics);
  ASSERT_TRUE(telemetry.ok()) << telemetry.status();
  StepLine line = LineOfStep(7);
  line.generator_loss = 3;
  line.shows_norm = true;
  line.norms.Add(/*skip=*/false, /*norm=*/8, /*clip_factor=*/1);
  (*telemetry)->AddLine(line);
  EvaluationLine evaluation = LineOfEvaluation(1, 4, 1);
  evaluation.in_top5 = 2;
  (*telemetry)->AddEvaluation(7, evaluation);
  evaluation = LineOfEvaluation(0, 4, 1);
  evaluation.mean_error = 0.5;
  (*telemetry)->AddEvaluation(8, evaluation);
  const std::vector<events::Event> found = EventsOf(EventFilesIn(folder.path()).at(0));
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(found[2].step(), 7);
  EXPECT_THAT(ScalarsOf(found[2]),
              ElementsAre(Pair("train/data_wait_fraction", 0.25f), Pair("train/generator_loss", 3),
                          Pair("train/gradient_norm", 8), Pair("train/images_per_second", 32),
                          Pair("train/learning_rate", 0.25f), Pair("train/loss", 2)));
  EXPECT_THAT(ScalarsOf(found[3]),
              ElementsAre(Pair("evaluation/accuracy", 0.25f), Pair("evaluation/loss", 1),
                          Pair("evaluation/top5", 0.5f)));
  EXPECT_EQ(found[4].step(), 8);
  EXPECT_THAT(ScalarsOf(found[4]),
              ElementsAre(Pair("evaluation/error", 0.5f), Pair("evaluation/loss", 1)));
}

}  // namespace
}  // namespace millrace::trainer
