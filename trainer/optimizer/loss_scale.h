#ifndef MILLRACE_TRAINER_OPTIMIZER_LOSS_SCALE_H_
#define MILLRACE_TRAINER_OPTIMIZER_LOSS_SCALE_H_

#include <cstdint>
#include <optional>
#include <string>

// Loss scaling (Micikevicius et al. 2018, "Mixed Precision Training"), in the terms of PyTorch's
// GradScaler: gradients are computed of the loss times a scale, so that small ones are no zeros of
// float16. All scales are powers of two, so float32 has the same bits with and without one.

namespace millrace::trainer {

class LossScaling;  // job.proto

struct LossScale {
  double scale = 1;
  uint64_t good_steps = 0;  // since the scale has changed, or a step was skipped

  friend bool operator==(const LossScale&, const LossScale&) = default;
};

// The scale with which a training begins that goes on from `saved` (nullopt: at its start). `spec`
// is checked and has its defaults filled in.
LossScale BeginLossScale(const LossScaling& spec, const std::optional<LossScale>& saved);

// Adapts the scale to the outcome of a step, the same on all ranks: a dynamic one shrinks with a
// step that is skipped, and grows with a number of others in a row. It stays in [1, 2^24].
void UpdateLossScale(const LossScaling& spec, bool is_skipped, LossScale& scale);

// "static, 1024", or "dynamic from 65536: ...".
std::string DescribeLossScaling(const LossScaling& spec);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_LOSS_SCALE_H_
