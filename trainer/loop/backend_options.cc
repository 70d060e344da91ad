#include "trainer/loop/backend_options.h"

#include <string>

namespace millrace::trainer {

BackendOptions BackendOptionsOf(const Job& job, const CoreSplit& cores) {
  BackendOptions options(cores.compute);
  const std::string& precision = job.precision();
  if (precision == "bfloat16") options.precision = Precision::kBFloat16;
  if (precision == "float16") options.precision = Precision::kFloat16;
  if (precision == "auto") options.precision = Precision::kAuto;
  options.tf32 = precision == "tf32";
  options.recomputes_activations = job.recompute_activations();
  return options;
}

DType ComputeTypeOf(const Job& job) {
  const std::string& precision = job.precision();
  if (precision == "float16") return DType::kF16;
  return precision == "bfloat16" || precision == "auto" ? DType::kBF16 : DType::kF32;
}

cuda::NetworkOptions NetworkOptionsOf(const Job& job, const cuda::ParameterStore& store,
                                      cuda::TunedPlans* tuned) {
  cuda::NetworkOptions options;
  options.captures = !job.has_cuda_graphs() || job.cuda_graphs();
  options.graph_ends = cuda::LastOfBuckets(store.layout());
  options.tuned = tuned;
  return options;
}

}  // namespace millrace::trainer
