#ifndef MILLRACE_PIPELINE_PROFILE_H_
#define MILLRACE_PIPELINE_PROFILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/log_histogram.h"
#include "base/run.h"

// The measurements of a running pipeline (Pipeline::Profile): where its workers and its consumer
// spent their time. All times are in nanoseconds of the steady clock, all counts since the stream
// began. The difference of two profiles is that of the time between them.

namespace millrace::pipeline {

// Numbers of nanoseconds; a quantile is at most 1/8 too large.
using TimeHistogram = LogHistogram<8, 44>;

// The reasons for which Next waits for the next batch. At each moment of a wait there is one.
enum class WaitCause {
  kWork,     // all workers that the pipeline may use are at work
  kReading,  // workers have nothing to do before bytes of records come
  kBudget,   // the memory budget has no room for the next reads, or for the next batch
  kOrder,    // one worker evaluates the order, or settles pass 1, and the others wait for it
  kRing,     // a few workers make the last rows; the others may not begin a later batch
  kWorkers,  // no worker has begun yet: other pipelines or programs have the processors
  kSource,   // a source that grows has not brought enough records
  kHandOff,  // the batch is ready, and the consumer's thread wakes up
};
inline constexpr size_t kNumWaitCauses = 8;
// "work", "reading", "budget", "order", "ring", "workers", "source", "hand-off".
std::string_view WaitCauseName(WaitCause cause);
using WaitTimes = std::array<int64_t, kNumWaitCauses>;  // by WaitCause

// The kinds of items that workers execute.
enum class ItemKind { kOpen, kPlan, kSubmit, kProcess, kFinish, kScan, kExamine, kSettle };
inline constexpr size_t kNumItemKinds = 8;
// "open", "plan", "submit", "process", "finish", "scan", "examine", "settle".
std::string_view ItemKindName(ItemKind kind);
struct ItemTimes {
  int64_t items = 0;
  int64_t busy_ns = 0;
};

// A run of rows that an op took long for.
struct SlowRows {
  int64_t row_ns = 0;  // time for each row; 0: there is none
  int64_t rows = 0;
  SampleId first;       // the first of the rows
  std::string file;     // the file of its record; empty: its source has none
  int64_t record = -1;  // the number of that record in the file; -1: not known
};

// The work of one op on rows. Not every run is measured: the sampled ones have the times below, and
// `busy_ns` is the op's part of the time of all runs.
struct OpProfile {
  std::string stage;    // the stage's name; of several stages in one pass the first one's
  std::string summary;  // what runs, as explain shows it
  int64_t busy_ns = 0;
  int64_t sampled_runs = 0;
  int64_t sampled_rows = 0;
  int64_t sampled_ns = 0;
  TimeHistogram row_ns;      // time for each row, one number per sampled run
  int64_t weighed_rows = 0;  // rows whose bytes were counted
  int64_t bytes_in = 0;      // bytes of the fields that the op took away or changed, in these rows
  int64_t bytes_out = 0;     // bytes of the fields that it added or changed
  SlowRows slowest;
};

// Reads of one file.
struct FileReads {
  std::string file;
  int64_t reads = 0;
  int64_t ns = 0;      // time of all of them
  int64_t max_ns = 0;  // the longest
};

// Groups of reads: those that fetch the records of a run.
struct ReadProfile {
  int64_t groups = 0;             // groups that have ended
  int64_t requests = 0;           // ranges of files in them
  int64_t bytes = 0;              // bytes of these ranges
  int64_t ns = 0;                 // time of all groups, from submission to the last byte
  int64_t in_flight = 0;          // groups under way now
  int64_t any_ns = 0;             // time in which at least one group was under way
  int64_t best_window_bytes = 0;  // most bytes that came within 100 ms
  TimeHistogram group_ns;
  // Files, since the stream began.
  std::vector<FileReads> slowest;  // files by their mean time, at most 16, the slowest first
  int64_t files = 0;               // files of which something was read
  int64_t median_file_ns = 0;      // the median of their mean times
  int64_t files_ns = 0;            // time of all their groups
};

struct MemoryProfile {
  int64_t limit_bytes = 0;     // the budget, of all pipelines of the context
  int64_t reserved_bytes = 0;  // of it taken now
  int64_t highest_bytes = 0;   // the most that was taken
  int64_t standing_bytes = 0;  // permanent: indexes, slots of shuffles
  int64_t held_bytes = 0;      // of batches that the consumer has
  int64_t batch_bytes = 0;     // a batch's slab
};

// Calls of Next that found their batch ready: one in eight is measured.
struct HandOverProfile {
  int64_t calls = 0;  // measured ones
  int64_t ns = 0;     // time of these, from their begin to their return
};

// Batches that a DeviceFeed copies to its device (device_feed.h).
struct CopyProfile {
  int64_t batches = 0;   // batches whose copies were issued
  int64_t bytes = 0;     // bytes of their tensors
  int64_t issue_ns = 0;  // the host's time for issuing these copies
  int64_t wait_ns = 0;   // time in which Next waited for a copy, to use its host memory again
};

struct PipelineProfile {
  int64_t now_ns = 0;      // the time of the profile
  int64_t elapsed_ns = 0;  // time since the stream began
  int64_t batches = 0;     // batches delivered
  int64_t rows = 0;        // their valid rows

  // Workers.
  int workers = 0;                               // the most that the pipeline may use
  int worker_goal = 0;                           // those that it uses now
  int64_t goal_ns = 0;                           // the goal, added up over time
  int64_t busy_ns = 0;                           // time of workers in items
  std::array<ItemTimes, kNumItemKinds> items{};  // the same by kind
  int64_t serial_ns = 0;  // time in which one worker had the order or the settler
  int64_t work_ns = 0;    // time in ops on rows: of pass 2 the sum over `ops`
  // Some items were measured in both clocks: their time, and the processor time in it.
  int64_t clocked_ns = 0;
  int64_t clocked_cpu_ns = 0;
  int64_t worked_rows = 0;     // rows that were worked on for batches
  std::vector<OpProfile> ops;  // the source first, the ops in their order, the batch last

  // The consumer.
  WaitTimes wait_ns{};     // by cause
  int64_t waits = 0;       // calls that had to wait
  TimeHistogram waits_ns;  // the length of each
  HandOverProfile hand_over;
  CopyProfile copies;  // of a feed over the pipeline; only a Stretch fills it in

  // Batches made ahead.
  int ring = 0;          // the most open batches
  int ring_goal = 0;     // the most that it keeps open now
  int64_t ready_ns = 0;  // the number of ready batches, added up over time

  ReadProfile reads;
  MemoryProfile memory;

  // The time at which the stream began.
  int64_t begins_ns() const { return now_ns - elapsed_ns; }
  int64_t wait_total_ns() const;
};

// Returns the measurements between `earlier` and `later`, two profiles of one pipeline. If the
// stream was moved between them, those since then. Highest, slowest and best ones are those of
// `later`.
PipelineProfile Between(const PipelineProfile& earlier, const PipelineProfile& later);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PROFILE_H_
