#ifndef MILLRACE_TRAINER_LOOP_RESUME_H_
#define MILLRACE_TRAINER_LOOP_RESUME_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/job/job.h"
#include "trainer/loop/trained_model.h"
#include "trainer/model/model.h"
#include "trainer/optimizer/slots.h"

namespace millrace::trainer {

// The end of a refusal that `--force` overrules.
inline constexpr char kForceAdvice[] = "; --force goes on all the same, and warns what is lost";

// What goes on, and how. It borrows.
struct Resumption {
  const std::string& job_path;
  const JobFile& job;
  const Model& model;  // the layers of all models
  const std::vector<TrainedModel>& models;
  bool force = false;  // true if a job that has changed goes on all the same
  const std::function<void(std::string_view line)>& warn;  // may be empty
};

// Loads the newest checkpoint among `paths`, the newest first, that is whole, and moves its slots
// to `slots`, which the training needs, by model. Those that are newer and damaged are set aside,
// with a warning for each.
//   NOT_FOUND            there are no paths
//   DATA_LOSS            all are damaged, and stay as they are; the text is of the newest
//   FAILED_PRECONDITION  it is of another model, or of another job, without force
absl::StatusOr<Checkpoint> LoadNewest(const Resumption& resumption,
                                      const std::vector<std::string>& paths,
                                      std::vector<Slots>& slots);

// Finds the checkpoint with which a training begins, in the job's folder, and checks that new ones
// can be written there before hours of work depend on it. Returns nullopt without `resumes`, and if
// the job names no folder.
//   ALREADY_EXISTS  there is a checkpoint, but the training does not resume
//   other           LoadNewest's; or the folder cannot be written to
absl::StatusOr<std::optional<Checkpoint>> FindBeginning(const Resumption& resumption, bool resumes,
                                                        std::vector<Slots>& slots);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_RESUME_H_
