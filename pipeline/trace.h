#ifndef MILLRACE_PIPELINE_TRACE_H_
#define MILLRACE_PIPELINE_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/chrome_trace.h"

// A record of what a pipeline did for some time (Pipeline::StartTrace, TakeTrace): which worker did
// what, which reads were under way, when batches were delivered, and what the consumer waited for.

namespace millrace::pipeline {

struct TraceEvent {
  enum class Kind : uint8_t {
    kItem,   // of a worker
    kRead,   // a group of reads
    kWait,   // of the consumer, for one cause
    kBatch,  // delivered: an instant
    kReady,  // the number of ready batches is another one: an instant
  };

  int64_t begin_ns = 0;  // of the steady clock
  int64_t end_ns = 0;
  int64_t number = 0;  // the bytes of reads; the number of the batch, or of ready batches
  int32_t of = 0;      // the worker of an item; the file of the first read
  Kind kind = Kind::kItem;
  uint8_t what = 0;  // an item's ItemKind; a wait's WaitCause
};

struct PipelineTrace {
  std::vector<TraceEvent> events;  // in the order in which they ended
  uint64_t dropped = 0;            // events behind these for which there was no room
  std::vector<std::string> files;  // of the source
};

// The most events of a trace, where nobody says another number; they take 8 MiB.
inline constexpr size_t kMostTraceEvents = 256 << 10;

// Adds the events as lines of `process`: one for the consumer, one for each worker, and as many for
// reads as were under way at once. `offset_ns` is added to the times.
void AddTrace(const PipelineTrace& trace, int process, int64_t offset_ns, ChromeEvents& events);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_TRACE_H_
