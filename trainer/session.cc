// How a training is opened. Each phase does its work on every rank, then the ranks agree on the
// outcome: so a missing file on one host ends all ranks with that rank's message, and no rank
// enters a collective call that another will never reach.

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/host.h"
#include "base/status.h"
#include "pipeline/pipeline.pb.h"
#include "pipeline/text_proto_internal.h"
#include "trainer/agree.h"
#include "trainer/report.h"
#include "trainer/session_internal.h"

namespace millrace::trainer {

using collectives::Communicator;

namespace {

class Opener {
 public:
  Opener(const TrainOptions& options, Communicator& communicator)
      : options_(options), communicator_(communicator) {}

  absl::StatusOr<std::unique_ptr<Session>> Open();

 private:
  absl::Status LoadFiles();
  absl::StatusOr<pipeline::Plan> LoadPlan(const std::string& path, uint64_t* global_batch);
  absl::Status LoadState();
  absl::StatusOr<std::optional<Checkpoint>> FindCheckpoint() const;
  absl::Status ShareCheckpoint(std::optional<Checkpoint> found);
  absl::Status CheckPlanIsTheCheckpoints() const;
  absl::Status BroadcastTensors(TensorSet& tensors);
  absl::Status OpenPipeline();
  absl::Status CountSteps();
  absl::Status MakeOptimizer();
  absl::Status MakeReducer();
  absl::Status MakeBackend();
  absl::Status CheckFilesAgree();
  absl::Status CheckStartAgrees();

  const TrainOptions& options_;
  Communicator& communicator_;
  std::set<std::string> used_variables_;
  TensorSet velocity_;
  std::unique_ptr<Session> session_ = std::make_unique<Session>();
};

absl::StatusOr<std::unique_ptr<Session>> Opener::Open() {
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, LoadFiles()));
  MILLRACE_RETURN_IF_ERROR(CheckFilesAgree());
  MILLRACE_RETURN_IF_ERROR(LoadState());
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, OpenPipeline()));
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, MakeOptimizer()));
  MILLRACE_RETURN_IF_ERROR(CheckStartAgrees());
  MILLRACE_RETURN_IF_ERROR(MakeReducer());
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, MakeBackend()));
  return std::move(session_);
}

// A plan refuses variables that it does not name, which is right for one file; a job has several,
// so each gets those that it names, and what none names is refused at the end.
absl::StatusOr<pipeline::Plan> Opener::LoadPlan(const std::string& path, uint64_t* global_batch) {
  pipeline::proto::Pipeline message;
  std::set<std::string> used;
  const auto parsed = pipeline::LoadTextProto(path, options_.variables, &message, &used);
  if (!parsed.ok()) return parsed.status();
  for (const auto& stage : message.stage()) {
    if (stage.has_batch()) *global_batch = stage.batch().size();
  }
  pipeline::Variables variables;
  for (const auto& [name, value] : options_.variables) {
    if (used.contains(name)) variables.emplace(name, value);
  }
  used_variables_.merge(used);
  return pipeline::Plan::FromFile(path, variables);
}

absl::Status Opener::LoadFiles() {
  Session& session = *session_;
  MILLRACE_ASSIGN_OR_RETURN(session.job,
                            LoadJob(options_.job_path, options_.variables, used_variables_));
  const JobFile& job = session.job;
  MILLRACE_ASSIGN_OR_RETURN(session.model,
                            LoadModel(job.model_path, options_.variables, used_variables_));
  MILLRACE_ASSIGN_OR_RETURN(session.train_plan,
                            LoadPlan(job.train_path, &session.state.global_batch));
  if (!job.eval_path.empty()) {
    uint64_t eval_batch = 0;
    MILLRACE_ASSIGN_OR_RETURN(session.eval_plan, LoadPlan(job.eval_path, &eval_batch));
  }
  MILLRACE_RETURN_IF_ERROR(pipeline::CheckVariablesUsed(options_.variables, used_variables_));
  if (options_.resume && job.checkpoint_folder.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options_.job_path, ": resume needs checkpoint.folder"));
  }
  session.state.model_fingerprint = session.model.Fingerprint();
  session.state.plan_fingerprint = session.train_plan->Fingerprint();
  const Cores cores = ReadCores();
  session.cores_source = cores.source;
  session.cores = SplitCores(cores.usable, communicator_.local_size(), options_.threads,
                             static_cast<int>(job.job.pipeline_threads()));
  return absl::OkStatus();
}

// The checkpoint to continue from; nullopt: a fresh start.
absl::StatusOr<std::optional<Checkpoint>> Opener::FindCheckpoint() const {
  const JobFile& job = session_->job;
  if (job.checkpoint_folder.empty()) return std::nullopt;
  const CheckpointFolder folder(job.checkpoint_folder,
                                static_cast<int>(job.job.checkpoint().keep()));
  MILLRACE_ASSIGN_OR_RETURN(const std::string newest, folder.Newest());
  if (!options_.resume) {
    if (newest.empty()) return std::nullopt;
    return absl::AlreadyExistsError(absl::StrCat(
        newest, ": a checkpoint of this job exists; continue it with --resume, or remove it"));
  }
  if (newest.empty()) {
    return absl::NotFoundError(
        absl::StrCat(job.checkpoint_folder, ": there is no checkpoint to resume"));
  }
  MILLRACE_ASSIGN_OR_RETURN(Checkpoint checkpoint, LoadCheckpoint(newest, session_->model));
  return checkpoint;
}

// Rank 0 alone reads the folder, so the decision is one, and the file need not be visible
// elsewhere.
absl::Status Opener::LoadState() {
  session_->weights = MakeInitialWeights(session_->model, session_->job.job.seed());
  velocity_ = MakeZeros(session_->model);
  absl::StatusOr<std::optional<Checkpoint>> found = std::optional<Checkpoint>();
  if (communicator_.rank() == 0) found = FindCheckpoint();
  MILLRACE_RETURN_IF_ERROR(AgreeOnStatus(communicator_, found.status()));
  if (!options_.resume) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(ShareCheckpoint(*std::move(found)));
  return AgreeOnStatus(communicator_, CheckPlanIsTheCheckpoints());
}

absl::Status Opener::ShareCheckpoint(std::optional<Checkpoint> found) {
  TrainState loaded;
  if (found.has_value()) {
    session_->resumed_from = found->path;
    session_->weights = std::move(found->weights);
    velocity_ = std::move(found->velocity);
    loaded = found->state;
  }
  std::array<int64_t, 5> numbers = {
      static_cast<int64_t>(loaded.step), static_cast<int64_t>(loaded.epoch),
      static_cast<int64_t>(loaded.plan_fingerprint), static_cast<int64_t>(loaded.data_fingerprint),
      static_cast<int64_t>(loaded.global_batch)};
  MILLRACE_RETURN_IF_ERROR(communicator_.Broadcast({numbers.data(), DType::kI64, Shape{5}}, 0));
  MILLRACE_RETURN_IF_ERROR(BroadcastText(communicator_, loaded.resume_token));
  MILLRACE_RETURN_IF_ERROR(BroadcastText(communicator_, session_->resumed_from));
  MILLRACE_RETURN_IF_ERROR(BroadcastTensors(session_->weights));
  MILLRACE_RETURN_IF_ERROR(BroadcastTensors(velocity_));
  loaded.step = static_cast<uint64_t>(numbers[0]);
  loaded.epoch = static_cast<uint64_t>(numbers[1]);
  loaded.plan_fingerprint = static_cast<uint64_t>(numbers[2]);
  loaded.data_fingerprint = static_cast<uint64_t>(numbers[3]);
  loaded.global_batch = static_cast<uint64_t>(numbers[4]);
  loaded.model_fingerprint = session_->state.model_fingerprint;
  session_->state = std::move(loaded);
  return absl::OkStatus();
}

absl::Status Opener::CheckPlanIsTheCheckpoints() const {
  const uint64_t fingerprint = session_->train_plan->Fingerprint();
  if (session_->state.plan_fingerprint == fingerprint) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s: the checkpoint is of another training plan (fingerprint %016x, global batch %d) than "
      "%s (fingerprint %016x)",
      session_->resumed_from, session_->state.plan_fingerprint, session_->state.global_batch,
      session_->job.train_path, fingerprint));
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
  context.batch_priority = true;
  context.memory_budget_bytes = int64_t{session.job.job.memory_budget_mib()} << 20;
  MILLRACE_ASSIGN_OR_RETURN(session.context, pipeline::MakeContext(std::move(context)));
  pipeline::OpenOptions open;
  open.rank = communicator_.rank();
  open.world = communicator_.size();
  open.resume_token = session.state.resume_token;
  absl::StatusOr<std::unique_ptr<pipeline::Pipeline>> opened =
      pipeline::Pipeline::Open(*session.train_plan, session.context, open);
  if (!opened.ok()) return Annotate(opened.status(), session.job.train_path);
  session.train = *std::move(opened);
  MILLRACE_RETURN_IF_ERROR(
      Annotate(CheckFields(session.model, session.train->schema()), session.job.train_path));
  const uint64_t data = session.train->data_fingerprint();
  if (options_.resume && session.state.data_fingerprint != data) {
    return absl::FailedPreconditionError(
        absl::StrCat(session.resumed_from, ": the checkpoint is of other data"));
  }
  session.state.data_fingerprint = data;
  return Annotate(CountSteps(), session.job.train_path);
}

absl::Status Opener::CountSteps() {
  Session& session = *session_;
  const Job& job = session.job.job;
  const pipeline::StreamLength length = session.train->length();
  session.steps_per_epoch =
      job.steps_per_epoch() > 0 ? job.steps_per_epoch() : length.batches_per_epoch;
  if (session.steps_per_epoch == 0) {
    return absl::InvalidArgumentError(
        "batches straddle epochs here, so the job must say steps_per_epoch");
  }
  if (job.epochs() == 0 && length.infinite) {
    return absl::InvalidArgumentError(
        "the pipeline repeats for ever, so the job must say how many epochs");
  }
  session.total_steps = job.epochs() > 0 ? job.epochs() * session.steps_per_epoch : length.batches;
  if (!length.infinite && session.total_steps > length.batches) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pipeline ends after ", length.batches, " batches, but ", job.epochs(),
                     " epochs are ", session.total_steps, " steps; add repeat {} to it"));
  }
  return absl::OkStatus();
}

absl::Status Opener::MakeOptimizer() {
  Session& session = *session_;
  const Optimizer& optimizer = session.job.job.optimizer();
  absl::StatusOr<Schedule> schedule = Schedule::Make(optimizer, session.state.global_batch,
                                                     session.steps_per_epoch, session.total_steps);
  if (!schedule.ok()) return Annotate(schedule.status(), options_.job_path);
  session.schedule = *std::move(schedule);
  absl::StatusOr<Sgd> sgd = Sgd::Make(optimizer, session.model, std::move(velocity_));
  if (!sgd.ok()) return Annotate(sgd.status(), options_.job_path);
  session.sgd = *std::move(sgd);
  return absl::OkStatus();
}

absl::Status Opener::CheckFilesAgree() {
  const Session& session = *session_;
  const std::array<Setting, 5> settings = {
      {{"the job", session.job.fingerprint},
       {"the model", session.state.model_fingerprint},
       {"the training plan", session.state.plan_fingerprint},
       {"the evaluation plan", session.eval_plan ? session.eval_plan->Fingerprint() : 0},
       {"resume", options_.resume ? 1u : 0u}}};
  return CheckSameSettings(communicator_, settings);
}

absl::Status Opener::CheckStartAgrees() {
  const Session& session = *session_;
  const std::array<Setting, 3> settings = {
      {{"the training data", session.state.data_fingerprint},
       {"the number of steps", session.total_steps},
       {"the weights they start with (another C++ library?)", Digest(session.weights)}}};
  return CheckSameSettings(communicator_, settings);
}

absl::Status Opener::MakeReducer() {
  Session& session = *session_;
  std::vector<collectives::GradientSpec> gradients;
  for (size_t i = session.model.parameters.size(); i-- > 0;) {
    gradients.push_back({session.model.parameters[i].name, session.model.parameters[i].shape});
  }
  collectives::ReducerOptions options;
  options.bucket_bytes = size_t{session.job.job.bucket_kib()} << 10;
  options.first_bucket_bytes = std::min(options.first_bucket_bytes, options.bucket_bytes);
  MILLRACE_ASSIGN_OR_RETURN(session.reducer,
                            collectives::GradientReducer::Make(communicator_, gradients, options));
  return absl::OkStatus();
}

absl::Status Opener::MakeBackend() {
  Session& session = *session_;
  std::vector<std::span<float>> gradients;
  for (size_t i = 0; i < session.model.parameters.size(); ++i) {
    gradients.push_back(session.reducer->gradient(session.ReducerIndex(i)));
  }
  MILLRACE_ASSIGN_OR_RETURN(session.backend,
                            MakeOneDnnBackend(session.model, session.weights, std::move(gradients),
                                              session.cores.compute));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> OpenSession(const TrainOptions& options,
                                                     Communicator& communicator) {
  return Opener(options, communicator).Open();
}

std::vector<std::string> DescribeSession(const Session& session, const TrainOptions& options,
                                         const Communicator& communicator) {
  const Job& job = session.job.job;
  const CoreSplit& cores = session.cores;
  const uint64_t batch = session.state.global_batch;
  std::string ranks = absl::StrCat(communicator.size(), " (", communicator.local_size(),
                                   " on this host), ", std::string(communicator.backend()));
  if (!options.launch_reason.empty()) absl::StrAppend(&ranks, "; ", options.launch_reason);
  const std::string checkpoints =
      session.job.checkpoint_folder.empty()
          ? std::string("none")
          : absl::StrCat(session.job.checkpoint_folder, ", the newest ", job.checkpoint().keep());
  return FormatTable({
      {"job", options.job_path},
      {"ranks", ranks},
      {"cores", absl::StrCat(cores.usable, " usable (", session.cores_source, "), ", cores.per_rank,
                             " per rank: ", cores.compute, " compute, ", cores.pipeline,
                             " pipeline at batch priority")},
      {"processor", absl::StrCat(CpuModel(), ", ", WidestIsa())},
      {"backend", absl::StrCat(session.backend->Describe(), ", float32")},
      {"model",
       absl::StrCat(session.job.model_path, ", ", session.model.num_parameters(), " parameters")},
      {"gradients", session.reducer->Summary()},
      {"batch",
       absl::StrCat(batch, " global, ", (batch + communicator.size() - 1) / communicator.size(),
                    " per rank at most")},
      {"steps", absl::StrCat(session.steps_per_epoch, " per epoch, ", session.total_steps,
                             " in all, ", session.state.step, " done")},
      {"learning rate", absl::StrFormat("%g after scaling; %s", session.schedule->full_rate(),
                                        session.schedule->Describe())},
      {"optimizer",
       absl::StrFormat("SGD, momentum %g%s, weight decay %g%s", job.optimizer().momentum(),
                       job.optimizer().nesterov() ? " (Nesterov)" : "",
                       job.optimizer().weight_decay(),
                       job.optimizer().decay_bias() ? "" : " (not on biases)")},
      {"seed", absl::StrCat(job.seed())},
      {"training data", absl::StrFormat("%s, fingerprint %016x", session.job.train_path,
                                        session.state.data_fingerprint)},
      {"evaluation", session.job.eval_path.empty() ? "none" : session.job.eval_path},
      {"memory budget", absl::StrCat(job.memory_budget_mib(), " MiB for read buffers and batches")},
      {"checkpoints", checkpoints},
      {"resumed from", session.resumed_from.empty() ? "nothing" : session.resumed_from},
  });
}

}  // namespace millrace::trainer
