#ifndef MILLRACE_READERS_READ_ENGINE_H_
#define MILLRACE_READERS_READ_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/io.h"

namespace millrace::readers {

// A read that exceeded the deadline.
struct OverdueRead {
  std::string path;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::chrono::milliseconds so_far{0};
  bool over = false;  // true if it has finished since
};

// How reads that hang are reported. They are not cancelled: their buffers may still be written to.
struct ReadWatchOptions {
  std::chrono::milliseconds deadline{30'000};  // 0: reads may take any time
  // Called on a thread of the engine, once when a read is overdue and once when such a read ends,
  // with success or not. May be empty.
  std::function<void(const OverdueRead&)> report;
};

// Makes the pread pool of `threads` (at least 1) I/O threads. One thread reads the requests of a
// group one after the other: submit several groups to read in parallel. The last owner must not
// release the pool inside a `done`. The pool has fewer threads if the system cannot start as many.
//   RESOURCE_EXHAUSTED  the system cannot start a single thread
absl::StatusOr<std::shared_ptr<IoEngine>> MakePreadEngine(int threads, ReadWatchOptions watch = {});

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_READ_ENGINE_H_
