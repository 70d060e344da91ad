#ifndef MILLRACE_TRAINER_JOB_TRIALS_H_
#define MILLRACE_TRAINER_JOB_TRIALS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/context.h"
#include "pipeline/diagnosis.h"
#include "pipeline/edit_text.h"
#include "pipeline/performance.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"

// Steps of a job under other settings of its pipeline, for `millrace tune`.

namespace millrace::trainer {

struct JobTrialOptions {
  std::string job_path;
  std::map<std::string, std::string> variables;  // ${NAME} in the job's files
  // Both are called in Open alone, and may be empty.
  std::function<void(std::string_view line)> warn;  // receives warnings
  std::function<void(int64_t done_bytes, int64_t total_bytes)> index_progress;
};

// A training on one rank that goes on from step to step, and leaves nothing: it writes no
// checkpoint, evaluates nothing and prints nothing. The threads of compute are those of `train`
// with any settings, since results depend on their number. Thread-compatible.
class JobTrials {
 public:
  // Opens the training under its own settings, at its first step, whatever checkpoints there are.
  //   the errors of Train
  //   INVALID_ARGUMENT  also: the job has several ranks in each process
  static absl::StatusOr<std::unique_ptr<JobTrials>> Open(const JobTrialOptions& options);
  virtual ~JobTrials() = default;

  virtual const std::string& plan_path() const = 0;
  virtual const pipeline::Plan& plan() const = 0;
  // The settings that the job says, else its plan; 0: neither does.
  virtual const pipeline::Performance& settings() const = 0;
  virtual int compute_threads() const = 0;
  // The threads of the pipeline where no setting says a number: those that `train` begins with.
  virtual int default_threads() const = 0;

  // Opens the pipeline under other settings, behind the last step.
  //   the errors of MakeContext and Pipeline::Open; then the pipeline is closed until another call
  virtual absl::Status Use(const pipeline::Performance& settings) = 0;
  // Makes a step. Returns its samples, or nullopt: the steps of the job were done, and it was
  // opened again at its first step. REQUIRES: the pipeline is open.
  //   the errors of Train
  virtual absl::StatusOr<std::optional<int64_t>> Step() = 0;

  // The pipeline that is open, and its context, until Use or Step.
  virtual pipeline::Pipeline& pipeline() = 0;
  virtual Context& context() = 0;
  virtual pipeline::DiagnosisOptions diagnosis_options() const = 0;
};

// Returns the text of a job with changes of its performance, `pipeline_threads` and
// `memory_budget_mib`, and of `train`, the name of its plan. As pipeline::EditFields.
absl::StatusOr<pipeline::EditedText> EditJobText(
    std::string_view text, const std::map<std::string, std::string>& variables,
    std::span<const pipeline::FieldChange> changes, std::string_view title = "");

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_JOB_TRIALS_H_
