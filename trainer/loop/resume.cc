#include "trainer/loop/resume.h"

#include <cstddef>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "trainer/optimizer/weight_average.h"

namespace millrace::trainer {
namespace {

void Warn(const Resumption& resumption, const std::string& text) {
  if (resumption.warn) resumption.warn(text);
}

struct Found {
  Checkpoint checkpoint;
  std::vector<absl::Status> damages;  // of the newer ones
};

absl::StatusOr<Found> Find(const Resumption& resumption, const std::vector<std::string>& paths) {
  std::vector<absl::Status> damages;
  for (const std::string& path : paths) {
    absl::StatusOr<Checkpoint> loaded = LoadCheckpoint(path, resumption.model);
    if (loaded.ok()) return Found{*std::move(loaded), std::move(damages)};
    if (!absl::IsDataLoss(loaded.status())) return loaded.status();
    damages.push_back(loaded.status());
  }
  if (!damages.empty()) return damages[0];
  return absl::NotFoundError(
      absl::StrCat(resumption.job.checkpoint_folder, ": there is no checkpoint to resume"));
}

absl::Status CheckJob(const Resumption& resumption, const Checkpoint& checkpoint) {
  const JobChanges changes = ChangesOfJob(checkpoint.state.job, resumption.job.weights_text);
  if (!changes.others.empty() && !resumption.force) {
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint.path, ": the checkpoint is of another job than ",
                     resumption.job_path, ": ", changes.others[0], kForceAdvice));
  }
  if (!changes.length.empty()) {
    Warn(resumption, absl::StrCat(checkpoint.path, ": ", changes.length,
                                  ": from here on the learning rates are those of this length"));
  }
  if (!changes.others.empty()) {
    Warn(resumption,
         absl::StrCat(checkpoint.path, ": resuming by force: ", absl::StrJoin(changes.others, "; "),
                      ". Results are not those of one training"));
  }
  return absl::OkStatus();
}

// `weights` are those of `model`. By force, a slot that the checkpoint lacks begins as at the start
// of a training.
absl::Status TakeSlots(const Resumption& resumption, const Model& model,
                       std::span<const std::vector<float>> weights, Checkpoint& checkpoint,
                       Slots& slots) {
  for (Slot& slot : slots) {
    absl::StatusOr<TensorSet> tensors = TakeSlot(slot.name, model, checkpoint);
    if (tensors.ok()) {
      slot.tensors = *std::move(tensors);
      continue;
    }
    if (!resumption.force) {
      return absl::NotFoundError(absl::StrCat(tensors.status().message(), kForceAdvice));
    }
    if (slot.name == kAverageSlot) {
      slot.tensors.assign(weights.begin(), weights.end());
    } else {
      checkpoint.state.updates = 0;
    }
    Warn(resumption, absl::StrCat(tensors.status().message(), ": '", slot.name, "' begins anew"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Checkpoint> LoadNewest(const Resumption& resumption,
                                      const std::vector<std::string>& paths,
                                      std::vector<Slots>& slots) {
  MILLRACE_ASSIGN_OR_RETURN(Found found, Find(resumption, paths));
  MILLRACE_RETURN_IF_ERROR(CheckJob(resumption, found.checkpoint));
  size_t first = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    const Model& model = resumption.models[i].model;
    const auto weights = std::span<const std::vector<float>>(found.checkpoint.weights)
                             .subspan(first, model.parameters.size());
    MILLRACE_RETURN_IF_ERROR(TakeSlots(resumption, model, weights, found.checkpoint, slots[i]));
    first += model.parameters.size();
  }
  for (size_t i = 0; i < found.damages.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string aside, SetAside(paths[i]));
    Warn(resumption, absl::StrCat(found.damages[i].message(), "; it is now ", aside,
                                  ", and training continues from ", found.checkpoint.path));
  }
  return std::move(found.checkpoint);
}

absl::StatusOr<std::optional<Checkpoint>> FindBeginning(const Resumption& resumption, bool resumes,
                                                        std::vector<Slots>& slots) {
  const std::string& folder = resumption.job.checkpoint_folder;
  if (folder.empty()) return std::nullopt;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ListCheckpoints(folder));
  if (!resumes && !paths.empty()) {
    return absl::AlreadyExistsError(absl::StrCat(
        paths[0], ": a checkpoint of this job exists; continue it with --resume, or remove it"));
  }
  std::optional<Checkpoint> found;
  if (resumes) {
    MILLRACE_ASSIGN_OR_RETURN(found, LoadNewest(resumption, paths, slots));
  }
  MILLRACE_RETURN_IF_ERROR(CheckWritable(folder));
  return found;
}

}  // namespace millrace::trainer
