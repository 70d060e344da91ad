#ifndef MILLRACE_TRAINER_BACKEND_LOSS_H_
#define MILLRACE_TRAINER_BACKEND_LOSS_H_

#include <span>

#include "trainer/backend/backend.h"

namespace millrace::trainer {

// The label of a row of int64 or int32 labels.
int64_t LabelAt(const ConstTensorView& labels, int64_t row);

// Computes `loss` of `output`, rows of the loss' input, against `target`. Losses are summed in
// double. Where `gradient` is not empty (same size as output), it becomes d(loss sum /
// global_valid_rows) / d output; rows of padding get zeros, and so do those of a given gradient.
// Dividing by the valid rows of the global batch, not by this rank's, is what makes the sum over
// ranks the gradient of the global mean, also when the last batch is ragged (Goyal et al. 2017,
// section 3).
// REQUIRES: CheckStepInput(input).
StepResult ComputeLoss(const Loss& loss, std::span<const float> output,
                       const ConstTensorView& target, const StepInput& input,
                       std::span<float> gradient);

// Takes a loss scale out of a gradient, exactly.
void Unscale(double scale, std::span<float> gradient);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_LOSS_H_
