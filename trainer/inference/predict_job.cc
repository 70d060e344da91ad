#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "trainer/inference.h"
#include "trainer/inference/generate.h"
#include "trainer/inference/inference.h"
#include "trainer/inference/prediction.h"
#include "trainer/inference/prediction_writer.h"
#include "trainer/ranks/agree.h"

namespace millrace::trainer {
namespace {

absl::StatusOr<std::unique_ptr<pipeline::Pipeline>> OpenPlan(const InferenceOptions& options,
                                                             const Inference& inference) {
  pipeline::OpenOptions open;
  open.quarantine_file = inference.quarantine_file;
  open.index_progress = options.index_progress;
  MILLRACE_ASSIGN_OR_RETURN(auto opened,
                            pipeline::Pipeline::Open(*inference.plan, inference.context, open));
  MILLRACE_RETURN_IF_ERROR(CheckIsOnePass(opened->length()));
  return opened;
}

absl::Status WriteBatch(const PredictionMaker& maker, Network& network,
                        const pipeline::Batch& batch, PredictionWriter& writer) {
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    if (batch.valid()[row] == 0) continue;
    MILLRACE_ASSIGN_OR_RETURN(const Prediction prediction, maker.RowOf(network, batch, row));
    MILLRACE_RETURN_IF_ERROR(writer.Write(prediction));
  }
  return absl::OkStatus();
}

// Returns the number of samples.
absl::StatusOr<int64_t> Predict(const InferenceOptions& options, const Inference& inference,
                                PredictionWriter& writer) {
  const auto at_plan = [&](const absl::Status& status) {
    return Annotate(status, inference.plan_path);
  };
  const auto opened = OpenPlan(options, inference);
  if (!opened.ok()) return at_plan(opened.status());
  pipeline::Pipeline& pipeline = **opened;
  const auto maker = PredictionMaker::Make(inference.model, pipeline);
  if (!maker.ok()) return at_plan(maker.status());
  int64_t samples = 0;
  for (int64_t batches = 1;; ++batches) {
    MILLRACE_RETURN_IF_ERROR(CheckGoesOn(options));
    const auto batch = pipeline.Next();
    if (!batch.ok()) return at_plan(batch.status());
    if (!batch->has_value()) return samples;
    MILLRACE_ASSIGN_OR_RETURN(
        Network* const network,
        inference.backend->Compile((*batch)->num_rows(), NetworkUse::kPrediction));
    StepInput input = InputOf(inference.model, pipeline, **batch);
    input.targets.clear();
    if (const auto run = network->Forward(input); !run.ok()) return at_plan(run);
    MILLRACE_RETURN_IF_ERROR(WriteBatch(*maker, *network, **batch, writer));
    samples += (*batch)->num_valid_rows();
    if (options.progress) {
      options.progress(batches, static_cast<int64_t>(pipeline.length().batches));
    }
  }
}

absl::StatusOr<PredictionOutcome> Run(const InferenceOptions& options, const std::string& out) {
  // First: a file that cannot be written is known before hours of work.
  MILLRACE_ASSIGN_OR_RETURN(const auto writer, PredictionWriter::Open(out));
  Inference inference;
  MILLRACE_RETURN_IF_ERROR(LoadFiles(options, inference));
  MILLRACE_ASSIGN_OR_RETURN(inference.loaded, LoadOwnWeights(options, inference));
  MILLRACE_RETURN_IF_ERROR(MakeBackend(options, {}, options.warn, inference));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t samples, Predict(options, inference, *writer));
  MILLRACE_RETURN_IF_ERROR(writer->Close());
  return PredictionOutcome{inference.loaded.used, samples};
}

}  // namespace

absl::StatusOr<PredictionOutcome> PredictJob(const InferenceOptions& options,
                                             const std::string& out) {
  PredictionOutcome outcome;
  MILLRACE_RETURN_IF_ERROR(WithoutExceptions([&] {
    MILLRACE_ASSIGN_OR_RETURN(outcome,
                              options.samples > 0 ? Generate(options, out) : Run(options, out));
    return absl::OkStatus();
  }));
  return outcome;
}

}  // namespace millrace::trainer
