#ifndef MILLRACE_PIPELINE_PROFILE_TRACE_BUFFER_H_
#define MILLRACE_PIPELINE_PROFILE_TRACE_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "pipeline/profile.h"
#include "pipeline/trace.h"

namespace millrace::pipeline {

// The events of a trace under way, up to a number. Thread-compatible; the executor's mutex guards
// it.
class TraceBuffer {
 public:
  explicit TraceBuffer(size_t max_events) : max_events_(max_events) {
    trace_.events.reserve(max_events);
  }

  // An item of the calling thread.
  void AddItem(ItemKind kind, int64_t begin_ns, int64_t end_ns);
  void AddRead(uint32_t shard, int64_t bytes, int64_t begin_ns, int64_t end_ns);
  void AddWait(WaitCause cause, int64_t begin_ns, int64_t end_ns);
  void AddBatch(int64_t number, int64_t now_ns);
  void SetReady(int64_t batches, int64_t now_ns);

  // The trace so far; the buffer is empty then.
  PipelineTrace Take() { return std::move(trace_); }

 private:
  void Add(const TraceEvent& event);
  // The number of the calling thread among those that were met.
  int32_t Worker();

  const size_t max_events_;
  PipelineTrace trace_;
  std::vector<std::thread::id> workers_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PROFILE_TRACE_BUFFER_H_
