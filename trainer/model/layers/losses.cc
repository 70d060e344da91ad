#include "trainer/model/layers/losses.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::trainer {
namespace {

// The fields that all losses have.
template <typename Spec>
absl::Status ReadCommon(const Spec& spec, const std::string& target, Loss& loss) {
  loss.target = target.empty() ? "label" : target;
  loss.weight = spec.has_weight() ? spec.weight() : 1;
  if (std::isfinite(loss.weight) && loss.weight >= 0) return absl::OkStatus();
  return BadLayer(absl::StrCat("weight ", loss.weight, " is not a number of 0 or more"));
}

absl::Status BuildSoftmax(const SoftmaxCrossEntropy& spec, Loss& loss) {
  if (loss.shape.rank() != 1 || loss.shape[0] < 2) {
    return BadLayer(absl::StrCat("it wants one value per class, at least two; its input is ",
                                 loss.shape.ToString()));
  }
  loss.kind = LossKind::kSoftmaxCrossEntropy;
  loss.smoothing = spec.label_smoothing();
  if (!(loss.smoothing >= 0 && loss.smoothing < 1)) {
    return BadLayer(
        absl::StrCat("label_smoothing ", loss.smoothing, " is not from 0 to less than 1"));
  }
  return ReadCommon(spec, spec.label(), loss);
}

template <typename Spec>
absl::Status BuildElementwiseLoss(LossKind kind, const Spec& spec, Loss& loss) {
  loss.kind = kind;
  return ReadCommon(spec, spec.target(), loss);
}

absl::Status BuildByKind(const LayerSpec& spec, Loss& loss) {
  switch (spec.kind_case()) {
    case LayerSpec::kSigmoidCrossEntropy:
      return BuildElementwiseLoss(LossKind::kSigmoidCrossEntropy, spec.sigmoid_cross_entropy(),
                                  loss);
    case LayerSpec::kMeanSquaredError:
      return BuildElementwiseLoss(LossKind::kMeanSquaredError, spec.mean_squared_error(), loss);
    case LayerSpec::kMeanAbsoluteError:
      return BuildElementwiseLoss(LossKind::kMeanAbsoluteError, spec.mean_absolute_error(), loss);
    default:
      return BuildSoftmax(spec.softmax_cross_entropy(), loss);
  }
}

constexpr LayerOption kWeight = {"weight", "factor in the loss of the model", "1"};
constexpr LayerOption kSoftmaxOptions[] = {
    {"label", "field of the batch: int64 or int32, the class; or float32, a value per class",
     "`label`"},
    {"label_smoothing", "part of the target that is spread over all classes", "0"},
    kWeight,
};
constexpr LayerOption kSigmoidOptions[] = {
    {"target",
     "field of the batch: float32 in the input's shape, from 0 to 1; of one value also "
     "int64 or int32, 0 or 1",
     "`label`"},
    kWeight,
};
constexpr LayerOption kErrorOptions[] = {
    {"target", "field of the batch: float32 in the input's shape", "`label`"},
    kWeight,
};

}  // namespace

std::span<const LayerDoc> LossDocs() {
  static constexpr LayerDoc kDocs[] = {
      {LayerSpec::kSoftmaxCrossEntropy, "A loss of classes: -log softmax(input) of the label.",
       kSoftmaxOptions},
      {LayerSpec::kSigmoidCrossEntropy,
       "A loss of labels that do not exclude each other, or of two classes.", kSigmoidOptions},
      {LayerSpec::kMeanSquaredError, "A loss: the mean of (input - target)^2.", kErrorOptions},
      {LayerSpec::kMeanAbsoluteError, "A loss: the mean of abs(input - target).", kErrorOptions},
  };
  return kDocs;
}

bool IsLoss(LayerSpec::KindCase kind) {
  return kind == LayerSpec::kSoftmaxCrossEntropy || kind == LayerSpec::kSigmoidCrossEntropy ||
         kind == LayerSpec::kMeanSquaredError || kind == LayerSpec::kMeanAbsoluteError;
}

absl::StatusOr<Loss> BuildLoss(const LayerSpec& spec, const Shape& input) {
  Loss loss;
  loss.shape = input;
  MILLRACE_RETURN_IF_ERROR(BuildByKind(spec, loss));
  return loss;
}

}  // namespace millrace::trainer
