// Opens a training in phases. Each phase does its work on every rank, then the ranks agree on the
// outcome: so a missing file on one host ends all ranks with that rank's message, and no rank
// enters a collective call that another will never reach.

#include "trainer/loop/session.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/host.h"
#include "base/status.h"
#include "pipeline/text_proto.h"
#include "trainer/job/models.h"
#include "trainer/loop/backend_options.h"
#include "trainer/loop/evaluate.h"
#include "trainer/loop/open_context.h"
#include "trainer/loop/resume.h"
#include "trainer/loop/share.h"
#include "trainer/model/joint.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/optimizer/weight_average.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/waiting.h"
#include "trainer/weights/initial.h"

namespace millrace::trainer {

using collectives::Communicator;

namespace {

// The discriminator's target is no field of the plan.
absl::Status CheckPlanFields(const Session& session, const Schema& schema) {
  const Model& model = session.main().model;
  return session.main().role.empty() ? CheckFields(model, schema) : CheckInputFields(model, schema);
}

class Opener {
 public:
  Opener(const TrainOptions& options, Communicator& communicator, collectives::Progress& progress,
         const BackendFactory& make_backend)
      : options_(options),
        communicator_(communicator),
        progress_(progress),
        make_backend_(make_backend) {}

  absl::StatusOr<std::unique_ptr<Session>> Open();

 private:
  // Reports that this rank waits for the others, so that a rank whose files do not come is named.
  Waiting Wait() const { return Waiting(&progress_, -1, collectives::Phase::kStart); }
  // One part of opening, without collective calls: if it fails or throws on one rank, it fails on
  // all.
  absl::Status Phase(absl::Status (Opener::*phase)()) {
    const absl::Status mine = WithoutExceptions([&] { return (this->*phase)(); });
    const Waiting waiting = Wait();
    return AgreeOnStatus(communicator_, mine);
  }
  // One part of opening that consists mainly of collective calls.
  absl::Status Exchange(absl::Status (Opener::*exchange)()) {
    const Waiting waiting = Wait();
    return (this->*exchange)();
  }

  absl::Status LoadFiles();
  absl::StatusOr<pipeline::Plan> LoadPlan(const std::string& path, PlanNumbers& numbers) {
    return trainer::LoadPlan(path, options_.variables, used_variables_, numbers);
  }
  absl::Status MakeTensors();
  absl::Status ShareWeights();
  absl::Status FindCheckpoint();
  void Warn(const std::string& text) const {
    if (communicator_.rank() == 0 && options_.warn) options_.warn(text);
  }
  absl::Status ShareCheckpoint();
  absl::Status CheckPlanIsTheCheckpoints();
  absl::Status OpenPipeline();
  absl::Status CheckEvaluation();
  absl::Status MakeSchedule();
  absl::Status MakeAverages();
  absl::Status OpenStrategies();
  absl::Status MakeBackends();
  absl::Status CheckFilesAgree();
  absl::Status CheckStartAgrees();
  absl::Status GatherCores();

  const TrainOptions& options_;
  Communicator& communicator_;
  collectives::Progress& progress_;
  const BackendFactory& make_backend_;
  std::set<std::string> used_variables_;
  std::optional<Checkpoint> found_;  // on rank 0, when this training continues one
  std::vector<Slots> slots_;         // by model: the optimizer's, and that of the average
  std::unique_ptr<Session> session_ = std::make_unique<Session>();
};

absl::StatusOr<std::unique_ptr<Session>> Opener::Open() {
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::LoadFiles));
  MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::CheckFilesAgree));
  MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::GatherCores));
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::MakeTensors));
  if (!session_->job.init_path.empty()) MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::ShareWeights));
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::FindCheckpoint));
  if (options_.resume) {
    MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::ShareCheckpoint));
    MILLRACE_RETURN_IF_ERROR(Phase(&Opener::CheckPlanIsTheCheckpoints));
  }
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::OpenPipeline));
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::CheckEvaluation));
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::MakeSchedule));
  MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::CheckStartAgrees));
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::MakeAverages));
  MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::OpenStrategies));
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::MakeBackends));
  return std::move(session_);
}

absl::Status Opener::LoadFiles() {
  Session& session = *session_;
  MILLRACE_ASSIGN_OR_RETURN(session.job, LoadJob(options_.job_path, options_.variables,
                                                 used_variables_, options_.reduction));
  const JobFile& job = session.job;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Model> models,
                            LoadModels(job, options_.variables, used_variables_));
  session.model = Join(models);
  MILLRACE_ASSIGN_OR_RETURN(session.models, MakeTrainedModels(job, models));
  if (models.size() > 1) session.team = std::make_unique<collectives::ReducerTeam>();
  MILLRACE_ASSIGN_OR_RETURN(session.train_plan, LoadPlan(job.train_path, session.train_numbers));
  if (session.train_numbers.batch == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(job.train_path,
                     ": the batch sizes of the buckets differ; a training needs "
                     "one, which its learning rate is for"));
  }
  if (!job.eval_path.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(session.eval_plan, LoadPlan(job.eval_path, session.eval_numbers));
  }
  MILLRACE_RETURN_IF_ERROR(pipeline::CheckVariablesUsed(options_.variables, used_variables_));
  if (options_.resume && job.checkpoint_folder.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options_.job_path, ": resume needs checkpoint.folder"));
  }
  session.state.model_fingerprint = session.model.Fingerprint();
  session.state.plan_fingerprint = session.train_plan->Fingerprint();
  session.state.job = job.weights_text;
  session.state.global_batch = session.train_numbers.batch;
  const Cores cores = ReadCores();
  session.cores_source = cores.source;
  session.cores = SplitCores(cores.usable, communicator_.local_size(), options_.threads,
                             static_cast<int>(job.job.pipeline_threads()));
  return absl::OkStatus();
}

// Only rank 0 reads a file of weights, so all ranks begin with the same.
absl::Status Opener::MakeTensors() {
  for (const TrainedModel& trained : session_->models) {
    Slots& slots = slots_.emplace_back(MakeSlots(trained.optimizer, trained.model));
    if (trained.optimizer.has_ema()) slots.push_back({kAverageSlot, MakeZeros(trained.model)});
  }
  TensorSet weights;
  TensorSet buffers;
  MILLRACE_RETURN_IF_ERROR(SetInitialTensors(session_->job, session_->model,
                                             communicator_.rank() == 0 && !options_.resume, weights,
                                             buffers));
  SetTensors(std::move(weights), std::move(buffers), session_->models);
  return absl::OkStatus();
}

absl::Status Opener::ShareWeights() {
  for (TrainedModel& trained : session_->models) {
    MILLRACE_RETURN_IF_ERROR(BroadcastTensors(communicator_, trained.weights));
    MILLRACE_RETURN_IF_ERROR(BroadcastTensors(communicator_, trained.buffers));
  }
  return absl::OkStatus();
}

// Finds the checkpoint to continue from, and checks that new ones can be written before hours of
// work depend on it. Only rank 0 looks into the folder, so all ranks have one decision, and other
// hosts need not see the files.
absl::Status Opener::FindCheckpoint() {
  const JobFile& job = session_->job;
  if (communicator_.rank() != 0 || job.checkpoint_folder.empty()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                            ListCheckpoints(job.checkpoint_folder));
  if (!options_.resume && !paths.empty()) {
    return absl::AlreadyExistsError(absl::StrCat(
        paths[0], ": a checkpoint of this job exists; continue it with --resume, or remove it"));
  }
  if (options_.resume) {
    const Resumption resumption = {
        options_.job_path, job, session_->model, session_->models, options_.force, options_.warn};
    MILLRACE_ASSIGN_OR_RETURN(found_, LoadNewest(resumption, paths, slots_));
  }
  return CheckWritable(job.checkpoint_folder);
}

absl::Status Opener::ShareCheckpoint() {
  TrainState loaded;
  if (found_.has_value()) {
    session_->resumed_from = found_->path;
    SetTensors(std::move(found_->weights), std::move(found_->buffers), session_->models);
    loaded = std::move(found_->state);
  }
  MILLRACE_RETURN_IF_ERROR(ShareState(communicator_, loaded));
  MILLRACE_RETURN_IF_ERROR(BroadcastText(communicator_, session_->resumed_from));
  MILLRACE_RETURN_IF_ERROR(ShareWeights());
  for (Slots& slots : slots_) {
    for (Slot& slot : slots) {
      MILLRACE_RETURN_IF_ERROR(BroadcastTensors(communicator_, slot.tensors));
    }
  }
  loaded.model_fingerprint = session_->state.model_fingerprint;
  loaded.job = session_->state.job;
  session_->state = std::move(loaded);
  return absl::OkStatus();
}

absl::Status Opener::CheckPlanIsTheCheckpoints() {
  const uint64_t fingerprint = session_->train_plan->Fingerprint();
  TrainState& state = session_->state;
  if (state.plan_fingerprint == fingerprint) return absl::OkStatus();
  const std::string difference = absl::StrFormat(
      "%s: the checkpoint is of another training plan (fingerprint %016x, global batch %d) than "
      "%s (fingerprint %016x)",
      session_->resumed_from, state.plan_fingerprint, state.global_batch, session_->job.train_path,
      fingerprint);
  if (!options_.force) return absl::FailedPreconditionError(difference);
  Warn(
      absl::StrCat(difference, ": resuming by force, at step ", state.step, " and the same batch"));
  state.plan_fingerprint = fingerprint;
  state.global_batch = session_->train_numbers.batch;
  return absl::OkStatus();
}

absl::Status Opener::OpenPipeline() {
  Session& session = *session_;
  MILLRACE_ASSIGN_OR_RETURN(session.context,
                            OpenContext(session.job.job, session.cores,
                                        communicator_.rank() == 0 ? options_.warn : nullptr));
  pipeline::OpenOptions open;
  open.rank = communicator_.rank();
  open.world = communicator_.size();
  open.resume_token = session.state.resume_token;
  open.resume_file = session.resumed_from;
  open.force_resume = options_.force;
  session.quarantine_file = options_.quarantine_file;
  session.warn = options_.warn;
  open.quarantine_file = options_.quarantine_file;
  if (communicator_.rank() == 0) open.index_progress = options_.index_progress;
  absl::StatusOr<std::unique_ptr<pipeline::Pipeline>> opened =
      pipeline::Pipeline::Open(*session.train_plan, session.context, open);
  if (!opened.ok()) return Annotate(opened.status(), session.job.train_path);
  session.train = *std::move(opened);
  MILLRACE_RETURN_IF_ERROR(
      Annotate(CheckPlanFields(session, session.train->schema()), session.job.train_path));
  const uint64_t data = session.train->data_fingerprint();
  if (options_.resume && !options_.force && session.state.data_fingerprint != data) {
    return absl::FailedPreconditionError(
        absl::StrCat(session.resumed_from, ": the checkpoint is of other data"));
  }
  session.state.data_fingerprint = data;
  absl::StatusOr<StepPlan> steps = PlanSteps(session.job.job, session.train->length());
  if (!steps.ok()) return Annotate(steps.status(), session.job.train_path);
  session.steps = *steps;
  session.job.job.mutable_reduction()->set_accumulate_steps(
      static_cast<uint32_t>(steps->accumulate));
  return absl::OkStatus();
}

// Refuses, before training, a plan that an evaluation would refuse after a whole epoch.
absl::Status Opener::CheckEvaluation() {
  const Session& session = *session_;
  if (!session.eval_plan) return absl::OkStatus();
  const auto pipeline =
      OpenEvaluation(EvaluationPartsOf(session), communicator_, options_.index_progress);
  return Annotate(pipeline.status(), session.job.eval_path);
}

absl::Status Opener::MakeSchedule() {
  Session& session = *session_;
  const StepPlan& steps = session.steps;
  for (TrainedModel& trained : session.models) {
    trained.schedule =
        Schedule::Make(trained.optimizer, session.state.global_batch * steps.accumulate,
                       steps.steps_per_epoch, steps.total_steps);
  }
  return absl::OkStatus();
}

absl::Status Opener::CheckFilesAgree() {
  const Session& session = *session_;
  MILLRACE_RETURN_IF_ERROR(CheckSameText(communicator_, "the job", session.job.text, CompareJobs));
  MILLRACE_RETURN_IF_ERROR(
      CheckSameText(communicator_, "the model", session.model.ToText(), FirstDifferentLine));
  const std::array<Setting, 4> settings = {
      {{"the training plan", session.state.plan_fingerprint},
       {"the evaluation plan", session.eval_plan ? session.eval_plan->Fingerprint() : 0},
       {"resume", options_.resume ? 1u : 0u},
       {"force", options_.force ? 1u : 0u}}};
  return CheckSameSettings(communicator_, settings);
}

absl::Status Opener::CheckStartAgrees() {
  const Session& session = *session_;
  std::vector<Setting> settings = {{"the training data", session.state.data_fingerprint},
                                   {"the number of steps", session.steps.total_steps}};
  for (const TrainedModel& trained : session.models) {
    settings.push_back(
        {"the weights they start with (another C++ library?)", Digest(trained.weights)});
  }
  return CheckSameSettings(communicator_, settings);
}

absl::Status Opener::GatherCores() {
  const double usable = session_->cores.usable;
  std::array<double, 2> bounds = {usable, -usable};
  MILLRACE_RETURN_IF_ERROR(MaxOverRanks(communicator_, bounds));
  session_->most_cores = static_cast<int>(bounds[0]);
  session_->least_cores = static_cast<int>(-bounds[1]);
  return absl::OkStatus();
}

absl::Status Opener::MakeAverages() {
  for (size_t i = 0; i < slots_.size(); ++i) {
    TrainedModel& trained = session_->models[i];
    if (!trained.optimizer.has_ema()) continue;
    TensorSet loaded = std::move(slots_[i].back().tensors);
    slots_[i].pop_back();
    trained.average.emplace(trained.optimizer.ema().decay(), trained.optimizer.ema().warmup(),
                            options_.resume ? std::move(loaded) : trained.weights);
  }
  return absl::OkStatus();
}

absl::Status Opener::OpenStrategies() {
  Session& session = *session_;
  StrategyOptions options;
  options.steps =
      session.steps.total_steps - std::min(session.state.step, session.steps.total_steps);
  options.first_step = session.state.step;
  options.compute_threads = session.cores.compute;
  options.progress = &progress_;
  options.team = session.team.get();
  for (size_t i = 0; i < slots_.size(); ++i) {
    TrainedModel& trained = session.models[i];
    Reduction reduction = session.job.job.reduction();
    reduction.set_accumulate_steps(reduction.accumulate_steps() * trained.passes);
    absl::StatusOr<std::unique_ptr<Strategy>> strategy = MakeStrategy(
        communicator_, trained.model, reduction, trained.optimizer, std::move(slots_[i]), options);
    if (!strategy.ok()) return Annotate(strategy.status(), options_.job_path);
    trained.strategy = *std::move(strategy);
  }
  return absl::OkStatus();
}

absl::Status Opener::MakeBackends() {
  const BackendOptions options = BackendOptionsOf(session_->job.job, session_->cores);
  for (TrainedModel& trained : session_->models) {
    auto backend = make_backend_(trained.model, trained.weights, trained.buffers,
                                 trained.strategy->gradients(), options);
    if (!backend.ok()) return Annotate(backend.status(), options_.job_path);
    trained.backend = *std::move(backend);
  }
  return absl::OkStatus();
}

}  // namespace

EvaluationParts EvaluationPartsOf(const Session& session) {
  const TrainedModel& main = session.main();
  return {main.model,      *session.eval_plan,      session.job.eval_path,
          session.context, session.quarantine_file, main.backend.get()};
}

absl::StatusOr<std::unique_ptr<Session>> OpenSession(const TrainOptions& options,
                                                     Communicator& communicator,
                                                     collectives::Progress& progress,
                                                     const BackendFactory& make_backend) {
  return Opener(options, communicator, progress, make_backend).Open();
}

}  // namespace millrace::trainer
