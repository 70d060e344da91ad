#include "cli/tune/job_target.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/exit.h"
#include "cli/wait/progress.h"
#include "trainer/explain.h"
#include "trainer/job_trials.h"

namespace millrace::cli {
namespace {

class JobTarget final : public TunedJob {
 public:
  explicit JobTarget(std::unique_ptr<trainer::JobTrials> trials) : trials_(std::move(trials)) {}

  absl::Status Open(const Settings& settings) override { return trials_->Use(settings); }
  absl::StatusOr<std::optional<int64_t>> Next() override { return trials_->Step(); }
  pipeline::Pipeline& pipeline() override { return trials_->pipeline(); }
  Context& context() override { return trials_->context(); }
  pipeline::DiagnosisOptions diagnosis_options() const override {
    return trials_->diagnosis_options();
  }
  int default_threads() const override { return trials_->default_threads(); }

  const std::string& plan_path() const override { return trials_->plan_path(); }
  const pipeline::Plan& plan() const override { return trials_->plan(); }
  const Settings& settings() const override { return trials_->settings(); }
  int compute_threads() const override { return trials_->compute_threads(); }
  absl::StatusOr<pipeline::EditedText> Edit(const std::string& text,
                                            const pipeline::Variables& variables,
                                            std::span<const pipeline::FieldChange> changes,
                                            const std::string& title) const override {
    return trainer::EditJobText(text, variables, changes, title);
  }

 private:
  const std::unique_ptr<trainer::JobTrials> trials_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TunedJob>> OpenTunedJob(
    const std::string& path, const std::map<std::string, std::string>& variables) {
  if (trainer::IsModelFile(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": this is a model; give a job or a plan"));
  }
  Progress indexing("index", "bytes");
  trainer::JobTrialOptions options;
  options.job_path = path;
  options.variables = variables;
  options.warn = [](std::string_view line) { Warn(line); };
  options.index_progress = indexing.Callback();
  MILLRACE_ASSIGN_OR_RETURN(auto trials, trainer::JobTrials::Open(options));
  return std::make_unique<JobTarget>(std::move(trials));
}

}  // namespace millrace::cli
