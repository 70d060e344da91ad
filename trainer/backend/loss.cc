#include "trainer/backend/loss.h"

#include <algorithm>
#include <cmath>

namespace millrace::trainer {
namespace {

constexpr int kTop = 5;

// The target of one row: values, or a label.
struct Target {
  std::span<const float> values;  // empty: there is a label
  int64_t label = 0;

  double at(size_t k) const {
    if (!values.empty()) return values[k];
    return static_cast<int64_t>(k) == label ? 1 : 0;
  }
};

// One row of a loss.
struct Row {
  const Loss& loss;
  std::span<const float> output;
  Target target;
  double scale = 0;           // factor of the gradient
  std::span<float> gradient;  // empty: none is wanted
};

// The class of a row's target: the first of its largest values.
size_t ClassOf(const Target& target) {
  if (target.values.empty()) return static_cast<size_t>(target.label);
  return std::ranges::max_element(target.values) - target.values.begin();
}

// Counts the row if its target's class has the largest output, or one of the largest few. Of equals
// the first counts.
void CountClass(const Row& row, StepResult& result) {
  const size_t wanted = ClassOf(row.target);
  int before = 0;
  for (size_t k = 0; k < row.output.size(); ++k) {
    if (k == wanted) continue;
    const bool is_less = row.output[k] < row.output[wanted];  // also false for NaN
    if (!is_less && !(row.output[k] == row.output[wanted] && k > wanted)) ++before;
  }
  result.correct += before == 0 ? 1 : 0;
  result.in_top5 += before < kTop ? 1 : 0;
}

double Softmax(const Row& row, StepResult& result) {
  const double top = *std::ranges::max_element(row.output);
  double sum = 0;
  for (const float logit : row.output) sum += std::exp(logit - top);
  const double log_sum = top + std::log(sum);
  const double kept = 1 - row.loss.smoothing;
  const double spread = row.loss.smoothing / static_cast<double>(row.output.size());
  double expected = 0;  // mean of the logits by the target
  for (size_t k = 0; k < row.output.size(); ++k) {
    const double target = kept * row.target.at(k) + spread;
    if (target != 0) expected += target * row.output[k];
    if (row.gradient.empty()) continue;
    const double probability = std::exp(row.output[k] - log_sum);
    row.gradient[k] = static_cast<float>((probability - target) * row.scale);
  }
  CountClass(row, result);
  return log_sum - expected;
}

// -(t log s + (1 - t) log(1 - s)) = max(x, 0) - t x + log(1 + exp(-|x|)).
double Sigmoid(const Row& row, StepResult& result) {
  const double n = static_cast<double>(row.output.size());
  const double one = row.target.values.empty() ? static_cast<double>(row.target.label) : 0;
  double sum = 0;
  bool is_correct = true;
  for (size_t k = 0; k < row.output.size(); ++k) {
    const double x = row.output[k];
    const double target = row.target.values.empty() ? one : row.target.at(k);
    sum += std::max(x, 0.0) - target * x + std::log1p(std::exp(-std::abs(x)));
    is_correct = is_correct && (x > 0) == (target > 0.5);
    if (row.gradient.empty()) continue;
    const double probability = 1 / (1 + std::exp(-x));
    row.gradient[k] = static_cast<float>((probability - target) / n * row.scale);
  }
  result.correct += is_correct ? 1 : 0;
  return sum / n;
}

double Error(const Row& row, StepResult& result) {
  const bool is_squared = row.loss.kind == LossKind::kMeanSquaredError;
  const double n = static_cast<double>(row.output.size());
  double sum = 0;
  double absolute = 0;
  for (size_t k = 0; k < row.output.size(); ++k) {
    const double difference = row.output[k] - row.target.at(k);
    absolute += std::abs(difference);
    sum += is_squared ? difference * difference : std::abs(difference);
    if (row.gradient.empty()) continue;
    const double sign = difference > 0 ? 1 : (difference < 0 ? -1 : 0);
    row.gradient[k] = static_cast<float>((is_squared ? 2 * difference : sign) / n * row.scale);
  }
  result.error_sum += absolute / n;
  return sum / n;
}

double RowLoss(const Row& row, StepResult& result) {
  switch (row.loss.kind) {
    case LossKind::kSoftmaxCrossEntropy:
      return Softmax(row, result);
    case LossKind::kSigmoidCrossEntropy:
      return Sigmoid(row, result);
    case LossKind::kMeanSquaredError:
    case LossKind::kMeanAbsoluteError:
      return Error(row, result);
    case LossKind::kGivenGradient:
      break;
  }
  return 0;
}

}  // namespace

int64_t LabelAt(const ConstTensorView& labels, int64_t row) {
  return labels.dtype == DType::kI64 ? labels.as<int64_t>()[row] : labels.as<int32_t>()[row];
}

StepResult ComputeLoss(const Loss& loss, std::span<const float> output,
                       const ConstTensorView& target, const StepInput& input,
                       std::span<float> gradient) {
  StepResult result;
  const size_t values = output.size() / input.valid.size();
  const double rows = static_cast<double>(std::max<int64_t>(1, input.global_valid_rows));
  const double scale = loss.weight / rows * input.loss_scale;
  std::ranges::fill(gradient, 0.0f);
  for (size_t row = 0; row < input.valid.size(); ++row) {
    if (input.valid[row] == 0) continue;
    ++result.valid;
    if (loss.kind == LossKind::kGivenGradient) continue;
    const size_t begin = row * values;
    Row one{loss, output.subspan(begin, values), {}, scale, gradient};
    if (!gradient.empty()) one.gradient = gradient.subspan(begin, values);
    if (target.dtype == DType::kF32) {
      one.target.values = target.as<float>().subspan(begin, values);
    } else {
      one.target.label = LabelAt(target, static_cast<int64_t>(row));
    }
    result.loss_sum += loss.weight * RowLoss(one, result);
  }
  return result;
}

void Unscale(double scale, std::span<float> gradient) {
  const auto factor = static_cast<float>(1 / scale);
  for (float& value : gradient) value *= factor;
}

}  // namespace millrace::trainer
