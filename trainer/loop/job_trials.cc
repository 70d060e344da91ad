#include "trainer/job_trials.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/host.h"
#include "base/metrics.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "trainer/job/job.h"
#include "trainer/loop/open_context.h"
#include "trainer/loop/pipeline_watch.h"
#include "trainer/loop/session.h"
#include "trainer/loop/training_loop.h"
#include "trainer/ranks/guard.h"
#include "trainer/train.h"

namespace millrace::trainer {
namespace {

constexpr char kThreadsField[] = "pipeline_threads";
constexpr char kMemoryField[] = "memory_budget_mib";
constexpr char kPlanField[] = "train";

// The settings that the job says for itself come before those of its plan.
pipeline::Performance SettingsOf(const Session& session) {
  pipeline::Performance settings = pipeline::PerformanceOf(*session.train_plan);
  const JobFile& file = session.job;
  settings.threads = static_cast<int>(file.job.pipeline_threads());
  const std::array<pipeline::FieldStep, 1> memory = {{{kMemoryField}}};
  const bool says_memory = file.places.Find(memory).has_value();
  if (says_memory) settings.memory_budget_mib = static_cast<int>(file.job.memory_budget_mib());
  return settings;
}

class SessionTrials final : public JobTrials {
 public:
  explicit SessionTrials(const JobTrialOptions& options) {
    options_.job_path = options.job_path;
    options_.variables = options.variables;
    options_.warn = options.warn;
    options_.index_progress = options.index_progress;
    options_.leaves_nothing = true;
    options_.metrics = std::make_shared<Metrics>();  // outlives each context
  }

  absl::Status Begin() {
    loop_.reset();
    session_.reset();
    MILLRACE_ASSIGN_OR_RETURN(guard_, Guard::Make(options_, *communicator_));
    MILLRACE_ASSIGN_OR_RETURN(session_,
                              OpenSession(options_, *communicator_, guard_->progress(), Parts()));
    if (session_->job.job.strategy().mirrored().replicas() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(options_.job_path,
                       ": strategy.mirrored: the job has several ranks, which share the cores; "
                       "trials are of one rank"));
    }
    settings_ = SettingsOf(*session_);
    session_->cores.pipeline_most = session_->cores.pipeline_first;  // it does not adapt
    loop_ = std::make_unique<TrainingLoop>(options_, *communicator_, *guard_, *session_);
    options_.warn = nullptr;
    options_.index_progress = nullptr;
    return absl::OkStatus();
  }

  const std::string& plan_path() const override { return session_->job.train_path; }
  const pipeline::Plan& plan() const override { return *session_->train_plan; }
  const pipeline::Performance& settings() const override { return settings_; }
  int compute_threads() const override { return session_->cores.compute; }
  int default_threads() const override { return CoresFor(0).pipeline_first; }

  absl::Status Use(const pipeline::Performance& settings) override {
    Session& session = *session_;
    session.train.reset();
    session.context.reset();
    Job& job = session.job.job;
    job.clear_memory_budget_mib();
    FillFromPlan({.memory_budget_mib = settings.memory_budget_mib}, job);
    session.cores = CoresFor(settings.threads);
    if (settings.io_threads > 0) session.cores.io = settings.io_threads;
    MILLRACE_ASSIGN_OR_RETURN(session.context,
                              OpenContext(job, session.cores, nullptr, options_.metrics));
    pipeline::OpenOptions open;
    open.cpu_budget = session.cores.pipeline_most;
    open.prefetch_batches = settings.prefetch_batches;
    open.read_ahead_runs = settings.read_ahead_runs;
    open.run_us = settings.run_us;
    open.resume_token = session.state.resume_token;
    MILLRACE_ASSIGN_OR_RETURN(session.train,
                              pipeline::Pipeline::Open(*session.train_plan, session.context, open));
    used_ = settings;
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<int64_t>> Step() override {
    if (loop_->IsOver()) {
      const std::optional<pipeline::Performance> used = used_;
      MILLRACE_RETURN_IF_ERROR(Begin());
      if (used.has_value()) MILLRACE_RETURN_IF_ERROR(Use(*used));
      return std::nullopt;
    }
    const int64_t before = loop_->figures().times.samples;
    MILLRACE_RETURN_IF_ERROR(loop_->Step());
    return loop_->figures().times.samples - before;
  }

  pipeline::Pipeline& pipeline() override { return *session_->train; }
  Context& context() override { return *session_->context; }
  pipeline::DiagnosisOptions diagnosis_options() const override {
    return DiagnosisOptionsOf(*session_, /*ranks=*/1);
  }

 private:
  // A feed has the pipeline of a training on a GPU, and trials change pipelines.
  TrainParts Parts() const {
    TrainParts parts;
    parts.device.open = [this](int) {
      return absl::InvalidArgumentError(absl::StrCat(
          options_.job_path,
          ": device: trials of a job are on the CPU: tune its plan, at the GPU's pace"));
    };
    return parts;
  }
  static CoreSplit CoresFor(int pipeline_threads) {
    return SplitCores(ReadCores().usable, /*local_ranks=*/1, /*threads=*/0, pipeline_threads);
  }

  TrainOptions options_;
  const std::unique_ptr<collectives::Communicator> communicator_ = collectives::MakeSingle();
  std::unique_ptr<Guard> guard_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<TrainingLoop> loop_;
  pipeline::Performance settings_;             // the job's
  std::optional<pipeline::Performance> used_;  // those of the last Use; nullopt: the job's
};

}  // namespace

absl::StatusOr<std::unique_ptr<JobTrials>> JobTrials::Open(const JobTrialOptions& options) {
  auto trials = std::make_unique<SessionTrials>(options);
  MILLRACE_RETURN_IF_ERROR(trials->Begin());
  return trials;
}

absl::StatusOr<pipeline::EditedText> EditJobText(
    std::string_view text, const std::map<std::string, std::string>& variables,
    std::span<const pipeline::FieldChange> changes, std::string_view title) {
  for (const pipeline::FieldChange& change : changes) {
    const bool is_known =
        change.field == kThreadsField || change.field == kMemoryField || change.field == kPlanField;
    if (is_known) continue;
    return absl::InvalidArgumentError(absl::StrCat("\"", change.field, "\" is none of ",
                                                   kThreadsField, ", ", kMemoryField, " and ",
                                                   kPlanField));
  }
  return pipeline::EditFields(text, "the job", variables, changes, Job(), title);
}

}  // namespace millrace::trainer
