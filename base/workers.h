#ifndef MILLRACE_BASE_WORKERS_H_
#define MILLRACE_BASE_WORKERS_H_

#include <functional>
#include <memory>

namespace millrace {

// The worker threads of one Context: a TBB arena, the only place where TBB is named.
// Thread-safe. Tasks must not block on other tasks.
class Workers {
 public:
  // `num_threads` >= 1 threads take tasks; with `batch_priority` they run as SCHED_BATCH, so that
  // they yield to a compute thread of equal priority (a busy equal halves a static OpenMP loop).
  Workers(int num_threads, bool batch_priority);
  ~Workers();  // waits until every task has run
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int num_threads() const { return num_threads_; }
  // Runs `task` once, on some worker, some time after this call. What happened before the call is
  // visible to the task. The task must not throw.
  void Enqueue(std::function<void()> task);

 private:
  struct Impl;
  const int num_threads_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_WORKERS_H_
