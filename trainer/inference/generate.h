#ifndef MILLRACE_TRAINER_INFERENCE_GENERATE_H_
#define MILLRACE_TRAINER_INFERENCE_GENERATE_H_

#include <string>

#include "absl/status/statusor.h"
#include "trainer/inference.h"

namespace millrace::trainer {

// Writes to `out` the samples, `options.samples` of them, that the generator of an adversarial job
// makes of noise. A sample depends on the weights, the seed and its number alone. The outcomes are
// PredictJob's.
absl::StatusOr<PredictionOutcome> Generate(const InferenceOptions& options, const std::string& out);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_INFERENCE_GENERATE_H_
