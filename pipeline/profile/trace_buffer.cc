#include "pipeline/profile/trace_buffer.h"

#include <algorithm>

namespace millrace::pipeline {

void TraceBuffer::Add(const TraceEvent& event) {
  if (trace_.events.size() < max_events_) {
    trace_.events.push_back(event);
  } else {
    ++trace_.dropped;
  }
}

int32_t TraceBuffer::Worker() {
  const std::thread::id self = std::this_thread::get_id();
  const auto found = std::ranges::find(workers_, self);
  const auto number = static_cast<int32_t>(found - workers_.begin());
  if (found == workers_.end()) workers_.push_back(self);
  return number;
}

void TraceBuffer::AddItem(ItemKind kind, int64_t begin_ns, int64_t end_ns) {
  Add({.begin_ns = begin_ns,
       .end_ns = end_ns,
       .of = Worker(),
       .kind = TraceEvent::Kind::kItem,
       .what = static_cast<uint8_t>(kind)});
}

void TraceBuffer::AddRead(uint32_t shard, int64_t bytes, int64_t begin_ns, int64_t end_ns) {
  Add({.begin_ns = begin_ns,
       .end_ns = end_ns,
       .number = bytes,
       .of = static_cast<int32_t>(shard),
       .kind = TraceEvent::Kind::kRead});
}

void TraceBuffer::AddWait(WaitCause cause, int64_t begin_ns, int64_t end_ns) {
  if (begin_ns == end_ns) return;
  Add({.begin_ns = begin_ns,
       .end_ns = end_ns,
       .kind = TraceEvent::Kind::kWait,
       .what = static_cast<uint8_t>(cause)});
}

void TraceBuffer::AddBatch(int64_t number, int64_t now_ns) {
  Add({.begin_ns = now_ns, .end_ns = now_ns, .number = number, .kind = TraceEvent::Kind::kBatch});
}

void TraceBuffer::SetReady(int64_t batches, int64_t now_ns) {
  Add({.begin_ns = now_ns, .end_ns = now_ns, .number = batches, .kind = TraceEvent::Kind::kReady});
}

}  // namespace millrace::pipeline
