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

absl::Status BadField(const std::string& field, const ConstTensorView& tensor,
                      const std::string& wanted, int64_t rows) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", field, "' is ", std::string(Name(tensor.dtype)), " ", tensor.shape.ToString(),
      "; the model wants ", wanted, " for each of ", rows, " rows"));
}

absl::Status CheckLabels(const Loss& loss, const ConstTensorView& labels, const StepInput& input) {
  for (size_t row = 0; row < input.valid.size(); ++row) {
    if (input.valid[row] == 0) continue;
    const int64_t label = LabelAt(labels, static_cast<int64_t>(row));
    if (label >= 0 && label < loss.num_labels()) continue;
    return BadRow(input, static_cast<int64_t>(row),
                  absl::StrCat("'", loss.target, "' is ", label, ", the model has classes 0-",
                               loss.num_labels() - 1));
  }
  return absl::OkStatus();
}

// The shape of one of `rows` rows; an impossible one if there are not as many.
Shape RowShape(const Shape& shape, int64_t rows) {
  if (shape.rank() == 0 || shape[0] != rows) return {Shape::kUnknown};
  return Shape(shape.extents().subspan(1));
}

}  // namespace

absl::Status CheckStepInput(const Model& model, const StepInput& input, NetworkUse use) {
  const auto rows = static_cast<int64_t>(input.valid.size());
  if (rows < 1) return absl::InvalidArgumentError("a batch without rows");
  const size_t targets = use == NetworkUse::kPrediction ? 0 : model.losses.size();
  if (input.inputs.size() != model.inputs.size() || input.targets.size() != targets) {
    return absl::InvalidArgumentError("the batch does not have the fields of the model");
  }
  for (size_t i = 0; i < input.inputs.size(); ++i) {
    const ConstTensorView& tensor = input.inputs[i];
    const ModelInput& wanted = model.inputs[i];
    const Shape& shape = model.input_shape(i);
    if (tensor.dtype == wanted.dtype && RowShape(tensor.shape, rows) == shape) continue;
    return BadField(wanted.field, tensor,
                    absl::StrCat(std::string(Name(wanted.dtype)), " ", shape.ToString()), rows);
  }
  for (size_t i = 0; i < input.targets.size(); ++i) {
    const ConstTensorView& target = input.targets[i];
    const Loss& loss = model.losses[i];
    if (loss.kind == LossKind::kGivenGradient) continue;
    if (!loss.Accepts(target.dtype, RowShape(target.shape, rows))) {
      return BadField(loss.target, target, loss.WantedTarget(), rows);
    }
    if (target.dtype == DType::kF32) continue;
    MILLRACE_RETURN_IF_ERROR(CheckLabels(loss, target, input));
  }
  return absl::OkStatus();
}

}  // namespace millrace::trainer
