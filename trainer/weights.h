#ifndef MILLRACE_TRAINER_WEIGHTS_H_
#define MILLRACE_TRAINER_WEIGHTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

// The exchange of weights with PyTorch, as safetensors files with the names and layouts of its
// state_dict: safetensors.torch.load_file reads what ExportWeights writes, and ImportWeights reads
// what safetensors.torch.save_file writes.

namespace millrace::trainer {

struct WeightsOptions {
  std::string job_path;                          // the job whose model the weights are of
  std::map<std::string, std::string> variables;  // ${NAME} in the job's files
  std::string from;                              // the file that is read
  std::string to;                                // the file that is written; replaced if it exists
  bool average = false;  // export: true for the average of the weights (ema) in their place
  // Names of tensors that are not taken, with *, ? and [...]: import gives them the values with
  // which a training begins.
  std::vector<std::string> except;
};

struct WeightsCount {
  int64_t tensors = 0;
  int64_t elements = 0;
};

// Writes the weights and the running statistics of the checkpoint `from` (empty: the job's newest)
// for PyTorch.
//   NOT_FOUND            a file is missing, the job has no checkpoint, or that has no average
//   INVALID_ARGUMENT     a file of the job is wrong ("FILE:LINE:COLUMN: ...")
//   FAILED_PRECONDITION  the checkpoint is of another model
//   DATA_LOSS            the checkpoint is damaged
absl::StatusOr<WeightsCount> ExportWeights(const WeightsOptions& options);

// Reads PyTorch's weights from `from` and writes a file of ours, which a job can begin with
// (init_from).
//   INVALID_ARGUMENT  a file of the job is wrong, or the weights do not fit the model: the text
//                     names the tensors that are missing, of other shapes, or of no layer
//   NOT_FOUND         a file is missing
//   DATA_LOSS         `from` is no safetensors file, or damaged
absl::StatusOr<WeightsCount> ImportWeights(const WeightsOptions& options);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_WEIGHTS_H_
