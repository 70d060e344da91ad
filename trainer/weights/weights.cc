#include "trainer/weights.h"

#include <set>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/job/job.h"
#include "trainer/job/models.h"
#include "trainer/model/joint.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/optimizer/weight_average.h"
#include "trainer/weights/exchange.h"

namespace millrace::trainer {
namespace {

struct JobModel {
  JobFile job;
  Model model;
};

absl::StatusOr<JobModel> LoadJobModel(const WeightsOptions& options) {
  JobModel loaded;
  std::set<std::string> used;
  MILLRACE_ASSIGN_OR_RETURN(loaded.job, LoadJob(options.job_path, options.variables, used));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Model> models,
                            LoadModels(loaded.job, options.variables, used));
  loaded.model = Join(models);
  return loaded;
}

absl::StatusOr<std::string> NewestCheckpoint(const JobFile& job, const std::string& job_path) {
  if (job.checkpoint_folder.empty()) {
    return absl::NotFoundError(absl::StrCat(job_path, ": the job names no checkpoint.folder"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                            ListCheckpoints(job.checkpoint_folder));
  if (paths.empty()) {
    return absl::NotFoundError(absl::StrCat(job.checkpoint_folder, ": there is no checkpoint"));
  }
  return paths[0];
}

// Before the work, by a file that is given up.
absl::Status CheckCanWrite(const std::string& path) {
  MILLRACE_RETURN_IF_ERROR(CheckIsNoFolder(path));
  AtomicFile::RemoveAbandoned(path);
  return AtomicFile::Create(path).status();
}

absl::StatusOr<WeightsCount> Write(const std::string& path,
                                   const std::map<std::string, std::string>& metadata,
                                   std::span<const TensorRef> tensors) {
  MILLRACE_RETURN_IF_ERROR(WriteSafetensors(path, metadata, tensors));
  WeightsCount count;
  count.tensors = static_cast<int64_t>(tensors.size());
  for (const TensorRef& tensor : tensors) count.elements += std::ssize(tensor.data);
  return count;
}

}  // namespace

absl::StatusOr<WeightsCount> ExportWeights(const WeightsOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckCanWrite(options.to));
  MILLRACE_ASSIGN_OR_RETURN(const JobModel loaded, LoadJobModel(options));
  std::string from = options.from;
  if (from.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(from, NewestCheckpoint(loaded.job, options.job_path));
  }
  MILLRACE_ASSIGN_OR_RETURN(Checkpoint checkpoint, LoadCheckpoint(from, loaded.model));
  if (options.average) {
    MILLRACE_ASSIGN_OR_RETURN(checkpoint.weights, TakeSlot(kAverageSlot, loaded.model, checkpoint));
  }
  const TorchTensors torch = WithTorchNames(loaded.model, checkpoint.weights, checkpoint.buffers);
  // Readers of the format ask for this word.
  return Write(options.to, {{"format", "pt"}}, torch.tensors);
}

absl::StatusOr<WeightsCount> ImportWeights(const WeightsOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckCanWrite(options.to));
  MILLRACE_ASSIGN_OR_RETURN(const JobModel loaded, LoadJobModel(options));
  MILLRACE_ASSIGN_OR_RETURN(TensorFile file, ReadForeignSafetensors(options.from));
  if (const auto i = FirstWithoutMatch(file, loaded.model, options.except)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "except: '", options.except[*i], "' matches no tensor of the model or of ", options.from));
  }
  TensorSet weights = MakeInitialWeights(loaded.model, loaded.job.job.seed());
  TensorSet buffers = MakeInitialBuffers(loaded.model);
  MILLRACE_RETURN_IF_ERROR(
      TakeWeights(options.from, std::move(file), loaded.model, options.except, weights, buffers));
  return Write(options.to, {{"from", options.from}}, WithOurNames(loaded.model, weights, buffers));
}

}  // namespace millrace::trainer
