#include "base/workers.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>  // NOLINT: clock_gettime is POSIX

#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/fair_queue_internal.h"
#include "base/mutex.h"

// Threads that take tasks, and sleep at once when there is none. Which task is next, FairQueue says.
// A library's pool looks for more work before it sleeps, TBB's for about 100 us of processor time:
// as long as a ring of cheap batches takes to fill, each time that it is full.

namespace millrace {
namespace {

// How much time a group may catch up on, per worker: some tasks of the usual length.
constexpr int64_t kCreditNanoseconds = 10'000'000;

// The scheduling class in which the tasks of one Workers run. Threads are started by whoever brings
// a task, and would have that one's.
class SchedulingClass {
 public:
  // SCHED_BATCH, or the class of the calling thread.
  explicit SchedulingClass(bool batch_priority) {
    if (batch_priority) {
      policy_ = SCHED_BATCH;
    } else if (pthread_getschedparam(pthread_self(), &policy_, &parameter_) != 0) {
      policy_ = SCHED_OTHER;
    }
  }
  // A refusal (seccomp) leaves the thread as it is, which is only slower.
  void Enter() const { pthread_setschedparam(pthread_self(), policy_, &parameter_); }

 private:
  int policy_ = SCHED_OTHER;
  sched_param parameter_{};
};

// Of the calling thread; this clock cannot fail. It stands still while another process has the
// core, so that shares are right on a busy machine too.
int64_t ProcessorTime() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

void Run(FairQueue::Turn& turn) {
  const int64_t begin_ns = turn.counts ? ProcessorTime() : 0;
  turn.task();
  turn.task = nullptr;  // with what it holds, and not under the mutex
  if (turn.counts) turn.spent_ns = ProcessorTime() - begin_ns;
}

}  // namespace

struct Workers::Impl {
  Impl(int num_threads, bool batch_priority)
      : max_threads(static_cast<size_t>(num_threads)),
        scheduling_class(batch_priority),
        common(MakeGroup()),
        queue(num_threads * kCreditNanoseconds) {}

  void StartThreadLocked() MILLRACE_REQUIRES(mu);
  void ArriveLocked() MILLRACE_REQUIRES(mu);
  void Serve() MILLRACE_EXCLUDES(mu);
  bool TakeLocked(FairQueue::Turn& turn) MILLRACE_REQUIRES(mu);
  bool CallLocked() MILLRACE_REQUIRES(mu);

  const size_t max_threads;
  const SchedulingClass scheduling_class;
  const std::shared_ptr<TaskGroup> common;  // of tasks without a group
  Mutex mu;
  CondVar work;  // threads wait for a task, or for the end
  FairQueue queue MILLRACE_GUARDED_BY(mu);
  std::vector<std::jthread> threads MILLRACE_GUARDED_BY(mu);
  int64_t waiting MILLRACE_GUARDED_BY(mu) = 0;
  int64_t called MILLRACE_GUARDED_BY(mu) = 0;  // started or woken, and have not come yet
  bool ending MILLRACE_GUARDED_BY(mu) = false;
};

void Workers::Impl::StartThreadLocked() {
  threads.emplace_back([this] { Serve(); });
  ++called;
}

void Workers::Impl::Serve() {
  pthread_setname_np(pthread_self(), "millrace-worker");
  scheduling_class.Enter();
  FairQueue::Turn turn;
  {
    MutexLock lock(mu);
    ArriveLocked();
    if (!TakeLocked(turn)) return;
  }
  while (true) {
    Run(turn);
    MutexLock lock(mu);
    queue.End(turn);
    if (!TakeLocked(turn)) return;
  }
}

// Perhaps without having been called, and then in the place of another, who comes besides.
void Workers::Impl::ArriveLocked() {
  if (called > 0) --called;
}

// Waits for a task; false at the end.
bool Workers::Impl::TakeLocked(FairQueue::Turn& turn) {
  while (queue.size() == 0) {
    if (ending) return false;
    ++waiting;
    work.Wait(mu);
    --waiting;
    ArriveLocked();
  }
  turn = queue.Take();
  return true;
}

// Sees to it that threads come until as many are on their way as tasks are queued, or none is left:
// then one that is busy takes the task next. True: a waiting one is to be woken.
bool Workers::Impl::CallLocked() {
  if (called >= queue.size()) return false;
  if (waiting > called) {
    ++called;
    return true;
  }
  if (threads.size() == max_threads || ending) return false;
  try {
    StartThreadLocked();
  } catch (const std::system_error&) {  // fewer threads do the same more slowly
  }
  return false;
}

Workers::Workers(int num_threads, bool batch_priority)
    : num_threads_(num_threads), impl_(std::make_unique<Impl>(num_threads, batch_priority)) {
  MutexLock lock(impl_->mu);
  impl_->threads.reserve(impl_->max_threads);
  impl_->StartThreadLocked();
}

Workers::~Workers() {
  std::vector<std::jthread> threads;
  {
    MutexLock lock(impl_->mu);
    impl_->ending = true;
    threads = std::move(impl_->threads);
  }
  impl_->work.NotifyAll();
  for (std::jthread& thread : threads) thread.join();
}

std::shared_ptr<TaskGroup> Workers::MakeGroup() { return std::make_shared<TaskGroup>(); }

void Workers::Enqueue(const std::shared_ptr<TaskGroup>& group, std::function<void()> task) {
  bool wake = false;
  {
    MutexLock lock(impl_->mu);
    impl_->queue.Add(group, std::move(task));
    wake = impl_->CallLocked();
  }
  if (wake) impl_->work.NotifyOne();
}

void Workers::Enqueue(std::function<void()> task) { Enqueue(impl_->common, std::move(task)); }

}  // namespace millrace
