#include "trainer/loop/backend_options.h"

#include <string>

namespace millrace::trainer {

BackendOptions BackendOptionsOf(const Job& job, const CoreSplit& cores) {
  BackendOptions options(cores.compute);
  const std::string& precision = job.precision();
  if (precision == "bfloat16") options.precision = Precision::kBFloat16;
  if (precision == "auto") options.precision = Precision::kAuto;
  options.recomputes_activations = job.recompute_activations();
  return options;
}

}  // namespace millrace::trainer
