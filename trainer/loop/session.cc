// Opens a training in phases. Each phase does its work on every rank, then the ranks agree on the
// outcome: so a missing file on one host ends all ranks with that rank's message, and no rank
// enters a collective call that another will never reach.

#include "trainer/loop/session.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "trainer/backend/cuda/backend.h"
#include "trainer/backend/cuda/device_average.h"
#include "trainer/backend/cuda/parameter_store.h"
#include "trainer/job/servers.h"
#include "trainer/loop/backend_options.h"
#include "trainer/loop/evaluate.h"
#include "trainer/loop/resume.h"
#include "trainer/loop/share.h"
#include "trainer/loop/tune_plans.h"
#include "trainer/optimizer/loss_scale.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/optimizer/weight_average.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/waiting.h"
#include "trainer/weights/initial.h"

namespace millrace::trainer {

using collectives::Communicator;

namespace {

class Opener {
 public:
  Opener(const TrainOptions& options, Communicator& communicator, collectives::Progress& progress,
         const TrainParts& parts)
      : options_(options), communicator_(communicator), progress_(progress), parts_(parts) {}

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
  absl::Status OpenDevice();
  absl::Status OpenFeed();
  absl::Status ConnectDevices();
  absl::Status MakeTensors();
  absl::Status ShareWeights();
  absl::Status FindCheckpoint();
  void Warn(const std::string& text) const {
    if (communicator_.rank() == 0 && options_.warn) options_.warn(text);
  }
  absl::Status ShareCheckpoint();
  absl::Status CheckPlanIsTheCheckpoints();
  absl::Status OpenPipeline() {
    return OpenTrainPipeline(options_, communicator_.rank(), communicator_.size(), *session_);
  }
  absl::Status CheckEvaluation();
  absl::Status MakeSchedule();
  absl::Status TakeAverages();
  absl::Status MakeAverages();
  absl::Status OpenSums();
  absl::Status OpenStrategies();
  absl::Status MakeBackends();
  absl::Status TunePlans() {
    return trainer::TunePlans(parts_.device.plans_folder, communicator_, *session_);
  }
  absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(TrainedModel& trained,
                                                       const BackendOptions& options);
  absl::Status CheckFilesAgree();
  absl::Status CheckStartAgrees();
  absl::Status GatherCores();

  const TrainOptions& options_;
  Communicator& communicator_;
  collectives::Progress& progress_;
  const TrainParts& parts_;
  std::optional<Checkpoint> found_;  // on rank 0, when this training continues one
  std::vector<Slots> slots_;         // by model: the optimizer's, and that of the average
  std::vector<TensorSet> averages_;  // by model, as the training begins; empty: none
  std::unique_ptr<Session> session_ = std::make_unique<Session>();
};

absl::StatusOr<std::unique_ptr<Session>> Opener::Open() {
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::LoadFiles));
  MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::CheckFilesAgree));
  if (UsesCuda(session_->job.job)) {
    MILLRACE_RETURN_IF_ERROR(Phase(&Opener::OpenDevice));
    MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::ConnectDevices));
  }
  MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::GatherCores));
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::MakeTensors));
  if (!session_->job.init_path.empty()) MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::ShareWeights));
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::FindCheckpoint));
  if (options_.resume) {
    MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::ShareCheckpoint));
    MILLRACE_RETURN_IF_ERROR(Phase(&Opener::CheckPlanIsTheCheckpoints));
  }
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::OpenPipeline));
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::OpenFeed));
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::CheckEvaluation));
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::MakeSchedule));
  MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::CheckStartAgrees));
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::TakeAverages));
  MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::OpenSums));
  MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::OpenStrategies));
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::MakeBackends));
  if (session_->tuned != nullptr) MILLRACE_RETURN_IF_ERROR(Exchange(&Opener::TunePlans));
  MILLRACE_RETURN_IF_ERROR(Phase(&Opener::MakeAverages));
  return std::move(session_);
}

absl::Status Opener::LoadFiles() {
  MILLRACE_RETURN_IF_ERROR(LoadSessionFiles(options_, communicator_.local_size(), *session_));
  session_->cores =
      SplitCoresToGrow(session_->cores, static_cast<int>(session_->job.job.pipeline_threads()));
  if (!UsesServers(session_->job.job)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(options_.job_path, ": ", kServersField,
                                                 " is for processes that do not go in step"));
}

absl::Status Opener::OpenDevice() {
  session_->ordinal = options_.devices.empty() ? communicator_.local_rank() : options_.devices[0];
  MILLRACE_ASSIGN_OR_RETURN(session_->device, parts_.device.open(session_->ordinal));
  if (!TunesPlans(session_->job.job)) return absl::OkStatus();
  session_->tuned =
      std::make_unique<cuda::TunedPlans>(*session_->device, session_->cores.compute,
                                         communicator_.rank() == 0 ? options_.warn : nullptr);
  return absl::OkStatus();
}

absl::Status Opener::OpenFeed() {
  if (session_->device == nullptr || !parts_.device.feed) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<pipeline::DeviceFeed>> feed =
      parts_.device.feed(std::move(session_->train), session_->ordinal);
  if (!feed.ok()) return Annotate(feed.status(), session_->job.train_path);
  session_->feed = *std::move(feed);
  return absl::OkStatus();
}

absl::Status Opener::ConnectDevices() {
  MILLRACE_ASSIGN_OR_RETURN(
      session_->device_group,
      parts_.device.connect(communicator_, *session_->device, session_->ordinal));
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

// Only rank 0 looks into the folder, so all ranks have one decision, and other hosts need not see
// the files.
absl::Status Opener::FindCheckpoint() {
  if (communicator_.rank() != 0) return absl::OkStatus();
  const Resumption resumption = {options_.job_path, session_->job,  session_->model,
                                 session_->models,  options_.force, options_.warn};
  MILLRACE_ASSIGN_OR_RETURN(found_, FindBeginning(resumption, options_.resume, slots_));
  if (!found_ || found_->state.workers.empty()) return absl::OkStatus();
  const std::string reason = absl::StrCat(
      found_->path, ": the checkpoint is of workers that did not go in step, as ranks do");
  if (!options_.force) return absl::FailedPreconditionError(reason + kForceAdvice);
  Warn(absl::StrCat(reason, ": resuming by force where the last one was"));
  return absl::OkStatus();
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
  if (!options_.force) return absl::FailedPreconditionError(difference + kForceAdvice);
  Warn(
      absl::StrCat(difference, ": resuming by force, at step ", state.step, " and the same batch"));
  state.plan_fingerprint = fingerprint;
  state.global_batch = session_->train_numbers.batch;
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
  const Job& job = session.job.job;
  std::optional<LossScale>& scale = session.state.loss_scale;
  scale = job.has_loss_scaling() ? std::optional(BeginLossScale(job.loss_scaling(), scale))
                                 : std::nullopt;
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

// The strategies take the other slots.
absl::Status Opener::TakeAverages() {
  averages_.resize(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const TrainedModel& trained = session_->models[i];
    if (!trained.optimizer.has_ema()) continue;
    TensorSet loaded = std::move(slots_[i].back().tensors);
    slots_[i].pop_back();
    averages_[i] = options_.resume ? std::move(loaded) : trained.weights;
  }
  return absl::OkStatus();
}

absl::Status Opener::MakeAverages() {
  for (size_t i = 0; i < averages_.size(); ++i) {
    TrainedModel& trained = session_->models[i];
    if (!trained.optimizer.has_ema()) continue;
    const double decay = trained.optimizer.ema().decay();
    const bool warmup = trained.optimizer.ema().warmup();
    if (session_->device == nullptr) {
      trained.average = std::make_unique<HostAverage>(
          WeightAverage(decay, warmup, std::move(averages_[i])), trained.weights);
      continue;
    }
    MILLRACE_ASSIGN_OR_RETURN(
        trained.average,
        cuda::DeviceAverage::Make(*trained.strategy->store(), averages_[i], decay, warmup));
  }
  return absl::OkStatus();
}

absl::Status Opener::OpenSums() {
  if (communicator_.size() == 1 || session_->model.FindSynchronized() == nullptr) {
    return absl::OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(session_->sums, StepSums::Make(communicator_, progress_));
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
  options.ranks_communicate = session.sums != nullptr || session.device != nullptr;
  options.device = session.device.get();
  options.compute = ComputeTypeOf(session.job.job);
  Communicator& group = session.device_group != nullptr ? *session.device_group : communicator_;
  for (size_t i = 0; i < slots_.size(); ++i) {
    TrainedModel& trained = session.models[i];
    Reduction reduction = session.job.job.reduction();
    reduction.set_accumulate_steps(reduction.accumulate_steps() * trained.passes);
    absl::StatusOr<std::unique_ptr<Strategy>> strategy = MakeStrategy(
        group, trained.model, reduction, trained.optimizer, std::move(slots_[i]), options);
    if (!strategy.ok()) return Annotate(strategy.status(), options_.job_path);
    trained.strategy = *std::move(strategy);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Backend>> Opener::MakeBackend(TrainedModel& trained,
                                                             const BackendOptions& options) {
  Strategy& strategy = *trained.strategy;
  if (session_->device == nullptr) {
    return parts_.make_backend(trained.model, trained.weights, trained.buffers,
                               strategy.gradients(), options);
  }
  MILLRACE_RETURN_IF_ERROR(strategy.StoreWeights(trained.weights));
  return cuda::MakeDeviceBackend(
      *session_->device, trained.model, strategy.store()->tensors(), options,
      NetworkOptionsOf(session_->job.job, *strategy.store(), session_->tuned.get()));
}

absl::Status Opener::MakeBackends() {
  BackendOptions options = BackendOptionsOf(session_->job.job, session_->cores);
  if (StepSums* const sums = session_->sums.get(); sums != nullptr) {
    options.sum_over_ranks = [sums](uint64_t step, std::span<double> values) {
      return sums->Add(step, values);
    };
  }
  for (TrainedModel& trained : session_->models) {
    auto backend = MakeBackend(trained, options);
    if (!backend.ok()) return Annotate(backend.status(), options_.job_path);
    trained.backend = *std::move(backend);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> OpenSession(const TrainOptions& options,
                                                     Communicator& communicator,
                                                     collectives::Progress& progress,
                                                     const TrainParts& parts) {
  return Opener(options, communicator, progress, parts).Open();
}

}  // namespace millrace::trainer
