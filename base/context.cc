#include "base/context.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <system_error>
#include <utility>

#include "base/host.h"

namespace millrace {
namespace {

// getpid is a system call, which Next would make for every batch (0.2 us). Written in a forked
// child only, before it has threads; read relaxed: it is the same for all that a process ever
// reads.
std::atomic<pid_t> this_process{0};

pid_t ThisProcess() {
  static const bool kept = [] {
    this_process.store(getpid(), std::memory_order_relaxed);
    return pthread_atfork(nullptr, nullptr,
                          [] { this_process.store(getpid(), std::memory_order_relaxed); }) == 0;
  }();
  return kept ? this_process.load(std::memory_order_relaxed) : getpid();
}

}  // namespace

absl::Status ContextOptions::Validate() const {
  if (threads < 0 || threads > 4096) {
    return absl::InvalidArgumentError("ContextOptions.threads must be in [0, 4096]");
  }
  if (memory_budget_bytes < 0) {
    return absl::InvalidArgumentError("ContextOptions.memory_budget_bytes must not be negative");
  }
  if (io_threads < 0 || io_threads > 1024) {
    return absl::InvalidArgumentError("ContextOptions.io_threads must be in [0, 1024]");
  }
  if (read_deadline.count() < 0) {
    return absl::InvalidArgumentError("ContextOptions.read_deadline must not be negative");
  }
  if (static_cast<bool>(batch_memory.alloc) != static_cast<bool>(batch_memory.free)) {
    return absl::InvalidArgumentError(
        "ContextOptions.batch_memory needs both alloc and free, or neither");
  }
  if (io == nullptr) return absl::InvalidArgumentError("ContextOptions.io must be set");
  return absl::OkStatus();
}

Context::Context(ContextOptions options, ThreadClock clock)
    : pid_(ThisProcess()),
      log_(std::move(options.log)),
      batch_memory_(std::move(options.batch_memory)),
      metrics_(options.metrics ? std::move(options.metrics) : std::make_shared<Metrics>()),
      memory_budget_(std::make_shared<MemoryBudget>(options.memory_budget_bytes, metrics_)),
      io_(std::move(options.io)),
      workers_(std::make_unique<Workers>(options.threads, options.batch_priority, clock)) {}

absl::StatusOr<std::shared_ptr<Context>> Context::Make(ContextOptions options, ThreadClock clock) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  if (options.threads == 0) options.threads = ReadCores().usable;
  if (options.memory_budget_bytes == 0) options.memory_budget_bytes = kDefaultMemoryBudget;
  try {
    return std::shared_ptr<Context>(new Context(std::move(options), clock));
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("the system has no thread to give for working");
  }
}

// The threads are not in a forked child: a wait for them would hang there.
Context::~Context() {
  if (CheckNotForked().ok()) return;
  static_cast<void>(workers_.release());
  static_cast<void>(new std::shared_ptr<IoEngine>(std::move(io_)));
}

void Context::Log(LogLevel level, std::string_view message) const {
  if (log_) log_(level, message);
}

absl::Status Context::CheckNotForked() const {
  if (ThisProcess() == pid_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this process was forked after the context was made; make a new context in the child");
}

}  // namespace millrace
