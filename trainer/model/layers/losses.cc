#include "trainer/model/layers/losses.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/model/layers/row.h"

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

}  // namespace

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
