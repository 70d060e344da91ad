#ifndef MILLRACE_TRAINER_INFERENCE_INFERENCE_H_
#define MILLRACE_TRAINER_INFERENCE_INFERENCE_H_

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/context.h"
#include "pipeline/plan.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/parameter_store.h"
#include "trainer/inference.h"
#include "trainer/inference/load_weights.h"
#include "trainer/job/job.h"
#include "trainer/loop/evaluate.h"
#include "trainer/model/model.h"

namespace millrace::trainer {

// A model with its weights, and the plan of its data, on one rank. It has neither gradients nor an
// optimizer. It is opened part by part, so that ranks can agree in between. Members are destroyed
// in reverse order: the backend, which reads the weights, first.
struct Inference {
  JobFile job;
  Model model;
  std::string plan_path;
  std::optional<pipeline::Plan> plan;
  CoreSplit cores;
  std::string quarantine_file;
  std::shared_ptr<Context> context;
  LoadedWeights loaded;
  std::unique_ptr<cuda::Device> device;         // null: the CPU computes
  std::unique_ptr<cuda::ParameterStore> store;  // of the device
  std::unique_ptr<Backend> backend;

  // They borrow from this.
  EvaluationParts parts() const {
    return {.model = model,
            .plan = *plan,
            .plan_path = plan_path,
            .context = context,
            .quarantine_file = quarantine_file,
            .backend = backend.get()};
  }
};

// Adds the variables of a plan of the job that is not read: a command line that trains the job is
// good for all of its uses.
void AddVariablesOf(const std::string& path, const pipeline::Variables& variables,
                    std::set<std::string>& used);

// Reads the job, the model and the plan.
absl::Status LoadFiles(const InferenceOptions& options, Inference& inference);

// Loads the weights of the job's only model.
absl::StatusOr<LoadedWeights> LoadOwnWeights(const InferenceOptions& options,
                                             const Inference& inference);

// CANCELLED if `options.stop` was set.
absl::Status CheckGoesOn(const InferenceOptions& options);

// A rank's place among those of its host.
struct LocalPlace {
  int rank = 0;
  int ranks = 1;
};

// Makes the context and the backend. After the weights are there. `warn` receives the pipeline's
// warnings; may be empty. `open_device` opens the job's device of a number, if it has one.
absl::Status MakeBackend(
    const InferenceOptions& options, const LocalPlace& place,
    const std::function<void(std::string_view line)>& warn, Inference& inference,
    const std::function<absl::StatusOr<std::unique_ptr<cuda::Device>>(int ordinal)>& open_device =
        cuda::MakeCudaDevice);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_INFERENCE_INFERENCE_H_
