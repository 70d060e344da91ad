#include "trainer/backend/loss.h"

#include <algorithm>
#include <cmath>

namespace millrace::trainer {
namespace {

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

int64_t LabelAt(const ConstTensorView& labels, int64_t row) {
  return labels.dtype == DType::kI64 ? labels.as<int64_t>()[row] : labels.as<int32_t>()[row];
}

StepResult SoftmaxCrossEntropyLoss(std::span<const float> logits, int64_t num_classes,
                                   const ConstTensorView& labels, const StepInput& input,
                                   std::span<float> gradient) {
  StepResult result;
  const double scale = 1.0 / static_cast<double>(std::max<int64_t>(1, input.global_valid_rows));
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  for (size_t row = 0; row < input.valid.size(); ++row) {
    if (input.valid[row] == 0) continue;
    const size_t begin = row * static_cast<size_t>(num_classes);
    const std::span<const float> values = logits.subspan(begin, num_classes);
    const int64_t label = LabelAt(labels, static_cast<int64_t>(row));
    result.loss_sum += RowLoss(values, label, scale,
                               gradient.empty() ? gradient : gradient.subspan(begin, num_classes));
    const auto best = std::max_element(values.begin(), values.end()) - values.begin();
    result.correct += best == label ? 1 : 0;
    ++result.valid;
  }
  return result;
}

}  // namespace millrace::trainer
