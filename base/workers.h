#ifndef MILLRACE_BASE_WORKERS_H_
#define MILLRACE_BASE_WORKERS_H_

#include <cstdint>
#include <functional>
#include <memory>

namespace millrace {

// Tasks that share the workers as one: a group gets as much processor time as any other group that
// always has tasks, for any number and length of tasks (base/work/fair_queue.h). Opaque.
class TaskGroup;

// Returns the processor time that the calling thread has used, in nanoseconds.
using ThreadClock = int64_t (*)();
int64_t ThreadProcessorTime();

// Threads that run tasks, of a Context or an I/O engine. Threads are started when tasks need them.
// Thread-safe. Tasks must not block on other tasks.
class Workers {
 public:
  // `num_threads` >= 1 threads take tasks; with `batch_priority` they run as SCHED_BATCH, so that
  // they yield to a compute thread of equal priority (a busy equal halves a static OpenMP loop).
  // If the system gives fewer threads, those do the work. Shares are counted by `clock`; tests pass
  // one of their own.
  //   throws std::system_error  the system gives no thread
  Workers(int num_threads, bool batch_priority, ThreadClock clock = ThreadProcessorTime);
  ~Workers();  // waits until every task has run
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int num_threads() const { return num_threads_; }
  // Makes a group for tasks of one set of workers; it may outlive them.
  static std::shared_ptr<TaskGroup> MakeGroup();
  // Runs `task` once, on some worker, some time after this call; tasks of a group begin in the
  // order of the calls. The task sees all that happened before the call. It must not throw.
  //   throws std::bad_alloc  the task does not run
  void Enqueue(const std::shared_ptr<TaskGroup>& group, std::function<void()> task);
  // The same in one group for all such calls.
  void Enqueue(std::function<void()> task);

 private:
  struct Impl;
  const int num_threads_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_WORKERS_H_
