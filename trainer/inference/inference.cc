#include "trainer/inference/inference.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "base/host.h"
#include "base/status.h"
#include "pipeline/performance.h"
#include "pipeline/pipeline.pb.h"
#include "pipeline/text_proto.h"
#include "trainer/backend/cuda/backend.h"
#include "trainer/job/models.h"
#include "trainer/loop/backend_options.h"
#include "trainer/loop/open_context.h"
#include "trainer/loop/plan_file.h"

namespace millrace::trainer {

void AddVariablesOf(const std::string& path, const pipeline::Variables& variables,
                    std::set<std::string>& used) {
  pipeline::proto::Pipeline message;
  if (!path.empty()) (void)pipeline::LoadTextProto(path, variables, &message, &used);
}

absl::Status LoadFiles(const InferenceOptions& options, Inference& inference) {
  std::set<std::string> used;
  MILLRACE_ASSIGN_OR_RETURN(
      inference.job, LoadJob(options.job_path, options.variables, used, {}, {}, options.device));
  const JobFile& job = inference.job;
  MILLRACE_ASSIGN_OR_RETURN(inference.model,
                            LoadOnlyModel(options.job_path, job, options.variables, used));
  inference.plan_path = options.plan_path.empty() ? job.eval_path : options.plan_path;
  if (inference.plan_path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.job_path, ": the job has no eval plan; name another plan with --plan"));
  }
  PlanNumbers numbers;
  MILLRACE_ASSIGN_OR_RETURN(inference.plan,
                            LoadPlan(inference.plan_path, options.variables, used, numbers));
  AddVariablesOf(job.train_path, options.variables, used);
  AddVariablesOf(job.eval_path, options.variables, used);
  inference.quarantine_file = options.quarantine_file;
  return pipeline::CheckVariablesUsed(options.variables, used);
}

absl::StatusOr<LoadedWeights> LoadOwnWeights(const InferenceOptions& options,
                                             const Inference& inference) {
  const bool has_average = inference.job.job.optimizer().has_ema();
  return LoadWeights(options, inference.job, {inference.model, inference.model, {}, has_average});
}

absl::Status CheckGoesOn(const InferenceOptions& options) {
  const bool stops = options.stop != nullptr && options.stop->load(std::memory_order_relaxed);
  return stops ? absl::CancelledError("stopped by a signal; no file is written") : absl::OkStatus();
}

namespace {

absl::Status MakeBackendOnDevice(const BackendOptions& options, Inference& inference) {
  cuda::Device& device = *inference.device;
  MILLRACE_ASSIGN_OR_RETURN(
      inference.store, cuda::ParameterStore::Make(device, inference.model,
                                                  {.compute = ComputeTypeOf(inference.job.job)}));
  MILLRACE_RETURN_IF_ERROR(inference.store->Import(inference.loaded.weights));
  MILLRACE_RETURN_IF_ERROR(inference.store->ImportBuffers(inference.loaded.buffers));
  MILLRACE_ASSIGN_OR_RETURN(
      inference.backend,
      cuda::MakeDeviceBackend(device, inference.model, inference.store->tensors(), options));
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeBackend(
    const InferenceOptions& options, const LocalPlace& place,
    const std::function<void(std::string_view line)>& warn, Inference& inference,
    const std::function<absl::StatusOr<std::unique_ptr<cuda::Device>>(int ordinal)>& open_device) {
  pipeline::Performance said;
  if (inference.plan) said = pipeline::PerformanceOf(*inference.plan);
  FillFromPlan(said, inference.job.job);
  const Job& job = inference.job.job;
  inference.cores = SplitCores(ReadCores().usable, place.ranks, options.threads,
                               static_cast<int>(job.pipeline_threads()));
  if (said.io_threads > 0) inference.cores.io = said.io_threads;
  MILLRACE_ASSIGN_OR_RETURN(inference.context, OpenContext(job, inference.cores, warn));
  const BackendOptions backend = BackendOptionsOf(job, inference.cores);
  if (UsesCuda(job)) {
    const int ordinal = options.devices.empty() ? place.rank : options.devices[0];
    MILLRACE_ASSIGN_OR_RETURN(inference.device, open_device(ordinal));
    return MakeBackendOnDevice(backend, inference);
  }
  MILLRACE_ASSIGN_OR_RETURN(inference.backend,
                            MakeOneDnnBackend(inference.model, inference.loaded.weights,
                                              inference.loaded.buffers, {}, backend));
  return absl::OkStatus();
}

}  // namespace millrace::trainer
