#ifndef MILLRACE_TRAINER_MODEL_LAYERS_LOSSES_H_
#define MILLRACE_TRAINER_MODEL_LAYERS_LOSSES_H_

#include "absl/status/statusor.h"
#include "base/shape.h"
#include "trainer/model/loss.h"
#include "trainer/model/model.pb.h"

namespace millrace::trainer {

bool IsLoss(LayerSpec::KindCase kind);

// Makes a loss of a value of this shape; name and input are the caller's to set.
//   INVALID_ARGUMENT  a setting is out of range, or does not fit the shape
// REQUIRES: IsLoss.
absl::StatusOr<Loss> BuildLoss(const LayerSpec& spec, const Shape& input);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODEL_LAYERS_LOSSES_H_
