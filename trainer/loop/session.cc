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
#include "pipeline/pipeline.pb.h"
#include "pipeline/text_proto.h"
#include "readers/read_engine.h"
#include "trainer/job/bad_field.h"
#include "trainer/loop/evaluate.h"
#include "trainer/loop/resume.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/optimizer/parameter_groups.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/waiting.h"
#include "trainer/weights/initial.h"

namespace millrace::trainer {

using collectives::Communicator;

namespace {

// Rows of the global batch that `stage` makes; 0: it makes none, or its buckets' sizes differ.
uint64_t BatchOf(const pipeline::proto::Stage& stage) {
  if (stage.has_batch()) return stage.batch().size();
  if (stage.has_padded_batch()) return stage.padded_batch().size();
  if (stage.has_ragged_batch()) return stage.ragged_batch().size();
  const auto& sizes = stage.bucket_by_length().batch_size();
  return !sizes.empty() && std::ranges::count(sizes, sizes[0]) == sizes.size() ? sizes[0] : 0;
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
  absl::StatusOr<pipeline::Plan> LoadPlan(const std::string& path, PlanNumbers& numbers);
  absl::Status MakeTensors();
  absl::Status ShareWeights();
  absl::Status FindCheckpoint();
  void Warn(const std::string& text) const {
    if (communicator_.rank() == 0 && options_.warn) options_.warn(text);
  }
  absl::Status ShareCheckpoint();
  absl::Status CheckPlanIsTheCheckpoints();
  absl::Status BroadcastTensors(TensorSet& tensors);
  absl::Status OpenPipeline();
  absl::Status CheckEvaluation();
  absl::Status MakeSchedule();
  absl::Status MakeAverage();
  absl::Status OpenStrategy();
  absl::Status MakeBackend();
  absl::Status CheckFilesAgree();
  absl::Status CheckStartAgrees();
  absl::Status GatherCores();

  const TrainOptions& options_;
  Communicator& communicator_;
  collectives::Progress& progress_;
  const BackendFactory& make_backend_;
  std::set<std::string> used_variables_;
  std::optional<Checkpoint> found_;  // on rank 0, when this training continues one
  Slots slots_;                      // the optimizer's, and that of the average
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
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::MakeAverage));
  MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::OpenStrategy));
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::MakeBackend));
  return std::move(session_);
}

// A plan refuses variables that it does not name, which is right for one file. A job has several
// files, so each gets those that it names; variables that no file names are refused at the end.
absl::StatusOr<pipeline::Plan> Opener::LoadPlan(const std::string& path, PlanNumbers& numbers) {
  pipeline::proto::Pipeline message;
  std::set<std::string> used;
  const auto parsed = pipeline::LoadTextProto(path, options_.variables, &message, &used);
  if (!parsed.ok()) return parsed.status();
  for (const auto& stage : message.stage()) {
    numbers.batch = std::max(numbers.batch, BatchOf(stage));
    if (stage.prefetch().batches() > 0) numbers.prefetch = stage.prefetch().batches();
  }
  numbers.seed = message.seed();
  pipeline::Variables variables;
  for (const auto& [name, value] : options_.variables) {
    if (used.contains(name)) variables.emplace(name, value);
  }
  used_variables_.merge(used);
  return pipeline::Plan::FromFile(path, variables);
}

absl::Status Opener::LoadFiles() {
  Session& session = *session_;
  MILLRACE_ASSIGN_OR_RETURN(session.job, LoadJob(options_.job_path, options_.variables,
                                                 used_variables_, options_.reduction));
  const JobFile& job = session.job;
  MILLRACE_ASSIGN_OR_RETURN(session.model,
                            LoadModel(job.model_path, options_.variables, used_variables_));
  if (const auto bad = CheckGroups(job.job.optimizer(), session.model)) {
    return ErrorAt(job.places, *bad);
  }
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
  const OptimizerSpec& spec = session_->job.job.optimizer();
  slots_ = MakeSlots(spec, session_->model);
  if (spec.has_ema()) slots_.push_back({kAverageSlot, MakeZeros(session_->model)});
  return SetInitialTensors(session_->job, session_->model,
                           communicator_.rank() == 0 && !options_.resume, session_->weights,
                           session_->buffers);
}

absl::Status Opener::ShareWeights() {
  MILLRACE_RETURN_IF_ERROR(BroadcastTensors(session_->weights));
  return BroadcastTensors(session_->buffers);
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
    const Resumption resumption = {options_.job_path, job, session_->model, options_.force,
                                   options_.warn};
    MILLRACE_ASSIGN_OR_RETURN(found_, LoadNewest(resumption, paths, slots_));
  }
  return CheckWritable(job.checkpoint_folder);
}

absl::Status Opener::ShareCheckpoint() {
  TrainState loaded;
  if (found_.has_value()) {
    session_->resumed_from = found_->path;
    session_->weights = std::move(found_->weights);
    session_->buffers = std::move(found_->buffers);
    loaded = std::move(found_->state);
  }
  uint64_t* const numbers[] = {&loaded.step,
                               &loaded.updates,
                               &loaded.epoch,
                               &loaded.plan_fingerprint,
                               &loaded.data_fingerprint,
                               &loaded.global_batch};
  for (uint64_t* const number : numbers) {
    MILLRACE_RETURN_IF_ERROR(communicator_.Broadcast({number, DType::kI64, Shape{1}}, 0));
  }
  MILLRACE_RETURN_IF_ERROR(BroadcastText(communicator_, loaded.resume_token));
  MILLRACE_RETURN_IF_ERROR(BroadcastText(communicator_, session_->resumed_from));
  MILLRACE_RETURN_IF_ERROR(ShareWeights());
  for (Slot& slot : slots_) MILLRACE_RETURN_IF_ERROR(BroadcastTensors(slot.tensors));
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

absl::Status Opener::BroadcastTensors(TensorSet& tensors) {
  for (std::vector<float>& tensor : tensors) {
    MILLRACE_RETURN_IF_ERROR(communicator_.Broadcast(
        {tensor.data(), DType::kF32, Shape{static_cast<int64_t>(tensor.size())}}, 0));
  }
  return absl::OkStatus();
}

absl::Status Opener::OpenPipeline() {
  Session& session = *session_;
  ContextOptions context;
  context.threads = session.cores.pipeline;
  MILLRACE_ASSIGN_OR_RETURN(context.io, readers::MakePreadEngine(session.cores.io));
  context.batch_priority = true;
  context.memory_budget_bytes = int64_t{session.job.job.memory_budget_mib()} << 20;
  if (communicator_.rank() == 0 && options_.warn) {
    context.log = [warn = options_.warn](LogLevel level, std::string_view text) {
      if (level != LogLevel::kInfo) warn(text);
    };
  }
  MILLRACE_ASSIGN_OR_RETURN(session.context, pipeline::MakeContext(std::move(context)));
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
      Annotate(CheckFields(session.model, session.train->schema()), session.job.train_path));
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
  const auto pipeline = OpenEvaluation(session, communicator_, options_.index_progress);
  return Annotate(pipeline.status(), session.job.eval_path);
}

absl::Status Opener::MakeSchedule() {
  Session& session = *session_;
  const StepPlan& steps = session.steps;
  session.schedule =
      Schedule::Make(session.job.job.optimizer(), session.state.global_batch * steps.accumulate,
                     steps.steps_per_epoch, steps.total_steps);
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
  const std::array<Setting, 3> settings = {
      {{"the training data", session.state.data_fingerprint},
       {"the number of steps", session.steps.total_steps},
       {"the weights they start with (another C++ library?)", Digest(session.weights)}}};
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

absl::Status Opener::MakeAverage() {
  Session& session = *session_;
  const OptimizerSpec& spec = session.job.job.optimizer();
  if (!spec.has_ema()) return absl::OkStatus();
  TensorSet loaded = std::move(slots_.back().tensors);
  slots_.pop_back();
  session.average.emplace(spec.ema().decay(), spec.ema().warmup(),
                          options_.resume ? std::move(loaded) : session.weights);
  return absl::OkStatus();
}

absl::Status Opener::OpenStrategy() {
  Session& session = *session_;
  StrategyOptions options;
  options.steps =
      session.steps.total_steps - std::min(session.state.step, session.steps.total_steps);
  options.first_step = session.state.step;
  options.compute_threads = session.cores.compute;
  options.progress = &progress_;
  absl::StatusOr<std::unique_ptr<Strategy>> strategy =
      MakeStrategy(communicator_, session.model, session.job.job, std::move(slots_), options);
  if (!strategy.ok()) return Annotate(strategy.status(), options_.job_path);
  session.strategy = *std::move(strategy);
  return absl::OkStatus();
}

absl::Status Opener::MakeBackend() {
  Session& session = *session_;
  BackendOptions options(session.cores.compute);
  const std::string& precision = session.job.job.precision();
  if (precision == "bfloat16") options.precision = Precision::kBFloat16;
  if (precision == "auto") options.precision = Precision::kAuto;
  auto backend = make_backend_(session.model, session.weights, session.buffers,
                               session.strategy->gradients(), options);
  if (!backend.ok()) return Annotate(backend.status(), options_.job_path);
  session.backend = *std::move(backend);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> OpenSession(const TrainOptions& options,
                                                     Communicator& communicator,
                                                     collectives::Progress& progress,
                                                     const BackendFactory& make_backend) {
  return Opener(options, communicator, progress, make_backend).Open();
}

}  // namespace millrace::trainer
