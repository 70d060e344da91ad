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
#include "trainer/explain/rate_plot.h"
#include "trainer/job/job.h"
#include "trainer/job/models.h"
#include "trainer/loop/plan_file.h"
#include "trainer/loop/steps.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/report.h"

namespace millrace::trainer {
namespace {

// The files of a job.
struct JobFiles {
  JobFile job;
  Model model;
  std::optional<pipeline::Plan> train;
  PlanNumbers numbers;  // of the training plan
};

absl::StatusOr<JobFiles> Load(const ExplainOptions& options) {
  JobFiles files;
  std::set<std::string> used;
  MILLRACE_ASSIGN_OR_RETURN(files.job, LoadJob(options.job_path, options.variables, used));
  MILLRACE_ASSIGN_OR_RETURN(files.model,
                            LoadOnlyModel(options.job_path, files.job, options.variables, used));
  MILLRACE_ASSIGN_OR_RETURN(files.train,
                            LoadPlan(files.job.train_path, options.variables, used, files.numbers));
  if (!files.job.eval_path.empty()) {
    PlanNumbers numbers;
    const auto eval = LoadPlan(files.job.eval_path, options.variables, used, numbers);
    if (!eval.ok()) return eval.status();
  }
  MILLRACE_RETURN_IF_ERROR(pipeline::CheckVariablesUsed(options.variables, used));
  return files;
}

absl::StatusOr<std::unique_ptr<pipeline::Pipeline>> OpenTraining(const JobFiles& files,
                                                                 const ExplainOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(auto context, pipeline::MakeContext());
  pipeline::OpenOptions open;
  open.index_progress = options.index_progress;
  return pipeline::Pipeline::Open(*files.train, std::move(context), open);
}

std::string BytesOfFloats(int64_t count) {
  return BytesText(static_cast<double>(count) * sizeof(float));
}

std::string OptimizerState(const JobFiles& files) {
  const OptimizerSpec& spec = files.job.job.optimizer();
  std::vector<std::string> slots = MakeUpdateRule(spec)->slots();
  if (spec.has_ema()) slots.emplace_back("ema");
  const int64_t numbers = std::ssize(slots) * files.model.num_parameters();
  return absl::StrCat(BytesOfFloats(numbers), ": ", absl::StrJoin(slots, ", "));
}

std::string Activations(const JobFiles& files, const ModelCost& cost) {
  const auto sample = static_cast<double>(cost.result_bytes);
  const uint64_t batch = files.numbers.batch;
  if (batch == 0) return absl::StrCat(BytesText(sample), " a sample: the results of all layers");
  return absl::StrCat(BytesText(sample * static_cast<double>(batch)),
                      ": the results of all layers "
                      "for a batch of ",
                      batch, ", over all ranks");
}

std::vector<std::string> Sizes(const JobFiles& files) {
  const Model& model = files.model;
  const ModelCost cost = CostOf(model);
  int64_t buffers = 0;
  for (const Buffer& buffer : model.buffers) buffers += buffer.shape.num_elements();
  return FormatTable({
      {"parameters", absl::StrCat(Grouped(model.num_parameters()), " (",
                                  BytesOfFloats(model.num_parameters()), ")")},
      {"buffers", absl::StrCat(Grouped(buffers), " (", BytesOfFloats(buffers), ")")},
      {"FLOPs", absl::StrCat(WithUnit(static_cast<double>(cost.flops)), " a sample, forward: ",
                             WithUnit(static_cast<double>(cost.flops / 2)), " multiply-adds")},
      {"optimizer", DescribeOptimizer(files.job.job.optimizer())},
      {"optimizer state", OptimizerState(files)},
      {"activations", Activations(files, cost)},
  });
}

absl::StatusOr<std::vector<std::string>> DrawRates(const JobFiles& files,
                                                   const ExplainOptions& options) {
  if (files.numbers.batch == 0) {
    return absl::InvalidArgumentError("the batch sizes of the buckets differ");
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto training, OpenTraining(files, options));
  MILLRACE_RETURN_IF_ERROR(CheckFields(files.model, training->schema()));
  MILLRACE_ASSIGN_OR_RETURN(const StepPlan steps, PlanSteps(files.job.job, training->length()));
  const Schedule schedule =
      Schedule::Make(files.job.job.optimizer(), files.numbers.batch * steps.accumulate,
                     steps.steps_per_epoch, steps.total_steps);
  std::vector<std::string> lines = PlotRates(schedule, steps.total_steps);
  lines.insert(lines.begin(),
               absl::StrCat("learning rate: ", schedule.Describe(), "; ", steps.total_steps,
                            " steps, ", steps.steps_per_epoch, " an epoch"));
  return lines;
}

// The rates depend on the number of steps, and so on the data, which need not be there.
std::vector<std::string> Rates(const JobFiles& files, const ExplainOptions& options) {
  const auto lines = DrawRates(files, options);
  if (lines.ok()) return *lines;
  return {absl::StrCat("learning rate: not shown, because this cannot be trained on: ",
                       files.job.train_path, ": ", lines.status().message())};
}

}  // namespace

absl::StatusOr<std::string> ExplainJob(const ExplainOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const JobFiles files, Load(options));
  if (options.as_dot) return ModelDot(files.model);
  std::vector<std::string> lines = {
      absl::StrCat("job ", options.job_path, ", model ", files.job.model_path), ""};
  for (const auto& part : {LayerTable(files.model, OneDnnFusedInto(files.model)), Sizes(files),
                           Rates(files, options)}) {
    lines.insert(lines.end(), part.begin(), part.end());
    lines.emplace_back();
  }
  lines.pop_back();
  return absl::StrJoin(lines, "\n") + "\n";
}

}  // namespace millrace::trainer
