#ifndef MILLRACE_PIPELINE_OPEN_EXECUTOR_PIPELINE_H_
#define MILLRACE_PIPELINE_OPEN_EXECUTOR_PIPELINE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/context.h"
#include "pipeline/executor/executor.h"
#include "pipeline/order/resume_token.h"
#include "pipeline/pipeline.h"
#include "pipeline/profile/profile_metrics.h"
#include "readers/quarantine.h"

namespace millrace::pipeline {

// A pipeline over an executor: places and tokens, and the log of damaged records. Threads as
// Pipeline says.
class ExecutorPipeline final : public Pipeline {
 public:
  // `quarantine` may be null.
  ExecutorPipeline(ExecutorParts parts, bool force_resume,
                   std::unique_ptr<readers::QuarantineLog> quarantine);
  ~ExecutorPipeline() override;

  absl::StatusOr<std::optional<Batch>> Next() override;
  std::optional<absl::StatusOr<std::optional<Batch>>> NextFor(
      std::chrono::nanoseconds limit) override;
  std::optional<absl::StatusOr<std::optional<Batch>>> TryNext() override;
  void Cancel() override { executor_->Cancel(); }
  const Schema& schema() const override { return executor_->parts().plan.batch_schema; }
  uint64_t data_fingerprint() const override { return executor_->parts().data_fingerprint; }
  uint64_t num_records() const override;
  StreamLength length() const override;
  PipelineProfile Profile() const override { return executor_->Profile(); }
  void StartTrace(size_t max_events) override { executor_->StartTrace(max_events); }
  PipelineTrace TakeTrace() override { return executor_->TakeTrace(); }
  void SetThreadLimit(int threads) override { executor_->SetThreadLimit(threads); }
  RecordError Locate(const SampleId& id) const override;
  std::string Save() const override { return executor_->Save(); }
  absl::Status Restore(const std::string& token) override;
  absl::Status Seek(uint64_t batch) override;

  // Begins at the token, or at the start if it is empty. Before any other call.
  //   the errors of Restore
  absl::Status Begin(const std::string& token);

 private:
  absl::Status Start(StreamPlace place);
  absl::Status CheckMovable() const;
  absl::StatusOr<std::optional<Batch>> Quarantined(absl::StatusOr<std::optional<Batch>> next);
  ResumeToken Here() const;
  absl::Status CheckBatch(uint64_t batch, std::string_view who) const;
  absl::StatusOr<StreamPlace> PlaceOf(const std::string& text) const;
  std::string OfEpoch(uint64_t batch) const;
  void LogLoss(const ResumeToken& token, const absl::Status& difference) const;

  const std::shared_ptr<Context> context_;
  const bool force_resume_;  // OpenOptions::force_resume
  const std::unique_ptr<readers::QuarantineLog> quarantine_;
  std::string delivered_token_;  // the token of the last batch let through, with a quarantine
  std::unique_ptr<Executor> executor_;
  ProfileMetrics profile_metrics_;
  const int64_t refresh_;  // the number of its updates among the context's metrics
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_OPEN_EXECUTOR_PIPELINE_H_
