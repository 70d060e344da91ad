#ifndef MILLRACE_PIPELINE_PIPELINE_H_
#define MILLRACE_PIPELINE_PIPELINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/context.h"
#include "base/record_error.h"
#include "base/schema.h"
#include "pipeline/batch.h"
#include "pipeline/plan.h"
#include "readers/http_options.h"

namespace millrace::pipeline {

class MemoryRecords;  // memory_records.h
class OpTable;        // op_table.h
class PushSource;     // push_source.h

// Makes a context whose I/O engine is the pread pool (ContextOptions.io may be left empty).
absl::StatusOr<std::shared_ptr<Context>> MakeContext(ContextOptions options = {});

// No resume token has more bytes (docs/semantics.md, S-STATE-13).
inline constexpr uint64_t kMaxTokenBytes = uint64_t{32} << 20;

struct OpenOptions {
  // Which slice of every global batch is read. Never part of the plan.
  int rank = 0;
  int world = 1;
  // Continue after the batch this token came from; empty: from the start. A token of another plan,
  // other data or another semantics_version is FAILED_PRECONDITION that says what differs.
  std::string resume_token;
  // Takes the token of another plan or of other data all the same, and logs a warning that says
  // where the stream goes on and what is lost. Not one of another semantics_version.
  bool force_resume = false;

  // Damaged records are appended to this file before their batch is delivered, or the error that
  // one of them is; each once (readers/quarantine.h). Ranks may share it. Empty: to none. Not for a
  // plan with a zip, where the record of a bad sample is not known (S-DAMAGE-7).
  std::string quarantine_file;

  readers::HttpOptions http;  // of files that are URLs

  std::shared_ptr<const OpTable> ops;  // for custom stages
  std::shared_ptr<PushSource> push;    // for a plan that begins with push {}
  // For memory stages, by the names of the stages ("memory" where the plan gives none).
  std::map<std::string, std::shared_ptr<const MemoryRecords>> memory;

  // performance only: results are the same for every value
  int prefetch_batches = 0;  // 0: as the plan says
  int cpu_budget = 0;        // workers at once for this pipeline, at most; 0: all of the context's
  // Uses fewer workers and open batches than allowed while the consumer needs no more.
  bool adapt = true;
  std::string index_folder;  // see readers::RecordSourceOptions
  std::function<void(int64_t done_bytes, int64_t total_bytes)> index_progress;

  absl::Status Validate() const;
};

// How many batches there are; `infinite` when the plan repeats for ever. Where a stage changes how
// many samples there are by looking at them (filter, unless it is materialized, unbatch, buckets),
// or the source still grows, the number is not known before the stream ends.
struct StreamLength {
  bool infinite = false;
  bool known = true;               // false: the two numbers below are 0
  uint64_t batches = 0;            // of the whole stream, from batch 0
  uint64_t batches_per_epoch = 0;  // 0 when batches straddle epochs
};

// Runs a plan: batches in order, bit-identical for every number of threads (docs/semantics.md).
// Next from one thread at a time; Cancel from any.
class Pipeline {
 public:
  // Opens the source (making its index on first touch), checks every stage's fields, and starts to
  // read ahead.
  //   INVALID_ARGUMENT     the plan does not fit the data or the options (stage and line named)
  //   FAILED_PRECONDITION  the token does not fit
  //   NOT_FOUND, DATA_LOSS, ...  the source cannot be opened
  static absl::StatusOr<std::unique_ptr<Pipeline>> Open(const Plan& plan,
                                                        std::shared_ptr<Context> context,
                                                        const OpenOptions& options = {});
  virtual ~Pipeline() = default;  // cancels and waits for its work

  // Waits for the next batch.
  //   value                a batch
  //   nullopt              the end of the stream; every later call returns nullopt too
  //   CANCELLED            Cancel was called
  //   RESOURCE_EXHAUSTED   and IsRetryable (base/status.h): consumers hold so much that the budget
  //                        has no room for the next one; drop batches and call again. Without the
  //                        mark it is an error as any other
  //   FAILED_PRECONDITION  in a forked process
  //   other                the lowest-position error of this batch (RecordError says which record);
  //                        earlier ones were delivered, and every later call returns the same error
  virtual absl::StatusOr<std::optional<Batch>> Next() = 0;

  // What Next would return without waiting; nullopt when it would wait. Never blocks. From the
  // thread that calls Next. A pipeline that cannot tell says nullopt.
  virtual std::optional<absl::StatusOr<std::optional<Batch>>> TryNext() { return std::nullopt; }

  // Makes every present and later Next return CANCELLED. Thread-safe.
  virtual void Cancel() = 0;

  // The next three are called between calls of Next, by the same thread.

  // The token of the batch delivered last; before the first, of the place where the stream began.
  virtual std::string Save() const = 0;
  // Goes on behind the batch that the token came from: stops the work under way, waits for it, and
  // begins anew there. Batches that were delivered stay valid. Also after an error or the end.
  //   INVALID_ARGUMENT     not a token of this stream; the stream goes on where it was
  //   FAILED_PRECONDITION  a token of another plan, data or semantics_version, told by name; or the
  //                        source is pushed and cannot be read again
  //   CANCELLED            Cancel was called
  virtual absl::Status Restore(const std::string& token) = 0;
  // The same, in front of batch `batch`. O(1).
  //   INVALID_ARGUMENT     the stream has fewer batches
  //   FAILED_PRECONDITION  the plan has a stage that changes how many samples there are by looking
  //                        at them: only a token says where a batch begins; or as Restore
  virtual absl::Status Seek(uint64_t batch) = 0;

  // Fields of a batch, per sample.
  virtual const Schema& schema() const = 0;
  virtual StreamLength length() const = 0;
  virtual uint64_t data_fingerprint() const = 0;
  // Records of the source, or elements of a zip; 0 when that is not known.
  virtual uint64_t num_records() const { return 0; }
  // Where the sample of a batch's row (of a zip: its first input) lies: file, offset and ordinal,
  // for messages (MakeRecordError). REQUIRES: `id` is of a valid row of a batch of this pipeline.
  virtual RecordError Locate(const SampleId& id) const = 0;
};

// The rank for an Explain that leaves the source closed.
inline constexpr int kNoRank = -1;

// What `millrace explain` prints: the logical plan, the rules that fired, and the physical plan;
// and of the opened source shards, records, batches and the rank's rows, unless options.rank is
// kNoRank. `context` may be null.
//   the errors of Plan and Pipeline::Open
absl::StatusOr<std::string> Explain(const Plan& plan, std::shared_ptr<Context> context,
                                    const OpenOptions& options = {});

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PIPELINE_H_
