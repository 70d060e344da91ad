#include "trainer/inference/generate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/run.h"
#include "base/status.h"
#include "pipeline/text_proto.h"
#include "trainer/inference/inference.h"
#include "trainer/inference/prediction.h"
#include "trainer/inference/prediction_writer.h"
#include "trainer/job/models.h"
#include "trainer/loop/noise.h"
#include "trainer/model/joint.h"

namespace millrace::trainer {
namespace {

// Rows of every batch, so that a sample has the same bits for any number of them.
constexpr int64_t kRows = 16;

absl::Status CheckOptions(const InferenceOptions& options, const JobFile& job) {
  if (!job.job.has_adversarial()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.job_path,
                     ": samples are made by the generator of an adversarial job; this job's "
                     "model reads a plan"));
  }
  if (options.plan_path.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      options.plan_path, ": a generator reads no plan; its samples are made of noise"));
}

// Reads the job and the models, of which the second one generates, and the weights of that one.
absl::Status LoadGenerator(const InferenceOptions& options, Inference& inference) {
  std::set<std::string> used;
  MILLRACE_ASSIGN_OR_RETURN(
      inference.job, LoadJob(options.job_path, options.variables, used, {}, {}, options.device));
  const JobFile& job = inference.job;
  MILLRACE_RETURN_IF_ERROR(CheckOptions(options, job));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Model> models,
                            LoadModels(job, options.variables, used));
  AddVariablesOf(job.train_path, options.variables, used);
  MILLRACE_RETURN_IF_ERROR(pipeline::CheckVariablesUsed(options.variables, used));
  inference.model = models[1];
  const Model trained = Join(models);
  const std::string& other = job.models[0].role;
  MILLRACE_ASSIGN_OR_RETURN(inference.loaded,
                            LoadWeights(options, job,
                                        {trained,
                                         inference.model,
                                         {absl::StrCat(other, "/*"), absl::StrCat(other, ".*")},
                                         job.models[1].optimizer.has_ema()}));
  return absl::OkStatus();
}

// Makes samples, some rows at a time.
class Generator {
 public:
  Generator(const InferenceOptions& options, const Inference& inference, Network& network)
      : options_(options),
        inference_(inference),
        network_(network),
        noise_(inference.model.input_shape(0).Prepend(kRows).num_elements()) {
    valid_.fill(1);
  }

  // Makes samples [first, first + kRows).
  absl::Status Make(int64_t first);
  // That of row `row`.
  absl::StatusOr<Prediction> RowOf(int64_t row) const;

 private:
  const InferenceOptions& options_;
  const Inference& inference_;
  Network& network_;
  std::vector<float> noise_;
  std::array<uint8_t, kRows> valid_ = {};
  std::array<SampleId, kRows> ids_ = {};
};

absl::Status Generator::Make(int64_t first) {
  for (int64_t row = 0; row < kRows; ++row) ids_[row].record = static_cast<uint64_t>(first + row);
  FillNoise(inference_.job.job.adversarial().noise(), options_.seed, /*step=*/0, ids_, noise_);
  StepInput input;
  input.inputs.push_back(
      {noise_.data(), DType::kF32, inference_.model.input_shape(0).Prepend(kRows)});
  input.valid = valid_;
  input.ids = ids_;
  return network_.Forward(input);
}

absl::StatusOr<Prediction> Generator::RowOf(int64_t row) const {
  const Loss& loss = inference_.model.losses[0];
  const int64_t values = loss.shape.num_elements();
  MILLRACE_ASSIGN_OR_RETURN(const auto outputs, network_.output(0));
  const auto output = outputs.subspan(row * values, values);
  const auto number = static_cast<int64_t>(ids_[row].record);
  const std::string bad = WhyNoOutput(inference_.model, loss, output);
  if (!bad.empty()) return absl::OutOfRangeError(absl::StrCat("sample ", number, ": ", bad));
  return Prediction{{"sample", std::vector{number}, false},
                    {"output", std::vector<float>(output.begin(), output.end()), true}};
}

}  // namespace

absl::StatusOr<PredictionOutcome> Generate(const InferenceOptions& options,
                                           const std::string& out) {
  MILLRACE_ASSIGN_OR_RETURN(const auto writer, PredictionWriter::Open(out));
  Inference inference;
  MILLRACE_RETURN_IF_ERROR(LoadGenerator(options, inference));
  MILLRACE_RETURN_IF_ERROR(MakeBackend(options, {}, options.warn, inference));
  MILLRACE_ASSIGN_OR_RETURN(Network* const network,
                            inference.backend->Compile(kRows, NetworkUse::kPrediction));
  Generator generator(options, inference, *network);
  for (int64_t first = 0; first < options.samples; first += kRows) {
    MILLRACE_RETURN_IF_ERROR(CheckGoesOn(options));
    MILLRACE_RETURN_IF_ERROR(generator.Make(first));
    for (int64_t row = 0; row < std::min(kRows, options.samples - first); ++row) {
      MILLRACE_ASSIGN_OR_RETURN(const Prediction prediction, generator.RowOf(row));
      MILLRACE_RETURN_IF_ERROR(writer->Write(prediction));
    }
    if (options.progress) {
      options.progress(std::min(first + kRows, options.samples), options.samples);
    }
  }
  MILLRACE_RETURN_IF_ERROR(writer->Close());
  return PredictionOutcome{inference.loaded.used, options.samples};
}

}  // namespace millrace::trainer
