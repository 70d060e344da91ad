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

// Who was visited: every rank logs the samples of the batches that were delivered to it, and a
// checker reads the logs of all ranks and restarts and proves that each sample of an epoch was
// visited exactly once (docs/audit.md; rules S-VISIT in docs/semantics.md).

namespace millrace::pipeline {

// What a log says about the stream and its rank when it is begun or continued.
struct AuditHeader {
  uint32_t semantics_version = 0;
  uint64_t plan_fingerprint = 0;
  uint64_t data_fingerprint = 0;
  int rank = 0;
  int world = 1;
  uint64_t start_batch = 0;  // continues at this global batch; withdraws what was logged behind it
  // Records of the source when every epoch visits each of them once; nullopt: the plan decides.
  std::optional<uint64_t> expected_records;
  std::optional<uint64_t> stream_batches;  // nullopt: without end, or not known
  uint64_t started_ns = 0;  // since 1970, orders restarts over files; 0: AuditLog::Open looks

  friend bool operator==(const AuditHeader&, const AuditHeader&) = default;
};

// The header for a pipeline that was opened with `options`.
//   INVALID_ARGUMENT  options.resume_token is damaged
absl::StatusOr<AuditHeader> MakeAuditHeader(const Plan& plan, const Pipeline& pipeline,
                                            const OpenOptions& options);

// A row that holds a sample.
struct AuditVisit {
  int64_t row = 0;  // of the rank's slice
  SampleId id;
  friend bool operator==(const AuditVisit&, const AuditVisit&) = default;
};

// A row whose own sample was bad: another one stands there, or zeros. It counts as the place where
// `id` was accounted for; the substitute is no visit.
struct AuditReplaced {
  int64_t row = 0;
  SampleId id;  // of the sample that should be there
  RecordErrorReason reason = RecordErrorReason::kUnknown;
  friend bool operator==(const AuditReplaced&, const AuditReplaced&) = default;
};

// One rank's slice of a delivered batch.
struct AuditBatch {
  uint64_t index = 0;
  uint64_t epoch = 0;
  bool ends_epoch = false;
  int64_t first_global_row = 0;
  int64_t num_rows = 0;
  int64_t num_global_valid_rows = 0;
  std::vector<AuditVisit> visits;  // ascending rows, replaced ones left out
  std::vector<AuditReplaced> replaced;
  friend bool operator==(const AuditBatch&, const AuditBatch&) = default;
};
// Damaged samples of the batch count as replaced, and so do those that `replaced` names.
AuditBatch MakeAuditBatch(const Batch& batch, std::span<const AuditReplaced> replaced = {});

struct AuditLogOptions {
  // Each batch is on the disk before Add returns: survives a loss of power, not only of the
  // process.
  bool sync = false;
};

// Writes the log of one rank. A batch is one block with a checksum, handed to the system before Add
// returns: a process that is killed loses at most the block it was writing. Save a batch's resume
// token after Add, never before. Thread-compatible.
class AuditLog {
 public:
  // Makes the file, or continues it: cuts off a block that was torn by a kill, and writes `header`.
  //   FAILED_PRECONDITION  the file is no audit log, is of another plan or data, or is being
  //                        written by somebody else
  //   DATA_LOSS            a block in the middle is damaged: nothing was changed
  //   other                the file cannot be read or written
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path, AuditHeader header,
                                                        const AuditLogOptions& options = {});
  virtual ~AuditLog() = default;  // without Finish the log ends as if the process was killed

  // Logs a delivered batch. After an error the log is dead: every later call returns it.
  virtual absl::Status Add(const AuditBatch& batch) = 0;
  absl::Status Add(const Batch& batch) { return Add(MakeAuditBatch(batch)); }

  // Says that the pipeline was moved (Seek, Restore) and goes on at `start_batch`: takes back what
  // was logged at or behind it.
  virtual absl::Status Restart(uint64_t start_batch) = 0;

  // Marks an orderly stop before `next_batch`, or the end of the stream, and syncs the file.
  virtual absl::Status Finish(uint64_t next_batch, bool end_of_stream) = 0;
};

// Calls its argument for every sample that epoch `epoch` should visit; may be asked again.
using ExpectedSamples =
    std::function<void(uint64_t epoch, const std::function<void(const SampleId&)>& expect)>;

struct AuditOptions {
  // What should be visited; empty: all records where the logs say so, otherwise only "at most once"
  // is checked.
  ExpectedSamples expected;
  size_t max_messages = 20;  // violations that are told in words
};

struct AuditEpoch {
  uint64_t epoch = 0;
  bool finished = false;
  uint64_t visited = 0;  // different samples, replaced ones included
  uint64_t replaced = 0;
  uint64_t duplicates = 0;           // visits of samples that were visited before
  std::optional<uint64_t> expected;  // nullopt: not known, or not finished
  uint64_t lost = 0;                 // expected and not visited; lowest ids are in the messages
  uint64_t unexpected = 0;           // visited and not expected
};

// What the logs prove.
struct AuditReport {
  uint64_t logs = 0;
  uint64_t starts = 0;            // of ranks, restarts included
  uint64_t batches = 0;           // global batches that are complete
  uint64_t withdrawn_slices = 0;  // of batches that a restart delivered again
  uint64_t visits = 0;            // that count
  uint64_t replaced = 0;
  uint64_t lost_rows = 0;  // rows of batches that are missing in the logs
  uint64_t num_violations = 0;
  std::vector<std::string> violations;  // the first max_messages
  std::vector<std::string> notes;       // what is no violation (a log that ends without a mark)
  std::vector<AuditEpoch> epochs;       // ascending

  uint64_t finished_epochs() const;
  // Nothing is wrong and at least one epoch was finished.
  bool proven() const { return num_violations == 0 && finished_epochs() > 0; }
  // All finished epochs were compared with what they should visit (not only "at most once").
  bool exactly_once() const;
};

// Reads logs of one job, of all ranks and restarts in any order. Memory: 16 B per logged slice and
// a bit per sample of the epochs that are open or not known to be complete.
//   INVALID_ARGUMENT  no files
//   other             a file cannot be read; what is wrong with its content is a violation
absl::StatusOr<AuditReport> CheckAudit(std::span<const std::string> files,
                                       const AuditOptions& options = {});

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_AUDIT_H_
