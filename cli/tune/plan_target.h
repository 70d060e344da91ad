#ifndef MILLRACE_CLI_TUNE_PLAN_TARGET_H_
#define MILLRACE_CLI_TUNE_PLAN_TARGET_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/tune/target.h"

namespace millrace::cli {

// The pipeline of a plan, whose batches are dropped at once.
class PlanTarget final : public TuneTarget {
 public:
  explicit PlanTarget(pipeline::Plan plan) : plan_(std::move(plan)) {}

  absl::Status Open(const Settings& settings) override;
  absl::StatusOr<std::optional<int64_t>> Next() override;
  pipeline::Pipeline& pipeline() override { return *pipeline_; }
  Context& context() override { return *context_; }
  pipeline::DiagnosisOptions diagnosis_options() const override;
  int default_threads() const override;

 private:
  const pipeline::Plan plan_;
  std::shared_ptr<Context> context_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
  std::string token_;        // where the stream goes on; empty: at its start
  std::string start_token_;  // of the start of the stream
  bool had_batch_ = false;   // true if the stream has given a batch since its start
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TUNE_PLAN_TARGET_H_
