#ifndef MILLRACE_TRAINER_INFERENCE_PREDICTION_H_
#define MILLRACE_TRAINER_INFERENCE_PREDICTION_H_

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/schema.h"
#include "pipeline/pipeline.h"
#include "trainer/backend/backend.h"
#include "trainer/model/model.h"

namespace millrace::trainer {

// A named value of a sample: a text, or numbers.
struct PredictionField {
  std::string name;
  std::variant<std::string, std::vector<int64_t>, std::vector<float>> value;
  bool is_list = false;  // true if every sample has a list of numbers, be it of one
};

// The fields of one sample; all samples of a plan have the same ones.
using Prediction = std::vector<PredictionField>;

// "the output of 'fc1' is not finite" if a value of `output`, which `loss` reads, is infinite or
// NaN, else empty.
std::string WhyNoOutput(const Model& model, const Loss& loss, std::span<const float> output);

// Makes the predictions of a model for the batches of a pipeline. Immutable.
class PredictionMaker {
 public:
  // Both outlive it.
  //   INVALID_ARGUMENT  the pipeline lacks a field of the model's inputs, or one that has the name
  //                     of a target is none
  static absl::StatusOr<PredictionMaker> Make(const Model& model,
                                              const pipeline::Pipeline& pipeline);

  // The sample in a valid row of `batch`, which `network` has just predicted: where its record
  // lies, and for each loss the value that it reads, with the target if the pipeline has it.
  //   OUT_OF_RANGE  a value is infinite or NaN (RecordError says for which record)
  //   other         Network::output's
  absl::StatusOr<Prediction> RowOf(Network& network, const pipeline::Batch& batch,
                                   int64_t row) const;

 private:
  PredictionMaker(const Model& model, const pipeline::Pipeline& pipeline)
      : model_(model), pipeline_(pipeline) {}

  void AddOutput(const Loss& loss, const std::string& prefix, std::span<const float> output,
                 Prediction& prediction) const;
  void AddTarget(const Loss& loss, const std::string& prefix, const pipeline::Batch& batch,
                 int64_t row, Prediction& prediction) const;

  const Model& model_;
  const pipeline::Pipeline& pipeline_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_INFERENCE_PREDICTION_H_
