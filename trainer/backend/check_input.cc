#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/loss.h"

namespace millrace::trainer {
namespace {

// INVALID_ARGUMENT for a row's value, with the record it comes from as far as that is known.
absl::Status BadRow(const StepInput& input, int64_t row, const std::string& text) {
  if (!input.ids.empty() && input.locate) {
    RecordError error = input.locate(input.ids[row]);
    error.reason = RecordErrorReason::kValue;
    return MakeRecordError(absl::StatusCode::kInvalidArgument, error, text);
  }
  return absl::InvalidArgumentError(absl::StrCat("row ", row, ": ", text));
}

absl::Status CheckTensor(const ModelInput& input, const ConstTensorView& tensor,
                         const Shape& wanted) {
  if (tensor.dtype == DType::kF32 && tensor.shape == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", input.field, "' is ", std::string(Name(tensor.dtype)), " ",
                   tensor.shape.ToString(), "; the model wants float32 ", wanted.ToString()));
}

absl::Status CheckLabels(const Loss& loss, const ConstTensorView& labels, const StepInput& input) {
  const auto rows = static_cast<int64_t>(input.valid.size());
  const bool integer = labels.dtype == DType::kI64 || labels.dtype == DType::kI32;
  if (!integer || labels.shape.num_elements() != rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", loss.target, "' is ", std::string(Name(labels.dtype)), " ", labels.shape.ToString(),
        "; the model wants an integer for each of ", rows, " rows"));
  }
  for (int64_t row = 0; row < rows; ++row) {
    if (input.valid[row] == 0) continue;
    const int64_t label = LabelAt(labels, row);
    if (label < 0 || label >= loss.classes) {
      return BadRow(input, row,
                    absl::StrCat("'", loss.target, "' is ", label, ", the model has classes 0-",
                                 loss.classes - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckStepInput(const Model& model, const StepInput& input) {
  const auto rows = static_cast<int64_t>(input.valid.size());
  if (rows < 1) return absl::InvalidArgumentError("a batch without rows");
  if (input.inputs.size() != model.inputs.size() || input.targets.size() != model.losses.size()) {
    return absl::InvalidArgumentError("the batch does not have the fields of the model");
  }
  for (size_t i = 0; i < input.inputs.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(
        CheckTensor(model.inputs[i], input.inputs[i], model.input_shape(i).Prepend(rows)));
  }
  for (size_t i = 0; i < input.targets.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckLabels(model.losses[i], input.targets[i], input));
  }
  return absl::OkStatus();
}

}  // namespace millrace::trainer
