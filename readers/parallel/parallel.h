#ifndef MILLRACE_READERS_PARALLEL_PARALLEL_H_
#define MILLRACE_READERS_PARALLEL_PARALLEL_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"

// Parallel loops over oneTBB. Only parallel.cc includes TBB: its headers take a second to compile,
// and ThreadSanitizer, which cannot see into the library, is told there what happens before what.

namespace millrace::readers {

// Calls body(index, slot) for each index below `count`, on at most `threads` threads, the calling
// one among them. Indexes are begun in order; after one has failed no further one is begun.
// `slot`, below `threads`, is never used by two calls at once: callers keep one workspace for each.
// Blocks until all calls have ended. Runs everything on the calling thread if `threads` is 1 or the
// system cannot start a thread. `body` may block on files: each loop has an arena of its own with
// as many threads as it asks for, however many cores there are. Returns the error of the lowest
// index that failed.
absl::Status ParallelFor(size_t count, int threads,
                         const std::function<absl::Status(size_t index, size_t slot)>& body);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_PARALLEL_PARALLEL_H_
