#include "trainer/inference/prediction.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "trainer/backend/loss.h"

namespace millrace::trainer {
namespace {

std::vector<float> Softmax(std::span<const float> logits) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  std::vector<float> probabilities;
  for (const float logit : logits) {
    probabilities.push_back(static_cast<float>(std::exp(logit - top) / sum));
  }
  return probabilities;
}

std::vector<float> Sigmoid(std::span<const float> logits) {
  std::vector<float> probabilities;
  for (const float logit : logits) {
    probabilities.push_back(static_cast<float>(1 / (1 + std::exp(-double{logit}))));
  }
  return probabilities;
}

// The class that counts as correct where it is the label: the first of the largest.
std::vector<int64_t> ClassOf(std::span<const float> logits) {
  return {std::ranges::max_element(logits) - logits.begin()};
}

std::vector<float> Copy(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace

absl::StatusOr<PredictionMaker> PredictionMaker::Make(const Model& model,
                                                      const pipeline::Pipeline& pipeline) {
  const Schema& schema = pipeline.schema();
  Model with_targets = model;
  std::erase_if(with_targets.losses,
                [&](const Loss& loss) { return schema.Find(loss.target) == nullptr; });
  MILLRACE_RETURN_IF_ERROR(CheckFields(with_targets, schema));
  return PredictionMaker(model, pipeline);
}

std::string WhyNoOutput(const Model& model, const Loss& loss, std::span<const float> output) {
  if (std::ranges::all_of(output, [](float value) { return std::isfinite(value); })) return "";
  return absl::StrCat("the output of '", model.values[loss.input].name, "' is not finite");
}

absl::StatusOr<Prediction> PredictionMaker::RowOf(Network& network, const pipeline::Batch& batch,
                                                  int64_t row) const {
  const SampleId& id = batch.ids()[row];
  const RecordError place = pipeline_.Locate(id);
  Prediction prediction;
  prediction.push_back({"file", place.file, false});
  prediction.push_back({"record", std::vector{place.ordinal}, false});
  prediction.push_back({"sub_index", std::vector{static_cast<int64_t>(id.sub_index)}, false});
  for (size_t i = 0; i < model_.losses.size(); ++i) {
    const Loss& loss = model_.losses[i];
    const std::string prefix = model_.losses.size() > 1 ? loss.name + "/" : "";
    const int64_t values = loss.shape.num_elements();
    MILLRACE_ASSIGN_OR_RETURN(const auto outputs, network.output(i));
    const auto output = outputs.subspan(row * values, values);
    const std::string bad = WhyNoOutput(model_, loss, output);
    if (!bad.empty()) return MakeRecordError(absl::StatusCode::kOutOfRange, place, bad);
    AddOutput(loss, prefix, output, prediction);
    AddTarget(loss, prefix, batch, row, prediction);
  }
  return prediction;
}

void PredictionMaker::AddOutput(const Loss& loss, const std::string& prefix,
                                std::span<const float> output, Prediction& prediction) const {
  if (loss.kind == LossKind::kSoftmaxCrossEntropy) {
    prediction.push_back({prefix + "probabilities", Softmax(output), true});
    prediction.push_back({prefix + "class", ClassOf(output), false});
    return;
  }
  prediction.push_back({prefix + "output", Copy(output), true});
  if (loss.kind == LossKind::kSigmoidCrossEntropy) {
    prediction.push_back({prefix + "probabilities", Sigmoid(output), true});
  }
}

void PredictionMaker::AddTarget(const Loss& loss, const std::string& prefix,
                                const pipeline::Batch& batch, int64_t row,
                                Prediction& prediction) const {
  const ConstTensorView target = batch.Find(loss.target);
  if (target.data == nullptr) return;
  if (target.dtype != DType::kF32) {
    prediction.push_back({prefix + "target", std::vector{LabelAt(target, row)}, false});
    return;
  }
  const int64_t values = loss.shape.num_elements();
  prediction.push_back(
      {prefix + "target", Copy(target.as<float>().subspan(row * values, values)), true});
}

}  // namespace millrace::trainer
