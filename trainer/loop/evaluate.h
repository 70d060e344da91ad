#ifndef MILLRACE_TRAINER_LOOP_EVALUATE_H_
#define MILLRACE_TRAINER_LOOP_EVALUATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/context.h"
#include "collectives/communicator.h"
#include "collectives/progress.h"
#include "pipeline/pipeline.h"
#include "trainer/backend/backend.h"
#include "trainer/model/model.h"
#include "trainer/report.h"

namespace millrace::trainer {

// The part of a batch of `pipeline` that a step reads. It borrows from all three.
StepInput InputOf(const Model& model, const pipeline::Pipeline& pipeline,
                  const pipeline::Batch& batch);

// What is evaluated, and on which data. All borrow.
struct EvaluationParts {
  const Model& model;
  const pipeline::Plan& plan;
  const std::string& plan_path;
  const std::shared_ptr<Context>& context;
  const std::string& quarantine_file;
  int threads = 0;             // the most workers of the pipeline; 0: all of the context's
  Backend* backend = nullptr;  // null: the pipeline alone is opened
  // Called on rank 0 after each batch: as InferenceOptions::progress. May be empty.
  std::function<void(int64_t done, int64_t total)> done = {};
};

// Checks that a pipeline can be evaluated.
//   INVALID_ARGUMENT  it never ends, or is empty
absl::Status CheckIsOnePass(const pipeline::StreamLength& length);

// Opens the evaluation pipeline for this rank and checks that it fits the model.
//   INVALID_ARGUMENT  it lacks the model's fields, never ends, or is empty
absl::StatusOr<std::unique_ptr<pipeline::Pipeline>> OpenEvaluation(
    const EvaluationParts& parts, const collectives::Communicator& communicator,
    const std::function<void(int64_t done, int64_t total)>& index_progress = {});

struct Evaluation {
  int64_t correct = 0;
  int64_t in_top5 = 0;
  int64_t total = 0;
  double loss_sum = 0;
  double error_sum = 0;
  std::optional<double> auc;  // of a binary loss; NaN: it is undefined (auc.h)

  double accuracy() const {
    return total > 0 ? static_cast<double>(correct) / static_cast<double>(total) : 0;
  }
};

// Runs the evaluation pipeline once: every sample counts exactly once over all ranks, padding does
// not count. Reports this rank's phases to `progress`, as part of `step`. Collective; the result is
// over all ranks.
absl::StatusOr<Evaluation> Evaluate(const EvaluationParts& parts,
                                    collectives::Communicator& communicator,
                                    collectives::Progress& progress, int64_t step);

// The metrics that suit the model's first loss, `loss`.
EvaluationLine LineOf(const Evaluation& evaluation, const Loss& loss);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_EVALUATE_H_
