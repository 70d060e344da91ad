#ifndef MILLRACE_TRAINER_INFERENCE_LOAD_WEIGHTS_H_
#define MILLRACE_TRAINER_INFERENCE_LOAD_WEIGHTS_H_

#include <string>
#include <vector>

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

// The model whose weights are wanted.
struct WantedModel {
  const Model& trained;  // the layers of all models that the job trains, of which checkpoints are
  const Model& model;    // the same, or one of them
  // The names of the tensors of the others in a file that is no checkpoint.
  std::vector<std::string> others = {};
  bool has_average = false;  // true if the job has an average of its weights
};

// Loads the weights that `options` name. Warns of each damaged checkpoint that is passed over; the
// file stays as it is.
//   the errors of EvaluateJob about weights
absl::StatusOr<LoadedWeights> LoadWeights(const InferenceOptions& options, const JobFile& job,
                                          const WantedModel& wanted);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_INFERENCE_LOAD_WEIGHTS_H_
