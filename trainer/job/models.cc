#include "trainer/job/models.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/text_proto.h"
#include "trainer/job/servers.h"
#include "trainer/model/joint.h"
#include "trainer/model/model.pb.h"

namespace millrace::trainer {
namespace {

constexpr std::string_view kGenerator = "generator";

absl::Status CheckOneInput(const ModelFile& file, const Model& model) {
  if (model.inputs.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path, ": a ", file.role, " has one input_layer; there are ", model.inputs.size()));
  }
  if (model.inputs[0].dtype == DType::kF32) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(file.path, ": a ", file.role,
                                                 " reads float32, not ",
                                                 std::string(Name(model.inputs[0].dtype))));
}

absl::Status CheckJudgement(const ModelFile& file, const Model& model) {
  if (model.losses.size() == 1 && model.losses[0].kind != LossKind::kSoftmaxCrossEntropy) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(file.path,
                   ": a discriminator has one loss, which is no softmax_cross_entropy "
                   "(a sigmoid_cross_entropy of one value, for example)"));
}

// The generator's samples are the discriminator's input.
absl::Status CheckFit(const JobFile& job, const std::vector<Model>& models) {
  const Model& discriminator = models[0];
  const Model& generator = models[1];
  for (size_t i = 0; i < models.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckOneInput(job.models[i], models[i]));
  }
  MILLRACE_RETURN_IF_ERROR(CheckJudgement(job.models[0], discriminator));
  const Loss& made = generator.losses[0];
  const Value& read = discriminator.values[discriminator.inputs[0].value];
  if (made.shape == read.shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      job.models[1].path, ": layer '", made.name, "' makes ", made.shape.ToString(), ", but ",
      job.models[0].path, ": layer '", read.name, "' reads ", read.shape.ToString()));
}

// The place in the file of the first layer that is synchronized.
absl::StatusOr<std::string> PlaceOfSynchronized(const std::string& path,
                                                const pipeline::Variables& variables) {
  ModelSpec spec;
  std::set<std::string> used;
  MILLRACE_ASSIGN_OR_RETURN(const pipeline::TextLocations locations,
                            pipeline::LoadTextProto(path, variables, &spec, &used));
  const auto first = std::ranges::find_if(
      spec.layer(), [](const LayerSpec& layer) { return layer.batch_norm().synchronized(); });
  const auto number = static_cast<int>(first - spec.layer().begin());
  return locations.At({{"layer", number}, {"batch_norm"}, {"synchronized"}});
}

// The workers of servers do not go in step.
absl::Status CheckGoesWithServers(const JobFile& job, const pipeline::Variables& variables,
                                  const Model& model) {
  const Layer* const layer = model.FindSynchronized();
  if (!UsesServers(job.job) || layer == nullptr) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const std::string place,
                            PlaceOfSynchronized(job.models[0].path, variables));
  return absl::InvalidArgumentError(absl::StrCat(
      place, ": layer '", layer->name, "': synchronized: it does not go with ", kServersField));
}

}  // namespace

absl::StatusOr<std::vector<Model>> LoadModels(const JobFile& job,
                                              const pipeline::Variables& variables,
                                              std::set<std::string>& used) {
  std::vector<Model> models;
  for (const ModelFile& file : job.models) {
    const ModelEnd end = file.role == kGenerator ? ModelEnd::kOutput : ModelEnd::kLosses;
    MILLRACE_ASSIGN_OR_RETURN(models.emplace_back(), LoadModel(file.path, variables, used, end));
  }
  MILLRACE_RETURN_IF_ERROR(CheckGoesWithServers(job, variables, models[0]));
  if (models.size() == 1) return models;
  MILLRACE_RETURN_IF_ERROR(CheckFit(job, models));
  for (size_t i = 0; i < models.size(); ++i) AddPrefix(job.models[i].role, models[i]);
  return models;
}

absl::StatusOr<Model> LoadOnlyModel(const std::string& job_path, const JobFile& job,
                                    const pipeline::Variables& variables,
                                    std::set<std::string>& used) {
  if (job.models.size() == 1) return LoadModel(job.model_path, variables, used);
  return absl::InvalidArgumentError(
      absl::StrCat(job_path,
                   ": adversarial: a generator and a discriminator read no evaluation plan; "
                   "`millrace predict --samples N` writes what the generator makes"));
}

}  // namespace millrace::trainer
