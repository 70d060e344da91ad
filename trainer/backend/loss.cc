#include "trainer/backend/loss.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace millrace::trainer {
namespace {

int64_t LabelAt(const ConstTensorView& labels, int64_t row) {
  return labels.dtype == DType::kI64 ? labels.as<int64_t>()[row] : labels.as<int32_t>()[row];
}

// INVALID_ARGUMENT for a row's value, with the record it comes from as far as that is known.
absl::Status BadRow(const StepInput& input, int64_t row, const std::string& text) {
  if (!input.ids.empty() && input.locate) {
    RecordError error = input.locate(input.ids[row]);
    error.reason = RecordErrorReason::kValue;
    return MakeRecordError(absl::StatusCode::kInvalidArgument, error, text);
  }
  return absl::InvalidArgumentError(absl::StrCat("row ", row, ": ", text));
}

// One row: returns its loss and fills `gradient` when there is one.
double RowLoss(std::span<const float> logits, int64_t label, double scale,
               std::span<float> gradient) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - top);
  const double log_sum = top + std::log(sum);
  for (size_t k = 0; k < gradient.size(); ++k) {
    const double probability = std::exp(logits[k] - log_sum);
    const double target = static_cast<int64_t>(k) == label ? 1 : 0;
    gradient[k] = static_cast<float>((probability - target) * scale);
  }
  return log_sum - logits[label];
}

}  // namespace

StepResult SoftmaxCrossEntropyLoss(std::span<const float> logits, int64_t num_classes,
                                   const StepInput& input, std::span<float> gradient) {
  StepResult result;
  const double scale = 1.0 / static_cast<double>(std::max<int64_t>(1, input.global_valid_rows));
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  for (size_t row = 0; row < input.valid.size(); ++row) {
    if (input.valid[row] == 0) continue;
    const size_t begin = row * static_cast<size_t>(num_classes);
    const std::span<const float> values = logits.subspan(begin, num_classes);
    const int64_t label = LabelAt(input.labels, static_cast<int64_t>(row));
    result.loss_sum += RowLoss(values, label, scale,
                               gradient.empty() ? gradient : gradient.subspan(begin, num_classes));
    const auto best = std::max_element(values.begin(), values.end()) - values.begin();
    result.correct += best == label ? 1 : 0;
    ++result.valid;
  }
  return result;
}

absl::Status CheckStepInput(const Model& model, const StepInput& input) {
  const auto rows = static_cast<int64_t>(input.valid.size());
  if (rows < 1) return absl::InvalidArgumentError("a batch without rows");
  const Shape wanted = model.input_shape.Prepend(rows);
  if (input.images.dtype != DType::kF32 || !(input.images.shape == wanted)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", model.input_field, "' is ", std::string(Name(input.images.dtype)), " ",
        input.images.shape.ToString(), "; the model wants float32 ", wanted.ToString()));
  }
  const bool integer = input.labels.dtype == DType::kI64 || input.labels.dtype == DType::kI32;
  if (!integer || input.labels.shape.num_elements() != rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", model.label_field, "' is ", std::string(Name(input.labels.dtype)), " ",
        input.labels.shape.ToString(), "; the model wants an integer for each of ", rows, " rows"));
  }
  for (int64_t row = 0; row < rows; ++row) {
    if (input.valid[row] == 0) continue;
    const int64_t label = LabelAt(input.labels, row);
    if (label < 0 || label >= model.num_classes) {
      return BadRow(input, row,
                    absl::StrCat("'", model.label_field, "' is ", label,
                                 ", the model has classes 0-", model.num_classes - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace::trainer
