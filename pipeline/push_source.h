#ifndef MILLRACE_PIPELINE_PUSH_SOURCE_H_
#define MILLRACE_PIPELINE_PUSH_SOURCE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace::pipeline {

class PushQueue;  // what host program and pipeline share; pipeline/source/growing.h

struct PushSourceOptions {
  // The stream's identity: its data fingerprint, and its "file" in messages.
  std::string name = "push";

  // performance only: results are the same for every value
  // Records that rows which are not delivered yet may need: their bytes and 64 B each. A record
  // that is larger is taken alone; what the oldest batch lacks is always taken.
  uint64_t max_bytes = uint64_t{64} << 20;
};

// A source of records that the host program feeds (stage `push {}`; handed over in OpenOptions).
// Records are numbered from 0 in the order in which they were pushed. Such a stream cannot be read
// again: it does not continue from a resume token, and is read by one pipeline, once. Letting go of
// the last handle before Finish ends the stream with an ABORTED error. Thread-safe.
class PushSource {
 public:
  static std::shared_ptr<PushSource> Make(PushSourceOptions options = {});
  ~PushSource();
  PushSource(const PushSource&) = delete;
  PushSource& operator=(const PushSource&) = delete;

  // Appends a copy of `record`; waits while the source is full. A pipeline that is cancelled or
  // dropped ends the wait.
  //   CANCELLED            the pipeline was closed: nobody will read it
  //   FAILED_PRECONDITION  Finish or Fail was called
  absl::Status Push(std::string_view record);
  // The same without waiting, and with a limit to it: false when the source stayed full.
  absl::StatusOr<bool> TryPush(std::string_view record);
  absl::StatusOr<bool> PushFor(std::string_view record, std::chrono::nanoseconds limit);

  // Says that no more records come: the stream ends behind the last one.
  void Finish();
  // Ends the stream with an error, which is delivered behind the last record. The first call of
  // Finish or Fail counts.
  void Fail(absl::Status status);

  const std::string& name() const;
  // Records pushed so far.
  uint64_t num_pushed() const;
  // Bytes of records that are kept now, as max_bytes counts them.
  uint64_t held_bytes() const;

 private:
  friend const std::shared_ptr<PushQueue>& QueueOf(const PushSource& source);
  explicit PushSource(std::shared_ptr<PushQueue> queue) : queue_(std::move(queue)) {}

  const std::shared_ptr<PushQueue> queue_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PUSH_SOURCE_H_
