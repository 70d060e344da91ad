#ifndef MILLRACE_BASE_CONTEXT_H_
#define MILLRACE_BASE_CONTEXT_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io.h"
#include "base/memory_budget.h"
#include "base/metrics.h"
#include "base/workers.h"

namespace millrace {

enum class LogLevel { kInfo, kWarning, kError };
using LogSink = std::function<void(LogLevel, std::string_view message)>;

// The memory of the program in which batches lie, such as shared or page-locked memory. Both
// functions, or neither, are set. They are called by any threads, by several at once, also behind
// the end of the context, as long as there are batches; they must not call Millrace.
struct BatchMemory {
  // Returns `bytes` > 0 bytes, aligned to `alignment`, a power of two. Null: there is no memory,
  // and the stream ends with RESOURCE_EXHAUSTED.
  std::function<void*(size_t bytes, size_t alignment)> alloc;
  // Gives back what `alloc` returned for `bytes`; called once for each.
  std::function<void(void* memory, size_t bytes)> free;
};

inline constexpr int64_t kDefaultMemoryBudget = int64_t{2} << 30;

// Options for performance only: results are the same for every value (but for `log` and `io`).
struct ContextOptions {
  int threads = 0;  // pipeline workers; 0: the cores this process may use
  // True if the workers run as SCHED_BATCH, below an equal compute thread.
  bool batch_priority = false;
  // Of all pipelines (docs/executor.md, Buffers); 0: kDefaultMemoryBudget.
  int64_t memory_budget_bytes = 0;
  // Unset: the system's memory, or what a pipeline's pinned_for says, which this comes before.
  BatchMemory batch_memory = {};
  std::shared_ptr<IoEngine> io;  // required here; pipeline::MakeContext fills it in
  // Threads of the engine that MakeContext makes; 0: two for each worker, from 4 to 64.
  int io_threads = 0;
  // The time after which that engine logs and counts a read that is under way; 0: never.
  std::chrono::milliseconds read_deadline{30'000};
  std::shared_ptr<Metrics> metrics;  // shared with others; null: its own
  LogSink log;                       // empty: messages are dropped

  absl::Status Validate() const;
};

// Everything that pipelines share: worker threads, I/O, metrics, log, memory budget; no other
// shared state in the libraries. Thread-safe. It must outlive its pipelines (they hold it).
class Context {
 public:
  // Its workers count shares by `clock`.
  //   INVALID_ARGUMENT    options out of range
  //   RESOURCE_EXHAUSTED  the system gives no thread
  static absl::StatusOr<std::shared_ptr<Context>> Make(ContextOptions options,
                                                       ThreadClock clock = ThreadProcessorTime);
  // Waits for tasks, and for the I/O threads if the engine has no other owner. In a forked child it
  // waits for nothing, and leaks both.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Workers& workers() { return *workers_; }
  IoEngine& io() { return *io_; }
  Metrics& metrics() { return *metrics_; }
  const std::shared_ptr<MemoryBudget>& memory_budget() const { return memory_budget_; }
  const BatchMemory& batch_memory() const { return batch_memory_; }
  int64_t memory_budget_bytes() const { return memory_budget_->limit_bytes(); }
  void Log(LogLevel level, std::string_view message) const;

  // FAILED_PRECONDITION in a process that was forked from the one which made this context.
  absl::Status CheckNotForked() const;

 private:
  Context(ContextOptions options, ThreadClock clock);

  // Constant after construction.
  const pid_t pid_;
  const LogSink log_;
  const BatchMemory batch_memory_;
  // These synchronise themselves. They are destroyed in reverse: workers join before the I/O
  // threads do. Batches share the budget, and the budget shares the metrics: both may outlive the
  // context.
  const std::shared_ptr<Metrics> metrics_;
  const std::shared_ptr<MemoryBudget> memory_budget_;
  std::shared_ptr<IoEngine> io_;
  std::unique_ptr<Workers> workers_;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_CONTEXT_H_
