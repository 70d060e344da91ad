#ifndef MILLRACE_PIPELINE_SOURCE_GROWING_H_
#define MILLRACE_PIPELINE_SOURCE_GROWING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/push_source.h"
#include "pipeline/source/released.h"
#include "readers/record_source.h"

namespace millrace::pipeline {

// A source whose records come while it is read. num_records() is what there is now; a record is
// read like that of any other source until it is released. Locate of a released record knows its
// number alone. Thread-safe. The destructor closes it.
class GrowingSource : public readers::RecordSource {
 public:
  // Records there are so far: numbers [0, available()). Never shrinks.
  virtual uint64_t available() const = 0;
  // True if no more come; a reader that asks this first gets the final available() afterwards.
  virtual bool ended() const = 0;
  // Why it ended: OK for Finish. The records before the end are good.
  virtual absl::Status status() const = 0;

  // `on_grow` is called after records were added and at the end, on the thread that did it, outside
  // all locks of the source; it must not call SetOnGrow. Replacing it (by {}, say) waits until no
  // call of the old one is under way: do not hold a lock that it takes.
  virtual void SetOnGrow(std::function<void()> on_grow) = 0;

  // Says that the reader cannot go on without records [0, before): they are taken even when the
  // source is full. Without it a batch whose records are larger than the source's max_bytes would
  // never be complete, since records are kept until they are released.
  virtual void Want(uint64_t before) = 0;
  // Frees records that no batch needs any more, in any order. A record with several uses is freed
  // with the last of them; each is named for itself.
  virtual void Release(std::span<const uint64_t> records) = 0;
  // Says how often Release will name a record; once, unless this says otherwise. Without any use it
  // is freed at once. Before its first Release.
  virtual void SetUses(uint64_t record, uint64_t uses) = 0;
  // Returns the owners of records that were freed. The destructor waits until they have ended.
  virtual ReleasedRecords TakeReleased() = 0;
  // Tells the threads that feed it to stop. Does not wait.
  virtual void Close() = 0;
};

// The pipeline's side of a push source.
//   FAILED_PRECONDITION  a pipeline has it already
absl::StatusOr<std::unique_ptr<GrowingSource>> OpenPushSource(const PushSource& source);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_SOURCE_GROWING_H_
