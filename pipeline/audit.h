#ifndef MILLRACE_PIPELINE_AUDIT_H_
#define MILLRACE_PIPELINE_AUDIT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/record_error.h"
#include "base/run.h"
#include "pipeline/batch.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"

// Logs of visited samples, and their checker. Every rank logs the samples of the batches that were
// delivered to it. The checker reads the logs of all ranks and restarts and proves that each sample
// of an epoch was visited exactly once (docs/audit.md; rules S-VISIT in docs/semantics.md).

namespace millrace::pipeline {

// The stream and the rank of a log, written where the log is begun or continued.
struct AuditHeader {
  uint32_t semantics_version = 0;
  uint64_t plan_fingerprint = 0;
  uint64_t data_fingerprint = 0;
  int rank = 0;
  int world = 1;
  // The global batch at which the log continues. Batches logged before, from this one on, no longer
  // count.
  uint64_t start_batch = 0;
  // The number of records of the source if every epoch visits each of them once; nullopt if the
  // plan selects some.
  std::optional<uint64_t> expected_records;
  std::optional<uint64_t> stream_batches;  // nullopt: without end, or not known
  uint64_t started_ns = 0;  // since 1970, by which restarts are ordered; 0: the time of Open

  friend bool operator==(const AuditHeader&, const AuditHeader&) = default;
};

// The header for a pipeline that was opened with `options`.
//   INVALID_ARGUMENT  options.resume_token is damaged
absl::StatusOr<AuditHeader> MakeAuditHeader(const Plan& plan, const Pipeline& pipeline,
                                            const OpenOptions& options);

// A row that holds a sample.
struct AuditVisit {
  int64_t row = 0;  // row of the rank's slice
  SampleId id;
  friend bool operator==(const AuditVisit&, const AuditVisit&) = default;
};

// A row whose own sample was bad, and which holds another sample or zeros. The sample `id` counts
// as accounted for in this row; the sample that replaces it does not count as visited.
struct AuditReplaced {
  int64_t row = 0;
  SampleId id;  // the row's own sample
  RecordErrorReason reason = RecordErrorReason::kUnknown;
  friend bool operator==(const AuditReplaced&, const AuditReplaced&) = default;
};

// One rank's slice of a delivered batch.
struct AuditBatch {
  uint64_t index = 0;
  uint64_t epoch = 0;
  bool ends_epoch = false;  // true if the epoch changes, or the stream ends, behind this batch
  int64_t first_global_row = 0;
  int64_t num_rows = 0;
  int64_t num_global_valid_rows = 0;
  std::vector<AuditVisit> visits;  // the visits by ascending row, without the replaced rows
  std::vector<AuditReplaced> replaced;
  friend bool operator==(const AuditBatch&, const AuditBatch&) = default;
};
// Makes the entry of a batch. Its damaged samples and those in `replaced` count as replaced.
AuditBatch MakeAuditBatch(const Batch& batch, std::span<const AuditReplaced> replaced = {});

struct AuditLogOptions {
  // True if each batch is on the disk before Add returns, so that it survives a loss of power and
  // not only the end of the process.
  bool sync = false;
};

// The log of one rank. A batch is one block with a checksum, which the operating system has before
// Add returns: a process that is killed loses at most the block that it was writing. Save a batch's
// resume token after Add, never before. Thread-compatible.
class AuditLog {
 public:
  // Makes the file, or continues it: removes a block that was torn by a kill, and writes `header`.
  //   FAILED_PRECONDITION  the file is no audit log, is of another plan or data, or another process
  //                        is writing it
  //   DATA_LOSS            a block in the middle is damaged; the file is unchanged
  //   other                the file cannot be read or written
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path, AuditHeader header,
                                                        const AuditLogOptions& options = {});
  virtual ~AuditLog() = default;  // without Finish, the log ends as if the process had been killed

  // Logs a delivered batch. After an error every later call returns the same error.
  virtual absl::Status Add(const AuditBatch& batch) = 0;
  absl::Status Add(const Batch& batch) { return Add(MakeAuditBatch(batch)); }

  // Logs that the pipeline was moved (Seek, Restore) and goes on at `start_batch`. Batches logged
  // before, from this one on, no longer count.
  virtual absl::Status Restart(uint64_t start_batch) = 0;

  // Marks an orderly stop before `next_batch`, or the end of the stream, and syncs the file.
  virtual absl::Status Finish(uint64_t next_batch, bool end_of_stream) = 0;
};

// A function that calls `expect` for every sample that epoch `epoch` should visit. It may be called
// several times for an epoch.
using ExpectedSamples =
    std::function<void(uint64_t epoch, const std::function<void(const SampleId&)>& expect)>;

struct AuditOptions {
  // The samples that should be visited. Empty: all records if the logs give their number; otherwise
  // the check is only that no sample was visited twice.
  ExpectedSamples expected;
  size_t max_messages = 20;  // most violations that the report describes
};

struct AuditEpoch {
  uint64_t epoch = 0;
  bool finished = false;  // true if it is over
  uint64_t visited = 0;   // different samples, replaced ones included
  uint64_t replaced = 0;
  uint64_t duplicates = 0;           // visits of samples that were visited before
  std::optional<uint64_t> expected;  // nullopt: not known, or the epoch is not finished
  uint64_t lost = 0;        // expected, not visited samples; the messages have the lowest ids
  uint64_t unexpected = 0;  // visited samples that were not expected
};

// The result of a check of logs.
struct AuditReport {
  uint64_t logs = 0;
  uint64_t starts = 0;            // starts of ranks, restarts included
  uint64_t batches = 0;           // complete global batches
  uint64_t withdrawn_slices = 0;  // slices of batches that a restart delivered again
  uint64_t visits = 0;            // visits that count
  uint64_t replaced = 0;
  uint64_t lost_rows = 0;  // rows of batches that are missing in the logs
  uint64_t num_violations = 0;
  std::vector<std::string> violations;  // the first max_messages of them
  std::vector<std::string> notes;       // remarks that are no violations: a log without its end
  std::vector<AuditEpoch> epochs;       // the epochs by ascending number

  uint64_t finished_epochs() const;
  // True if nothing is wrong and at least one epoch was finished.
  bool proven() const { return num_violations == 0 && finished_epochs() > 0; }
  // True if all finished epochs were compared with the samples that they should visit.
  bool exactly_once() const;
};

// Checks the logs of one job, of all ranks and restarts, in any order. Takes 16 bytes of memory per
// logged slice, and a bit per sample of the epochs that are open or not known to be complete.
//   INVALID_ARGUMENT  `files` is empty
//   other             a file cannot be read. A fault of its content is a violation, not an error
absl::StatusOr<AuditReport> CheckAudit(std::span<const std::string> files,
                                       const AuditOptions& options = {});

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_AUDIT_H_
