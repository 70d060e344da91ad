#ifndef MILLRACE_PIPELINE_DIAGNOSIS_H_
#define MILLRACE_PIPELINE_DIAGNOSIS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/host_use.h"
#include "base/schema.h"
#include "pipeline/plan.h"
#include "pipeline/profile.h"

// The reason for which a consumer waits for its pipeline, and the changes that would help: from the
// measurements of a stretch of time, by a small model (docs/diagnosis.md). Nothing here measures,
// blocks or reads a clock. Rates are in samples per second, times in seconds unless the name says
// otherwise. Every number is finite and at least 0, however odd the measurements are; a rate that
// nothing limits is nullopt.

namespace millrace::pipeline {

// "NOT input-bound" below 5 %, "MODERATELY input-bound" below 20 %, else "HIGHLY input-bound": the
// limits of xprof's input pipeline analysis.
std::string InputVerdict(double wait_fraction);

// The settings that change a pipeline, as the user writes them; $0 stands for the value. An empty
// one cannot be changed.
struct PipelineSettings {
  std::string threads = "--threads $0";
  std::string budget_mib;
  std::string ring = "prefetch { batches: $0 }";
};

struct DiagnosisOptions {
  double cores = 1;       // processors that the pipeline's program (of several ranks: rank) may use
  double processors = 1;  // processors whose load HostUse counts, at least `cores`
  double pace = 0;        // samples per second that the consumer asks for; 0: not known
  std::string unit = "samples/s";
  PipelineSettings settings;
  // Bytes that a sample would not need in its batch if float fields that come from uint8 values
  // stayed uint8 (BytesSavedByUint8).
  int64_t uint8_saved_bytes = 0;
  int64_t fetched_bytes = 0;  // bytes fetched from servers in the stretch
  int most_threads = 0;       // threads of which more were tried without a gain; 0: not known
};

// The resources and other reasons that may limit a pipeline.
enum class Limit {
  kWorkers,   // processor time of its workers
  kReading,   // storage or network
  kBudget,    // memory budget
  kSerial,    // work that one worker does at a time: the order, settling
  kConsumer,  // the consumer itself
  // Reasons that are no resource, known by the waits alone.
  kRing,     // too few open batches
  kStart,    // workers have yet to begin: others have the processors, or they wake up
  kHandOff,  // the wake-ups of the consumer
  kSource,   // a source that grows
};
inline constexpr size_t kNumLimits = 9;
// "worker CPU", "reading", "memory budget", "serial parts", "consumer", "ring", "start of
// workers", "hand-off", "source".
std::string LimitName(Limit limit);

// A part of the work on a sample.
struct WorkPart {
  std::string name;     // the stages that run as one op ("resize+flip"), or the kind of item
  std::string summary;  // a few words on it; may be empty
  bool is_op = false;   // true for an op, which has the numbers behind `share`
  double us = 0;        // processor time per sample, in microseconds
  double share = 0;     // of the measured whole, in [0, 1]
  std::optional<double> ceiling;   // samples per second of one core that did nothing else
  double p99_us = 0;               // of the runs' mean times for a row
  std::optional<double> bytes_in;  // per sample; nullopt: not measured
  std::optional<double> bytes_out;
  SlowRows slowest;
};

// The use of a resource.
struct ResourceUse {
  Limit limit = Limit::kWorkers;
  double used = 0;           // cores, bytes per second, bytes, a fraction of the time, samples/s
  std::optional<double> of;  // the most of it, in the same unit
  std::optional<double> allows;  // samples per second; nullopt: it limits nothing
  // True if more than `allows` may be possible: the resource was never seen at its limit.
  bool at_least = false;
};

// The effect of a change.
struct WhatIf {
  enum class Kind {
    kThreads,        // more worker threads, on cores that are there
    kMoreCores,      // cores that are not there
    kFasterStorage,  // twice as fast
    kFewerBytes,     // the records' bytes alone are read
    kWithoutFile,    // the slow file is as fast as the others
    kLargerBudget,   // twice the memory budget
    kDropBatches,    // the consumer drops its batches before it takes another
    kUint8,          // batches of uint8 in place of float
    kLongerRing,     // twice the open batches
    kAlone,          // other processes leave the cores
    kFasterConsumer,
  };
  Kind kind = Kind::kThreads;
  std::string label;    // "+1 thread"
  std::string setting;  // "pipeline_threads: 2"; empty: no setting makes it
  double rate = 0;      // samples per second
  double gain = 0;      // rate / today's rate - 1, at least 0
  // True if more may come of it: what the change uncovers was never seen.
  bool at_least = false;
};

// The way of batches from a DeviceFeed to its device.
struct CopyUse {
  double bytes_per_second = 0;
  double issue_us = 0;       // the host's time for issuing the copies of a batch
  double wait_fraction = 0;  // of the time, in which the feed's Next waits for a copy
};

struct Diagnosis {
  // The stretch.
  double seconds = 0;
  double samples = 0;
  double rate = 0;
  double batches_per_second = 0;
  std::optional<double> pace;         // the consumer's, where it is known
  std::optional<double> utilisation;  // rate / pace, at most 1

  // The consumer's waits, as fractions of the time.
  double wait_fraction = 0;
  WaitTimes wait_ns{};                 // by cause; their sum is the time of all waits
  std::string verdict;                 // InputVerdict
  double consumer_ms = 0;              // of the consumer for a batch, between its calls
  std::optional<double> hand_over_us;  // of a call of Next that finds its batch ready
  std::optional<CopyUse> copies;       // nullopt: no feed copied anything

  // The work, by part: ops in their order, then items of the executor, then "not attributed".
  std::vector<WorkPart> parts;
  double measured_us = 0;  // processor time of the workers per sample: the sum of the parts
  double process_us = 0;   // of the whole process; 0: not known

  std::vector<ResourceUse> resources;  // the five, in the order of Limit
  std::vector<Limit> binding;          // one or two; empty: nothing was delivered
  // The samples per second that the pipeline could deliver to a consumer that takes no time.
  std::optional<double> ceiling;

  std::vector<WhatIf> what_ifs;
  std::optional<size_t> change;  // the one with the most effect; nullopt: none has a notable one

  // Facts for the sentence and the screen.
  int threads = 0;      // the most workers
  int threads_now = 0;  // those that the pipeline has settled on at the end
  double cores = 0;
  double pipeline_cores = 0;  // processors' time that the workers had
  double other_cores = 0;     // that other processes had of these cores
  double stolen_cores = 0;    // that the hypervisor gave to other machines
  double throttled = 0;       // fraction of the time in which a quota held threads back
  double switches = 0;        // context switches a second of threads that had to wait
  double preemptions = 0;     // the same of threads whose processor the system gave to others
  int ring = 0;
  std::optional<double> read_factor;  // bytes read / bytes of records
  double reads_under_way = 0;         // on average, while there were any
  double reads_in_flight = 0;         // on average over the whole time
  double read_ms = 0;                 // of a group of reads, on average
  double read_p50_ms = 0;
  double read_p99_ms = 0;
  std::optional<double> cached;        // part of the files' bytes that the page cache had
  bool latency = false;                // true if reads are small and wait for storage to answer
  double held_bytes = 0;               // of batches that the consumer has
  std::optional<FileReads> slow_file;  // a file whose reads take much longer than the others'
  double median_file_ms = 0;
  std::string unit;

  // "HIGHLY input-bound (waits 79.7 %): bound by CPU in decode_image (61 % of pipeline time; 1 of 2
  // cores is the pipeline's). pipeline_threads: 2 would give about 590 img/s (+84 %)."
  std::string sentence;
};

// Finds what limits the pipeline in a stretch of time, of which `profile` and `host` are the
// differences (Between, UseBetween).
Diagnosis Diagnose(const PipelineProfile& profile, const HostUse& host,
                   const DiagnosisOptions& options);

// Returns the bytes that a sample would not need if its float fields that are an affine change of
// uint8 values stayed uint8; 0 if there are none.
int64_t BytesSavedByUint8(const Plan& plan, const Schema& schema);

// Returns the diagnosis as a screen of 80 columns, behind a line with `title`.
std::vector<std::string> FormatDiagnosis(const std::string& title, const Diagnosis& diagnosis);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_DIAGNOSIS_H_
