#include "trainer/weights/initial.h"

#include <utility>

#include "base/status.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/weights/exchange.h"

namespace millrace::trainer {

absl::Status SetInitialTensors(const JobFile& job, const Model& model, bool reads_file,
                               TensorSet& weights, TensorSet& buffers) {
  weights = MakeInitialWeights(model, job.job.seed());
  buffers = MakeInitialBuffers(model);
  if (!reads_file || job.init_path.empty()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(TensorFile file, ReadForeignSafetensors(job.init_path));
  const auto& except = job.job.init_from().except();
  return TakeWeights(job.init_path, std::move(file), model, {except.begin(), except.end()}, weights,
                     buffers);
}

}  // namespace millrace::trainer
