#include "trainer/inference/load_weights.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/optimizer/weight_average.h"
#include "trainer/weights/exchange.h"

namespace millrace::trainer {
namespace {

// A safetensors file of any program.
absl::StatusOr<LoadedWeights> LoadFile(const std::string& path, const WantedModel& wanted) {
  const Model& model = wanted.model;
  MILLRACE_ASSIGN_OR_RETURN(TensorFile file, ReadForeignSafetensors(path));
  LoadedWeights loaded;
  loaded.used.path = path;
  loaded.weights = MakeZeros(model);
  loaded.buffers = MakeInitialBuffers(model);
  MILLRACE_RETURN_IF_ERROR(
      TakeWeights(path, std::move(file), model, wanted.others, loaded.weights, loaded.buffers));
  return loaded;
}

// Where a checkpoint is of another model, the tensors that do not fit say more than a fingerprint.
absl::Status ExplainMisfit(const absl::Status& status, const std::string& path,
                           const WantedModel& wanted) {
  if (!absl::IsFailedPrecondition(status)) return status;
  const absl::Status misfit = LoadFile(path, wanted).status();
  return misfit.ok() ? status : misfit;
}

// Moves the tensors of those of `all` that are in `part`, which has the order of `all`.
template <typename Named>
TensorSet PartOf(const std::vector<Named>& all, const std::vector<Named>& part, TensorSet tensors) {
  TensorSet taken;
  for (size_t i = 0; i < all.size() && taken.size() < part.size(); ++i) {
    if (all[i].name == part[taken.size()].name) taken.push_back(std::move(tensors[i]));
  }
  return taken;
}

absl::StatusOr<LoadedWeights> LoadOne(const std::string& path, const WantedModel& wanted,
                                      bool use_average) {
  const Model& all = wanted.trained;
  const Model& model = wanted.model;
  absl::StatusOr<Checkpoint> checkpoint = LoadCheckpoint(path, all);
  if (!checkpoint.ok()) return ExplainMisfit(checkpoint.status(), path, wanted);
  LoadedWeights loaded;
  loaded.used = {path, checkpoint->state.step, use_average};
  if (use_average) {
    absl::StatusOr<TensorSet> average = TakeSlot(kAverageSlot, model, *checkpoint);
    if (!average.ok()) {
      return absl::NotFoundError(absl::StrCat(
          path,
          ": the job has an average of the weights (ema), but the checkpoint has none; take "
          "the weights themselves with --no-ema"));
    }
    loaded.weights = *std::move(average);
  } else {
    loaded.weights = PartOf(all.parameters, model.parameters, std::move(checkpoint->weights));
  }
  loaded.buffers = PartOf(all.buffers, model.buffers, std::move(checkpoint->buffers));
  return loaded;
}

absl::StatusOr<LoadedWeights> LoadNewestOf(const std::string& folder, const WantedModel& wanted,
                                           const InferenceOptions& options, bool use_average) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ListCheckpoints(folder));
  absl::Status newest = absl::NotFoundError(absl::StrCat(folder, ": there is no checkpoint"));
  std::vector<std::string> damages;
  for (const std::string& path : paths) {
    absl::StatusOr<LoadedWeights> loaded = LoadOne(path, wanted, use_average);
    if (!loaded.ok() && !absl::IsDataLoss(loaded.status())) return loaded.status();
    for (size_t i = 0; loaded.ok() && options.warn && i < damages.size(); ++i) {
      options.warn(absl::StrCat(damages[i], "; ", path, " is taken in its place"));
    }
    if (loaded.ok()) return loaded;
    if (damages.empty()) newest = loaded.status();
    damages.emplace_back(loaded.status().message());
  }
  return newest;
}

}  // namespace

absl::StatusOr<LoadedWeights> LoadWeights(const InferenceOptions& options, const JobFile& job,
                                          const WantedModel& wanted) {
  const bool use_average = options.use_average && wanted.has_average;
  if (options.checkpoint.empty() && job.checkpoint_folder.empty()) {
    return absl::NotFoundError(absl::StrCat(
        options.job_path, ": the job names no checkpoint.folder, and no checkpoint is given"));
  }
  const std::string& path = options.checkpoint.empty() ? job.checkpoint_folder : options.checkpoint;
  std::error_code error;
  if (options.checkpoint.empty() || std::filesystem::is_directory(path, error)) {
    return LoadNewestOf(path, wanted, options, use_average);
  }
  const auto metadata = ReadSafetensorsMetadata(path);
  if (metadata.ok() && IsCheckpoint(*metadata)) return LoadOne(path, wanted, use_average);
  return LoadFile(path, wanted);
}

}  // namespace millrace::trainer
