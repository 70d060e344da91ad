#include "trainer/model/loss.h"

#include "absl/strings/str_cat.h"

namespace millrace::trainer {

const char* KindName(LossKind kind) {
  switch (kind) {
    case LossKind::kSoftmaxCrossEntropy:
      return "softmax cross-entropy";
    case LossKind::kSigmoidCrossEntropy:
      return "sigmoid cross-entropy";
    case LossKind::kMeanSquaredError:
      return "mean squared error";
    case LossKind::kMeanAbsoluteError:
      return "mean absolute error";
    case LossKind::kGivenGradient:
      return "given gradient";
  }
  return "unknown";
}

int64_t Loss::num_labels() const {
  if (kind == LossKind::kSoftmaxCrossEntropy) return classes();
  return kind == LossKind::kSigmoidCrossEntropy && shape.num_elements() == 1 ? 2 : 0;
}

bool Loss::Accepts(DType dtype, const Shape& target_shape) const {
  if (dtype == DType::kF32) return target_shape == shape;
  const bool is_label = dtype == DType::kI64 || dtype == DType::kI32;
  return is_label && num_labels() > 0 && target_shape == Shape{};
}

std::string Loss::WantedTarget() const {
  const std::string values = absl::StrCat("float32 ", shape.ToString());
  return num_labels() > 0 ? absl::StrCat("int64 or int32 [], or ", values) : values;
}

std::string Loss::ToText(bool is_only) const {
  const bool is_plain = kind == LossKind::kSoftmaxCrossEntropy && smoothing == 0 && weight == 1;
  if (is_only && is_plain) return "";
  std::string text = absl::StrCat("loss '", name, "' ", KindName(kind), ", weight ", weight);
  if (smoothing > 0) absl::StrAppend(&text, ", smoothing ", smoothing);
  return text;
}

}  // namespace millrace::trainer
