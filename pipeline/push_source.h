#ifndef MILLRACE_PIPELINE_PUSH_SOURCE_H_
#define MILLRACE_PIPELINE_PUSH_SOURCE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace::pipeline {

class PushQueue;  // shared by the host program and the pipeline; pipeline/source/growing.h

struct PushSourceOptions {
  // The identity of the stream: its data fingerprint is made from it, and messages name it as the
  // file.
  std::string name = "push";

  // performance only: results are the same for every value
  // The most bytes of records that batches not yet delivered may need; a record counts with 64
  // bytes more than it has. A larger record is taken when there is no other; records that the
  // oldest batch lacks are always taken.
  uint64_t max_bytes = uint64_t{64} << 20;
};

// A source of records that the host program feeds, for a plan that begins with push {}
// (OpenOptions::push). Records are numbered from 0 in the order of the calls. One pipeline can read
// such a stream, once: it does not continue from a resume token. If the last handle is dropped
// before Finish, the stream ends with an ABORTED error. Thread-safe.
class PushSource {
 public:
  static std::shared_ptr<PushSource> Make(PushSourceOptions options = {});
  ~PushSource();
  PushSource(const PushSource&) = delete;
  PushSource& operator=(const PushSource&) = delete;

  // Appends a copy of `record`; waits while the source is full. A pipeline that is cancelled or
  // dropped ends the wait.
  //   CANCELLED            the pipeline was closed, so that nothing will read the record
  //   FAILED_PRECONDITION  Finish or Fail was called
  absl::Status Push(std::string_view record);
  // The same as Push, without waiting and with a limit to the waiting. Return false if the source
  // stayed full.
  absl::StatusOr<bool> TryPush(std::string_view record);
  absl::StatusOr<bool> PushFor(std::string_view record, std::chrono::nanoseconds limit);

  // The same without a copy: `record` is read where it lies. Its bytes must not change, and `owner`
  // must keep them, until it is let go: when the last row that is made of the record was delivered
  // or dropped, the pipeline or the source ended, or, before the call returns, where the record was
  // not taken. That may be in any thread, but under no lock of Millrace; the end of `owner` must
  // not call the source or its pipeline.
  absl::Status Push(std::string_view record, std::shared_ptr<const void> owner);
  absl::StatusOr<bool> TryPush(std::string_view record, std::shared_ptr<const void> owner);
  absl::StatusOr<bool> PushFor(std::string_view record, std::shared_ptr<const void> owner,
                               std::chrono::nanoseconds limit);

  // For programs that must not wait: calls `call` once, in any thread but under no lock of
  // Millrace, when a record may be taken that was refused for want of room, and when the stream
  // ends. Room that was made before does not count, so try again behind this call. `call` must
  // neither throw nor call the source or its pipeline.
  void OnRoom(std::function<void()> call);

  // Ends the stream behind the last record.
  void Finish();
  // Ends the stream with an error, which is delivered behind the last record. Only the first call
  // of Finish or Fail has an effect.
  void Fail(absl::Status status);

  const std::string& name() const;
  // The number of records pushed so far.
  uint64_t num_pushed() const;
  // The bytes of records that are kept now, counted as for max_bytes.
  uint64_t held_bytes() const;

 private:
  friend const std::shared_ptr<PushQueue>& QueueOf(const PushSource& source);
  explicit PushSource(std::shared_ptr<PushQueue> queue) : queue_(std::move(queue)) {}

  const std::shared_ptr<PushQueue> queue_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PUSH_SOURCE_H_
