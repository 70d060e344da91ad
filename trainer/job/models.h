#ifndef MILLRACE_TRAINER_JOB_MODELS_H_
#define MILLRACE_TRAINER_JOB_MODELS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/plan.h"
#include "trainer/job/job.h"
#include "trainer/model/model.h"

namespace millrace::trainer {

// Loads the models of `job`, in its order. The variables that their files name are added to `used`.
// Of several models, the names of layers begin with the model's role.
//   NOT_FOUND         a file is missing
//   INVALID_ARGUMENT  as LoadModel; or the models of an adversarial job do not fit each other: the
//                     text names files, layers and shapes; or a layer is synchronized, and the job
//                     uses servers: "FILE:LINE:COLUMN: ..." of the layer
absl::StatusOr<std::vector<Model>> LoadModels(const JobFile& job,
                                              const pipeline::Variables& variables,
                                              std::set<std::string>& used);

// Loads the model of a job that has one.
//   INVALID_ARGUMENT  also: the job has two; the text names `job_path`
absl::StatusOr<Model> LoadOnlyModel(const std::string& job_path, const JobFile& job,
                                    const pipeline::Variables& variables,
                                    std::set<std::string>& used);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_JOB_MODELS_H_
