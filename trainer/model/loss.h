#ifndef MILLRACE_TRAINER_MODEL_LOSS_H_
#define MILLRACE_TRAINER_MODEL_LOSS_H_

#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "base/shape.h"

namespace millrace::trainer {

enum class LossKind {
  kSoftmaxCrossEntropy,
  kSigmoidCrossEntropy,
  kMeanSquaredError,
  kMeanAbsoluteError,
  kGivenGradient,  // no loss: the gradient comes from another model
};

// "softmax cross-entropy"
const char* KindName(LossKind kind);

// A loss of a model: it compares a value with a field of the batch. With a given gradient it is the
// end of a model that has no loss, and has no target.
struct Loss {
  std::string name;
  LossKind kind = LossKind::kSoftmaxCrossEntropy;
  int input = -1;  // the value that it reads
  Shape shape;     // of that value, per sample
  std::string target;
  double weight = 1;     // factor in the loss of the model
  double smoothing = 0;  // the part of a target that is spread over all classes

  // REQUIRES: a softmax.
  int64_t classes() const { return shape[0]; }
  // True for a loss whose metric is the mean error, not the accuracy.
  bool is_regression() const {
    return kind == LossKind::kMeanSquaredError || kind == LossKind::kMeanAbsoluteError;
  }
  // The number of labels: integers from 0 that a sample's target may be. 0: it is float32.
  int64_t num_labels() const;
  // True if a sample's target may have this type and shape.
  bool Accepts(DType dtype, const Shape& target_shape) const;
  // "int64 or int32 [], or float32 [10]": the targets that fit.
  std::string WantedTarget() const;
  // A line of Model::ToText; empty for the loss that models had before there were others, if it is
  // the only one.
  std::string ToText(bool is_only) const;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODEL_LOSS_H_
