#include <algorithm>

#include "base/status.h"
#include "pipeline/audit.h"
#include "pipeline/order/resume_token.h"
#include "pipeline/plan/message.h"
#include "pipeline/stages/table.h"

namespace millrace::pipeline {
namespace {

// True if every epoch visits each record of the source once, for any content of the records.
bool VisitsEveryRecord(const proto::Pipeline& plan) {
  return std::ranges::none_of(plan.stage(), SkipsRecords);
}

// True if the number of batches is known without looking at records.
bool BatchesAreArithmetic(const proto::Pipeline& plan) {
  return std::ranges::none_of(plan.stage(), CountsByRecords);
}

}  // namespace

absl::StatusOr<AuditHeader> MakeAuditHeader(const Plan& plan, const Pipeline& pipeline,
                                            const OpenOptions& options) {
  AuditHeader header;
  header.semantics_version = plan.message().pipeline.semantics_version();
  header.plan_fingerprint = plan.Fingerprint();
  header.data_fingerprint = pipeline.data_fingerprint();
  header.rank = options.rank;
  header.world = options.world;
  if (!options.resume_token.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(const ResumeToken token, ResumeToken::Parse(options.resume_token));
    header.start_batch = token.next_batch;
  }
  if (VisitsEveryRecord(plan.message().pipeline) && pipeline.num_records() > 0) {
    header.expected_records = pipeline.num_records();
  }
  const StreamLength length = pipeline.length();
  const bool known = !length.infinite && BatchesAreArithmetic(plan.message().pipeline);
  if (known && length.batches > 0) header.stream_batches = length.batches;
  return header;
}

}  // namespace millrace::pipeline
