#include "cli/tune/trials.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/host.h"
#include "base/status.h"
#include "cli/exit.h"
#include "cli/wait/progress.h"

namespace millrace::cli {
namespace {

// Batches of a turn, and the most turns that it may take to make them.
constexpr int64_t kLeastBatches = 4;
constexpr double kMostTurns = 10;
// The part of a turn for which a pipeline that was just opened runs unmeasured.
constexpr double kWarmUp = 0.3;

}  // namespace

double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

absl::Status PlanTrials::Begin(const Settings& settings) {
  ContextOptions options;
  options.threads = settings.threads;
  options.memory_budget_bytes = int64_t{settings.memory_budget_mib} << 20;
  options.io_threads = settings.io_threads;
  if (start_token_.empty()) options.log = WarnOfLog;  // once
  MILLRACE_ASSIGN_OR_RETURN(context_, pipeline::MakeContext(plan_, std::move(options)));
  pipeline::OpenOptions open;
  open.cpu_budget = settings.threads;
  open.prefetch_batches = settings.prefetch_batches;
  open.read_ahead_runs = settings.read_ahead_runs;
  open.run_us = settings.run_us;
  open.resume_token = token_;
  Progress indexing("index", "bytes");
  open.index_progress = indexing.Callback();
  MILLRACE_ASSIGN_OR_RETURN(pipeline_, pipeline::Pipeline::Open(plan_, context_, open));
  if (start_token_.empty()) start_token_ = pipeline_->Save();
  return absl::OkStatus();
}

absl::Status PlanTrials::Open(const Settings& settings) {
  if (settings_ == settings) return absl::OkStatus();
  settings_.reset();
  stretch_.reset();
  pipeline_.reset();
  MILLRACE_RETURN_IF_ERROR(Begin(settings));
  settings_ = settings;
  return absl::OkStatus();
}

// A value of the plan is seen in place of a default, which then is of no interest.
absl::StatusOr<Defaults> PlanTrials::FindDefaults(const Settings& own) {
  MILLRACE_RETURN_IF_ERROR(Open(own));
  Defaults defaults{.threads = ReadCores().usable};
  defaults.ring = std::max(1, pipeline_->Profile().ring);
  defaults.memory_budget_mib = static_cast<int>(context_->memory_budget_bytes() >> 20);
  return defaults;
}

absl::Status PlanTrials::Restart() {
  if (!had_batch_) return absl::NotFoundError("the plan gives no batch");
  had_batch_ = false;
  MILLRACE_RETURN_IF_ERROR(pipeline_->Restore(start_token_));
  if (stretch_.has_value()) stretch_->Begin();
  return absl::OkStatus();
}

absl::Status PlanTrials::Take(Count& count) {
  MILLRACE_ASSIGN_OR_RETURN(const auto batch, pipeline_->Next());
  if (!batch.has_value()) return Restart();
  had_batch_ = true;
  ++count.batches;
  count.samples += batch->num_valid_rows();
  return absl::OkStatus();
}

absl::StatusOr<PlanTrials::Count> PlanTrials::RunFor(double seconds, int64_t batches) {
  const double begin = SecondsNow();
  Count count;
  while (true) {
    const double passed = SecondsNow() - begin;
    const bool is_long = passed >= kMostTurns * turn_seconds_ && count.batches > 0;
    if (is_long || (passed >= seconds && count.batches >= batches)) return count;
    MILLRACE_RETURN_IF_ERROR(Take(count));
  }
}

// A stretch that has just begun, with the stream, tells nothing.
void PlanTrials::Diagnose(const Settings& settings) {
  pipeline::DiagnosisOptions options = pipeline::DiagnosisOptionsOf(plan_, *pipeline_);
  options.settings = {"threads: $0", "memory_budget_mib: $0", "prefetch { batches: $0 }"};
  pipeline::Diagnosis diagnosis = stretch_->Diagnose(options);
  if (diagnosis.binding.empty()) return;
  std::erase_if(diagnoses_, [&](const auto& one) { return one.first == settings; });
  diagnoses_.emplace_back(settings, std::move(diagnosis));
}

std::optional<pipeline::Diagnosis> PlanTrials::DiagnosisOf(const Settings& settings) const {
  for (const auto& [of, diagnosis] : diagnoses_) {
    if (of == settings) return diagnosis;
  }
  return std::nullopt;
}

absl::StatusOr<double> PlanTrials::Turn(const Settings& settings) {
  MILLRACE_RETURN_IF_ERROR(Open(settings));
  if (!stretch_.has_value()) {
    MILLRACE_RETURN_IF_ERROR(RunFor(kWarmUp * turn_seconds_, 1).status());
    stretch_.emplace(*pipeline_, *context_);
  }
  const double begin = SecondsNow();
  MILLRACE_ASSIGN_OR_RETURN(const Count count, RunFor(turn_seconds_, kLeastBatches));
  const double seconds = SecondsNow() - begin;
  token_ = pipeline_->Save();
  Diagnose(settings);
  return static_cast<double>(count.samples) / std::max(seconds, 1e-9);
}

}  // namespace millrace::cli
