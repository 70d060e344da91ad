#ifndef MILLRACE_TESTS_TRAINER_LOOP_INFERENCE_FIXTURE_H_
#define MILLRACE_TESTS_TRAINER_LOOP_INFERENCE_FIXTURE_H_

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/factory.h"
#include "tests/trainer/loop/train_fixture.h"
#include "trainer/inference.h"

namespace millrace::trainer {

// The job of TrainTest, and uses of the model that it has trained.
class InferenceTest : public TrainTest {
 protected:
  InferenceTest() {
    options_.job_path = folder_ / "job.pbtxt";
    options_.variables = {{"DATA", folder_}};
    options_.threads = 1;
    options_.warn = [this](std::string_view line) {
      const std::lock_guard lock(mu_);
      warnings_.emplace_back(line);
    };
  }

  TrainOutcome Train(int world = 1) {
    const auto outcome = Run(world);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? *outcome : TrainOutcome();
  }

  // Evaluates on rank threads. Returns rank 0's outcome, or the error of all.
  absl::StatusOr<EvaluationOutcome> Evaluate(int world = 1) {
    std::vector<absl::StatusOr<EvaluationOutcome>> outcomes(world, EvaluationOutcome());
    const absl::Status status =
        collectives::RunRanks(world, [&](collectives::Communicator& communicator) {
          InferenceOptions options = options_;
          if (adjust_inference_) adjust_inference_(options, communicator);
          auto& outcome = outcomes[communicator.rank()];
          outcome = EvaluateJob(options, communicator);
          return outcome.status();
        });
    if (!status.ok()) return status;
    for (const auto& outcome : outcomes) {
      EXPECT_EQ(outcome->metrics.mean_loss, outcomes[0]->metrics.mean_loss);
      EXPECT_EQ(outcome->metrics.correct, outcomes[0]->metrics.correct);
    }
    return outcomes[0];
  }

  static double AccuracyOf(const EvaluationOutcome& outcome) {
    return static_cast<double>(outcome.metrics.correct) /
           static_cast<double>(outcome.metrics.total);
  }

  InferenceOptions options_;
  std::function<void(InferenceOptions&, const collectives::Communicator&)> adjust_inference_;
  std::vector<std::string> warnings_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_LOOP_INFERENCE_FIXTURE_H_
