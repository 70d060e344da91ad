#include "capi/loader/diagnoser.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "capi/call/sized.h"
#include "cli/diagnosis_text.h"
#include "pipeline/performance.h"

namespace millrace::capi {
namespace {

const char* Or(const char* given, const char* otherwise) {
  return given != nullptr ? given : otherwise;
}

}  // namespace

Diagnoser::Diagnoser(const pipeline::Plan& plan, const pipeline::OpenOptions& opened,
                     std::shared_ptr<Context> context, bool is_lent,
                     const pipeline::Pipeline& stream, const pipeline::DeviceFeed* feed)
    : context_(std::move(context)),
      is_lent_(is_lent),
      cpu_budget_(opened.cpu_budget),
      plan_threads_(pipeline::PerformanceOf(plan).threads),
      options_(pipeline::DiagnosisOptionsOf(plan, stream)),
      stretch_(stream, *context_, feed) {}

absl::Status Diagnoser::Begin() {
  MILLRACE_RETURN_IF_ERROR(context_->CheckNotForked());
  stretch_.Begin();
  return absl::OkStatus();
}

absl::Status Diagnoser::BeginBehind(absl::Status moved) {
  if (moved.ok()) stretch_.Begin();
  return moved;
}

std::string Diagnoser::SettingOfThreads(const mr_diagnosis_options& names) const {
  const std::string shared = Or(names.threads, "threads = $0");
  const std::string own =
      cpu_budget_ > 0 ? Or(names.cpu_budget, "cpu_budget = $0") : "performance { threads: $0 }";
  const int most = cpu_budget_ > 0 ? cpu_budget_ : plan_threads_;
  const int workers = context_->workers().num_threads();
  if (most == 0 || most > workers) return shared;
  return most == workers && is_lent_ ? absl::StrCat(own, " and ", shared) : own;
}

absl::Status Diagnoser::Show(const mr_diagnosis_options* given,
                             void (*visit)(void* user, const mr_diagnosis* diagnosis),
                             void* user) const {
  mr_diagnosis_options taken;
  MILLRACE_RETURN_IF_ERROR(Take(given, "mr_diagnosis_options", taken));
  MILLRACE_RETURN_IF_ERROR(context_->CheckNotForked());
  pipeline::DiagnosisOptions options = options_;
  options.settings = {SettingOfThreads(taken),
                      Or(taken.memory_budget, "memory_budget_bytes = $0 << 20"),
                      Or(taken.prefetch, "prefetch_batches = $0")};
  const pipeline::Diagnosis diagnosis = stretch_.Diagnose(options);
  const std::string json = cli::DiagnosisText(diagnosis);
  mr_diagnosis shown = {};
  shown.struct_size = sizeof shown;
  shown.verdict = diagnosis.verdict.c_str();
  shown.sentence = diagnosis.sentence.c_str();
  shown.json = json.c_str();
  shown.wait_fraction = diagnosis.wait_fraction;
  visit(user, &shown);
  return absl::OkStatus();
}

}  // namespace millrace::capi
