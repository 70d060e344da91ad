#ifndef MILLRACE_PIPELINE_PIPELINE_H_
#define MILLRACE_PIPELINE_PIPELINE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/cancels.h"
#include "base/context.h"
#include "base/record_error.h"
#include "base/schema.h"
#include "pipeline/batch.h"
#include "pipeline/plan.h"
#include "pipeline/profile.h"
#include "pipeline/trace.h"
#include "readers/http_options.h"

namespace millrace::pipeline {

class MemoryRecords;  // memory_records.h
class OpTable;        // op_table.h
class PushSource;     // push_source.h

// Makes a context. Where `options` has no I/O engine, it reads files with the pool of threads that
// call pread.
absl::StatusOr<std::shared_ptr<Context>> MakeContext(ContextOptions options = {});
// The same for the pipelines of `plan`: threads, memory budget and I/O threads that `options` leave
// open are as the plan's `performance` says.
absl::StatusOr<std::shared_ptr<Context>> MakeContext(const Plan& plan, ContextOptions options = {});

// The largest size of a resume token (docs/semantics.md, S-STATE-13).
inline constexpr uint64_t kMaxTokenBytes = uint64_t{32} << 20;

struct OpenOptions {
  // The slice of every global batch that this pipeline reads. Never part of the plan.
  int rank = 0;
  int world = 1;
  // The token of the batch behind which the stream continues; empty: from the start. A token of
  // another plan, of other data or of another semantics_version is a FAILED_PRECONDITION error that
  // says what differs.
  std::string resume_token;
  std::string resume_file;  // the file that the token comes from, for messages; empty: none
  // True if a token of another plan or of other data is accepted, with a warning in the log that
  // says where the stream goes on and what is lost. A token of another semantics_version is an
  // error all the same.
  bool force_resume = false;

  // The file to which damaged records are appended, each once, before their batch or their error is
  // delivered (readers/quarantine.h). Ranks may share it. Empty: none. A plan with a zip or window
  // cannot have one, since the record of a bad sample is not known there (S-DAMAGE-7).
  std::string quarantine_file;

  readers::HttpOptions http;  // the options of files that are URLs

  std::shared_ptr<const OpTable> ops;  // the ops of custom stages
  std::shared_ptr<PushSource> push;    // the source of a plan that begins with push {}
  // Asked until Open returns, while files are listed, opened, indexed and looked through. Pipelines
  // themselves have Cancel.
  Cancels cancels = {};
  // Records for memory stages, by the names of the stages ("memory" where the plan gives no name).
  std::map<std::string, std::shared_ptr<const MemoryRecords>> memory;

  // performance only: results are the same for every value
  // 0 stands for the value of the plan (`prefetch` and `performance`).
  int prefetch_batches = 0;
  // Most workers for this pipeline at a time. If the plan does not say: all of the context's.
  int cpu_budget = 0;
  // Runs that are to be read before workers take up the next one that was. If the plan does not
  // say: two for each worker, and 8 more.
  int read_ahead_runs = 0;
  int run_us = 0;  // microseconds of work in a run; if the plan does not say: 50
  // True if the pipeline uses fewer workers and open batches than it may while the consumer needs
  // no more.
  bool adapt = true;
  // The CUDA device whose driver page-locks the memory of batches, so that a DeviceFeed of that
  // device copies them without holding up the host (device_feed.h). Unset: the memory is pageable,
  // and no driver is loaded. Without a driver or such a device it is pageable too, and the log says
  // why.
  std::optional<int> pinned_for;
  std::string index_folder;  // as in readers::RecordSourceOptions
  std::function<void(int64_t done_bytes, int64_t total_bytes)> index_progress;

  absl::Status Validate() const;
};

// The number of batches of a stream. It is not known before the stream ends if a stage looks at
// samples to decide how many there are (unbatch, buckets, a filter that is not materialized), or if
// the source still grows.
struct StreamLength {
  bool infinite = false;           // true if the plan repeats for ever
  bool known = true;               // true if the two numbers below are known; else they are 0
  uint64_t batches = 0;            // the number of batches of the whole stream, from batch 0
  uint64_t batches_per_epoch = 0;  // the number of batches of an epoch; 0: batches straddle epochs
};

// A running plan. It delivers batches in order, with the same bits for every number of threads
// (docs/semantics.md). Next is called by one thread at a time; Cancel by any thread.
class Pipeline {
 public:
  // Opens the source, which makes its index if there is none, checks the fields of every stage, and
  // starts to read ahead.
  //   INVALID_ARGUMENT     the plan does not fit the data or the options (stage and line named)
  //   FAILED_PRECONDITION  the token does not fit
  //   CANCELLED            options.cancels returned true; nothing half made is kept
  //   NOT_FOUND, DATA_LOSS, ...  the source cannot be opened
  static absl::StatusOr<std::unique_ptr<Pipeline>> Open(const Plan& plan,
                                                        std::shared_ptr<Context> context,
                                                        const OpenOptions& options = {});
  virtual ~Pipeline() = default;  // cancels the work under way and waits for it

  // Waits for the next batch.
  //   value                a batch
  //   nullopt              the end of the stream; every later call returns nullopt too
  //   CANCELLED            Cancel was called
  //   RESOURCE_EXHAUSTED   and IsRetryable (base/status.h): consumers hold so many batches that the
  //                        memory budget has no room for the next one; drop batches and call
  //                        again. Without the mark it is an error like any other
  //   FAILED_PRECONDITION  in a forked process
  //   other                the error at the lowest position of this batch (RecordError names the
  //                        record); all earlier batches were delivered, and every later call
  //                        returns the same error
  virtual absl::StatusOr<std::optional<Batch>> Next() = 0;

  // Does what Next does, but waits no longer than `limit`. Returns nullopt if the limit passed
  // before there was an outcome: the stream stands where it stood, and the next call goes on
  // waiting for the same batch. With a limit of 0 or less it does not wait. Called by the thread
  // that calls Next.
  virtual std::optional<absl::StatusOr<std::optional<Batch>>> NextFor(
      std::chrono::nanoseconds limit) = 0;

  // Does what Next does if Next would not wait; returns nullopt if it would, or if the pipeline
  // cannot tell. Never blocks. Called by the thread that calls Next.
  virtual std::optional<absl::StatusOr<std::optional<Batch>>> TryNext() { return std::nullopt; }

  // Makes every present and later Next return CANCELLED. Thread-safe.
  virtual void Cancel() = 0;

  // Save, Restore and Seek are called between calls of Next, by the same thread.

  // Returns the token of the batch that was delivered last; before the first one, the token of the
  // place where the stream began.
  virtual std::string Save() const = 0;
  // Moves the stream behind the batch that the token came from: stops the work under way, waits for
  // it, and begins anew there. Delivered batches stay valid. May be called after an error or the
  // end of the stream, too.
  //   INVALID_ARGUMENT     not a token of this stream; the stream goes on where it was
  //   FAILED_PRECONDITION  a token of another plan, data or semantics_version (the message says
  //                        which); or the source is pushed and cannot be read again
  //   CANCELLED            Cancel was called
  virtual absl::Status Restore(const std::string& token) = 0;
  // Moves the stream in front of batch `batch`, in the same way. O(1).
  //   INVALID_ARGUMENT     the stream has fewer batches
  //   FAILED_PRECONDITION  a stage looks at samples to decide how many there are, so that only a
  //                        token says where a batch begins; or as for Restore
  virtual absl::Status Seek(uint64_t batch) = 0;

  // The fields of a batch, with their shapes per sample.
  virtual const Schema& schema() const = 0;
  virtual StreamLength length() const = 0;
  virtual uint64_t data_fingerprint() const = 0;
  // The number of records of the source, of elements of a zip or of windows; 0 if it is not known.
  virtual uint64_t num_records() const { return 0; }
  // The measurements since the stream began. Thread-safe; takes a few microseconds.
  virtual PipelineProfile Profile() const { return {}; }
  // Begins to record what the pipeline does, up to so many events. Thread-safe. A trace costs
  // nothing while there is none; a trace under way is dropped.
  virtual void StartTrace(size_t max_events = kMostTraceEvents) { (void)max_events; }
  // Ends the trace. Thread-safe. Empty if none was started.
  virtual PipelineTrace TakeTrace() { return {}; }
  // From now on at most `threads` workers at a time, from 1 to OpenOptions::cpu_budget; at once if
  // that is more than before. Never changes a batch. Thread-safe.
  virtual void SetThreadLimit(int threads) { (void)threads; }
  // Returns the file, offset and ordinal of a sample's record (of a zip: of its first input; of a
  // window: of its first element), for messages (MakeRecordError). REQUIRES: `id` is of a valid row
  // of a batch of this pipeline.
  virtual RecordError Locate(const SampleId& id) const = 0;
};

// The rank for an Explain that leaves the source closed.
inline constexpr int kNoRank = -1;

// Returns the text that `millrace explain` prints: the logical plan, the rules that fired and the
// physical plan; and, unless options.rank is kNoRank, the shards, records, batches and the rank's
// rows of the opened source. `context` may be null.
//   the errors of Plan and Pipeline::Open
absl::StatusOr<std::string> Explain(const Plan& plan, std::shared_ptr<Context> context,
                                    const OpenOptions& options = {});

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PIPELINE_H_
