#ifndef MILLRACE_TRAINER_WEIGHTS_INITIAL_H_
#define MILLRACE_TRAINER_WEIGHTS_INITIAL_H_

#include "absl/status/status.h"
#include "trainer/job/job.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"

namespace millrace::trainer {

// Sets the weights and buffers with which a training of `job` begins: drawn by its seed, then those
// of the file of init_from, if `reads_file`.
//   INVALID_ARGUMENT      the file's tensors do not fit the model (TakeWeights)
//   NOT_FOUND, DATA_LOSS  it is missing, or damaged
absl::Status SetInitialTensors(const JobFile& job, const Model& model, bool reads_file,
                               TensorSet& weights, TensorSet& buffers);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_WEIGHTS_INITIAL_H_
