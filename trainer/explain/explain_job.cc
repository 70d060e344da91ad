#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/bytes_text.h"
#include "base/status.h"
#include "pipeline/pipeline.h"
#include "pipeline/text_proto.h"
#include "trainer/backend/backend.h"
#include "trainer/explain.h"
#include "trainer/explain/layer_table.h"
#include "trainer/explain/model_dot.h"
#include "trainer/explain/model_sizes.h"
#include "trainer/explain/rate_plot.h"
#include "trainer/job/job.h"
#include "trainer/job/models.h"
#include "trainer/loop/backend_options.h"
#include "trainer/loop/plan_file.h"
#include "trainer/loop/steps.h"
#include "trainer/model/joint.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/report.h"

namespace millrace::trainer {
namespace {

// The files of a job.
struct JobFiles {
  JobFile job;
  std::vector<Model> models;
  Model model;                          // the layers of all
  std::optional<pipeline::Plan> train;  // nullopt: variables of it have no value
  PlanNumbers numbers;                  // of the training plan
  std::string missing;                  // why there is no plan
};

// Loads a plan of the job; nullopt if variables of it have no value, which `missing` then tells.
absl::StatusOr<std::optional<pipeline::Plan>> LoadPlanOf(const std::string& path,
                                                         const ExplainOptions& options,
                                                         std::set<std::string>& used,
                                                         PlanNumbers& numbers,
                                                         std::string& missing) {
  MILLRACE_ASSIGN_OR_RETURN(const pipeline::NamedVariables named,
                            pipeline::VariablesOf(path, options.variables));
  used.insert(named.all.begin(), named.all.end());
  if (named.without_value.empty()) return LoadPlan(path, options.variables, used, numbers);
  std::vector<std::string> flags;
  for (const std::string& name : named.without_value) flags.push_back("--var " + name + "=VALUE");
  missing = absl::StrCat(path, " needs ", absl::StrJoin(flags, " "));
  return std::nullopt;
}

absl::StatusOr<JobFiles> Load(const ExplainOptions& options) {
  JobFiles files;
  std::set<std::string> used;
  MILLRACE_ASSIGN_OR_RETURN(files.job, LoadJob(options.job_path, options.variables, used));
  MILLRACE_ASSIGN_OR_RETURN(files.models, LoadModels(files.job, options.variables, used));
  files.model = Join(files.models);
  MILLRACE_ASSIGN_OR_RETURN(
      files.train, LoadPlanOf(files.job.train_path, options, used, files.numbers, files.missing));
  if (!files.job.eval_path.empty()) {
    PlanNumbers numbers;
    std::string missing;
    const auto eval = LoadPlanOf(files.job.eval_path, options, used, numbers, missing);
    if (!eval.ok()) return eval.status();
  }
  MILLRACE_RETURN_IF_ERROR(pipeline::CheckVariablesUsed(options.variables, used));
  return files;
}

absl::StatusOr<std::unique_ptr<pipeline::Pipeline>> OpenTraining(const JobFiles& files,
                                                                 const ExplainOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(auto context, pipeline::MakeContext(*files.train));
  pipeline::OpenOptions open;
  open.index_progress = options.index_progress;
  return pipeline::Pipeline::Open(*files.train, std::move(context), open);
}

std::string OptimizerState(const OptimizerSpec& spec, const Model& model) {
  std::vector<std::string> slots = MakeUpdateRule(spec)->slots();
  if (spec.has_ema()) slots.emplace_back("ema");
  const int64_t numbers = std::ssize(slots) * model.num_parameters();
  return absl::StrCat(BytesOfFloats(numbers), ": ", absl::StrJoin(slots, ", "));
}

// "generator's " before what is said of one of several models.
std::string OwnerOf(const ModelFile& file) {
  return file.role.empty() ? "" : absl::StrCat(file.role, "'s ");
}

// The memory of values between layers, and of their gradients, in training.
absl::StatusOr<std::string> ActivationMemoryText(const JobFiles& files, size_t model) {
  const auto rows = static_cast<int64_t>(files.numbers.batch);
  const bool is_judged = files.job.models[model].role == "discriminator";
  const NetworkUse use = is_judged ? NetworkUse::kInputGradients : NetworkUse::kTraining;
  BackendOptions options = BackendOptionsOf(files.job.job, CoreSplit());
  const bool recomputes = options.recomputes_activations;
  const auto plan = [&](bool again) {
    options.recomputes_activations = again;
    return OneDnnActivationMemory(files.models[model], rows, use, options);
  };
  MILLRACE_ASSIGN_OR_RETURN(const ActivationMemory mine, plan(recomputes));
  MILLRACE_ASSIGN_OR_RETURN(const ActivationMemory other, plan(!recomputes));
  return absl::StrCat(BytesText(static_cast<double>(mine.bytes)),
                      recomputes ? " with recompute_activations, " : ", ",
                      BytesText(static_cast<double>(other.bytes)),
                      recomputes ? " without" : " with recompute_activations",
                      ": to train a batch of ", rows, " on one rank");
}

std::vector<std::string> Sizes(const JobFiles& files) {
  std::vector<std::pair<std::string, std::string>> rows =
      ModelSizes(files.model, files.numbers.batch);
  for (size_t i = 0; i < files.models.size(); ++i) {
    const ModelFile& file = files.job.models[i];
    if (files.numbers.batch > 0) {
      const auto memory = ActivationMemoryText(files, i);
      rows.emplace_back(OwnerOf(file) + "activation peak",
                        memory.ok() ? *memory : std::string(memory.status().message()));
    }
    rows.emplace_back(OwnerOf(file) + "optimizer", DescribeOptimizer(file.optimizer));
    rows.emplace_back(OwnerOf(file) + "optimizer state",
                      OptimizerState(file.optimizer, files.models[i]));
  }
  return FormatTable(rows);
}

// Of several models the first reads the plan; there are no targets in it.
absl::Status CheckFit(const JobFiles& files, const Schema& schema) {
  const bool is_only = files.models.size() == 1;
  return is_only ? CheckFields(files.model, schema) : CheckInputFields(files.models[0], schema);
}

absl::StatusOr<std::vector<std::string>> DrawRates(const JobFiles& files,
                                                   const ExplainOptions& options) {
  if (files.numbers.batch == 0) {
    return absl::InvalidArgumentError("the batch sizes of the buckets differ");
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto training, OpenTraining(files, options));
  MILLRACE_RETURN_IF_ERROR(CheckFit(files, training->schema()));
  MILLRACE_ASSIGN_OR_RETURN(const StepPlan steps, PlanSteps(files.job.job, training->length()));
  std::vector<std::string> lines;
  for (const ModelFile& file : files.job.models) {
    const Schedule schedule = Schedule::Make(file.optimizer, files.numbers.batch * steps.accumulate,
                                             steps.steps_per_epoch, steps.total_steps);
    lines.push_back(absl::StrCat(OwnerOf(file), "learning rate: ", schedule.Describe(), "; ",
                                 steps.total_steps, " steps, ", steps.steps_per_epoch,
                                 " an epoch"));
    for (std::string& line : PlotRates(schedule, steps.total_steps)) {
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

// The rates depend on the number of steps, and so on the data, which need not be there.
std::vector<std::string> Rates(const JobFiles& files, const ExplainOptions& options) {
  if (!files.train) return {"learning rate: not shown, because " + files.missing};
  const auto lines = DrawRates(files, options);
  if (lines.ok()) return *lines;
  return {absl::StrCat("learning rate: not shown, because this cannot be trained on: ",
                       files.job.train_path, ": ", lines.status().message())};
}

}  // namespace

absl::StatusOr<std::string> ExplainJob(const ExplainOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const JobFiles files, Load(options));
  if (options.as_dot) return ModelDot(files.model);
  std::vector<std::string> lines = {"job " + options.job_path};
  for (const ModelFile& file : files.job.models) {
    lines.push_back(absl::StrCat(OwnerOf(file), "model ", file.path));
  }
  lines.emplace_back();
  for (const auto& part : {LayerTable(files.model, OneDnnFusedInto(files.model)), Sizes(files),
                           Rates(files, options)}) {
    lines.insert(lines.end(), part.begin(), part.end());
    lines.emplace_back();
  }
  lines.pop_back();
  return absl::StrJoin(lines, "\n") + "\n";
}

}  // namespace millrace::trainer
