// The parts of opening a training that need no other rank.

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/host.h"
#include "base/status.h"
#include "pipeline/performance.h"
#include "pipeline/text_proto.h"
#include "trainer/job/models.h"
#include "trainer/loop/open_context.h"
#include "trainer/loop/resume.h"
#include "trainer/loop/session.h"
#include "trainer/model/joint.h"

namespace millrace::trainer {
namespace {

// The discriminator's target is no field of the plan.
absl::Status CheckPlanFields(const Session& session, const Schema& schema) {
  const Model& model = session.main().model;
  return session.main().role.empty() ? CheckFields(model, schema) : CheckInputFields(model, schema);
}

// Takes out what would write files, or read others than a step does.
void LeaveNothing(Session& session) {
  session.job.job.clear_checkpoint();
  session.job.checkpoint_folder.clear();
  session.eval_plan.reset();
}

// The pipeline refuses a token of other data, or of another plan.
absl::Status WithAdvice(const absl::Status& status, const TrainOptions& options) {
  if (!absl::IsFailedPrecondition(status) || !options.resume || options.force) return status;
  return absl::FailedPreconditionError(absl::StrCat(
      status.message(), "; if only plan or data differ, --force goes on all the same"));
}

}  // namespace

EvaluationParts EvaluationPartsOf(const Session& session) {
  const TrainedModel& main = session.main();
  return {.model = main.model,
          .plan = *session.eval_plan,
          .plan_path = session.job.eval_path,
          .context = session.context,
          .quarantine_file = session.quarantine_file,
          .threads = session.cores.pipeline_first,
          .backend = main.backend.get()};
}

absl::Status LoadSessionFiles(const TrainOptions& options, int local_ranks, Session& session) {
  std::set<std::string> used;
  MILLRACE_ASSIGN_OR_RETURN(session.job,
                            LoadJob(options.job_path, options.variables, used, options.reduction,
                                    options.servers, options.device));
  const JobFile& job = session.job;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Model> models,
                            LoadModels(job, options.variables, used));
  session.model = Join(models);
  MILLRACE_ASSIGN_OR_RETURN(session.models, MakeTrainedModels(job, models));
  if (models.size() > 1) session.team = std::make_unique<collectives::ReducerTeam>();
  MILLRACE_ASSIGN_OR_RETURN(
      session.train_plan, LoadPlan(job.train_path, options.variables, used, session.train_numbers));
  if (session.train_numbers.batch == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(job.train_path,
                     ": the batch sizes of the buckets differ; a training needs "
                     "one, which its learning rate is for"));
  }
  if (!job.eval_path.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(
        session.eval_plan, LoadPlan(job.eval_path, options.variables, used, session.eval_numbers));
  }
  MILLRACE_RETURN_IF_ERROR(pipeline::CheckVariablesUsed(options.variables, used));
  if (options.leaves_nothing) LeaveNothing(session);
  if (options.resume && job.checkpoint_folder.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.job_path, ": resume needs checkpoint.folder"));
  }
  session.state.model_fingerprint = session.model.Fingerprint();
  session.state.plan_fingerprint = session.train_plan->Fingerprint();
  session.state.job = job.weights_text;
  session.state.global_batch = session.train_numbers.batch;
  const pipeline::Performance said = pipeline::PerformanceOf(*session.train_plan);
  FillFromPlan(said, session.job.job);
  const Cores cores = ReadCores();
  session.cores_source = cores.source;
  session.cores = SplitCores(cores.usable, local_ranks, options.threads,
                             static_cast<int>(job.job.pipeline_threads()));
  if (said.io_threads > 0) session.cores.io = said.io_threads;
  return absl::OkStatus();
}

absl::Status OpenTrainPipeline(const TrainOptions& options, int rank, int world, Session& session) {
  MILLRACE_ASSIGN_OR_RETURN(session.context,
                            OpenContext(session.job.job, session.cores,
                                        rank == 0 ? options.warn : nullptr, options.metrics));
  pipeline::OpenOptions open;
  open.rank = rank;
  open.world = world;
  if (session.device != nullptr) open.pinned_for = session.ordinal;
  open.cpu_budget = session.cores.pipeline_most;
  open.resume_token = session.state.resume_token;
  open.resume_file = session.resumed_from;
  open.force_resume = options.force;
  session.quarantine_file = options.quarantine_file;
  session.warn = options.warn;
  open.quarantine_file = options.quarantine_file;
  if (rank == 0) open.index_progress = options.index_progress;
  absl::StatusOr<std::unique_ptr<pipeline::Pipeline>> opened =
      pipeline::Pipeline::Open(*session.train_plan, session.context, open);
  if (!opened.ok()) {
    return Annotate(WithAdvice(opened.status(), options), session.job.train_path);
  }
  session.train = *std::move(opened);
  session.train->SetThreadLimit(session.cores.pipeline_first);
  if (!options.trace_file.empty()) session.train->StartTrace();
  MILLRACE_RETURN_IF_ERROR(
      Annotate(CheckPlanFields(session, session.train->schema()), session.job.train_path));
  const uint64_t data = session.train->data_fingerprint();
  if (options.resume && !options.force && session.state.data_fingerprint != data) {
    return absl::FailedPreconditionError(
        absl::StrCat(session.resumed_from, ": the checkpoint is of other data", kForceAdvice));
  }
  session.state.data_fingerprint = data;
  absl::StatusOr<StepPlan> steps = PlanSteps(session.job.job, session.train->length());
  if (!steps.ok()) return Annotate(steps.status(), session.job.train_path);
  session.steps = *steps;
  session.job.job.mutable_reduction()->set_accumulate_steps(
      static_cast<uint32_t>(steps->accumulate));
  const TelemetryOptions telemetry = {.is_first = rank == 0,
                                      .tensorboard_folder = options.tensorboard_folder,
                                      .first_step = session.state.step + 1,
                                      .warn = options.warn};
  MILLRACE_ASSIGN_OR_RETURN(session.telemetry,
                            Telemetry::Open(telemetry, session.context->metrics()));
  return absl::OkStatus();
}

}  // namespace millrace::trainer
