#include "cli/tune/plan_target.h"

#include "base/host.h"
#include "base/status.h"
#include "cli/exit.h"
#include "cli/wait/progress.h"
#include "pipeline/stretch.h"

namespace millrace::cli {

absl::Status PlanTarget::Open(const Settings& settings) {
  if (pipeline_ != nullptr) token_ = pipeline_->Save();
  pipeline_.reset();
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

absl::StatusOr<std::optional<int64_t>> PlanTarget::Next() {
  MILLRACE_ASSIGN_OR_RETURN(const auto batch, pipeline_->Next());
  if (batch.has_value()) {
    had_batch_ = true;
    return batch->num_valid_rows();
  }
  if (!had_batch_) return absl::NotFoundError("the plan gives no batch");
  had_batch_ = false;
  MILLRACE_RETURN_IF_ERROR(pipeline_->Restore(start_token_));
  return std::nullopt;
}

pipeline::DiagnosisOptions PlanTarget::diagnosis_options() const {
  pipeline::DiagnosisOptions options = pipeline::DiagnosisOptionsOf(plan_, *pipeline_);
  options.settings = {"threads: $0", "memory_budget_mib: $0", "prefetch { batches: $0 }"};
  return options;
}

int PlanTarget::default_threads() const { return ReadCores().usable; }

}  // namespace millrace::cli
