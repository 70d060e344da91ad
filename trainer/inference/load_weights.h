#ifndef MILLRACE_TRAINER_INFERENCE_LOAD_WEIGHTS_H_
#define MILLRACE_TRAINER_INFERENCE_LOAD_WEIGHTS_H_

#include "absl/status/statusor.h"
#include "trainer/inference.h"
#include "trainer/job/job.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"

namespace millrace::trainer {

struct LoadedWeights {
  WeightsUsed used;
  TensorSet weights;
  TensorSet buffers;
};

// Loads the weights that `options` name. Warns of each damaged checkpoint that is passed over; the
// file stays as it is.
//   the errors of EvaluateJob about weights
absl::StatusOr<LoadedWeights> LoadWeights(const InferenceOptions& options, const JobFile& job,
                                          const Model& model);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_INFERENCE_LOAD_WEIGHTS_H_
