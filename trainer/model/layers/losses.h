#ifndef MILLRACE_TRAINER_MODEL_LAYERS_LOSSES_H_
#define MILLRACE_TRAINER_MODEL_LAYERS_LOSSES_H_

#include <span>

#include "absl/status/statusor.h"
#include "base/shape.h"
#include "trainer/model/layers/row.h"
#include "trainer/model/loss.h"
#include "trainer/model/model.pb.h"

namespace millrace::trainer {

bool IsLoss(LayerSpec::KindCase kind);

// The documentation of a kind that is no LayerRow.
struct LayerDoc {
  LayerSpec::KindCase kind;
  const char* doc;
  std::span<const LayerOption> options;
};
std::span<const LayerDoc> LossDocs();

// Makes a loss of a value of this shape; name and input are the caller's to set.
//   INVALID_ARGUMENT  a setting is out of range, or does not fit the shape
// REQUIRES: IsLoss.
absl::StatusOr<Loss> BuildLoss(const LayerSpec& spec, const Shape& input);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODEL_LAYERS_LOSSES_H_
