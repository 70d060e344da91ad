#ifndef MILLRACE_READERS_PARALLEL_PARALLEL_H_
#define MILLRACE_READERS_PARALLEL_PARALLEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"

// Parallel loops over oneTBB. Only parallel.cc includes TBB: its headers take a second to compile,
// and ThreadSanitizer, which cannot see into the library, is told there what happens before what.
//
// Both functions block until all that they began has ended, and run everything on the calling
// thread if `threads` is 1 or the system cannot start a thread. Work may block on files: each call
// has an arena of its own with as many threads as it asks for, however many cores there are.

namespace millrace::readers {

// Calls body(index, slot) for each index below `count`, on at most `threads` threads, the calling
// one among them. Indexes are begun in order; after one has failed no further one is begun.
// `slot`, below `threads`, is never used by two calls at once: callers keep one workspace for each.
// Returns the error of the lowest index that failed.
absl::Status ParallelFor(size_t count, int threads,
                         const std::function<absl::Status(size_t index, size_t slot)>& body);

// The three steps of each item of a pipeline.
struct OrderedSteps {
  std::function<void(uint64_t item)> begin;  // in order, one call at a time
  std::function<void(uint64_t item)> work;   // on any thread
  // In order, one call at a time. False ends the pipeline: no further item is begun, and those
  // under way are not ended.
  std::function<bool(uint64_t item)> end;
};

// Takes the items below `count` through the steps on at most `threads` threads. At most
// `max_under_way` are begun and not yet ended; these follow each other.
//   RESOURCE_EXHAUSTED  the system ran out of threads halfway
absl::Status OrderedPipeline(uint64_t count, size_t max_under_way, int threads,
                             const OrderedSteps& steps);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_PARALLEL_PARALLEL_H_
