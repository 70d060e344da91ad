#include "base/workers.h"

#include <pthread.h>
#include <sched.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <time.h>  // NOLINT: clock_gettime is POSIX

#include <cstdint>
#include <utility>

#include "base/fair_queue_internal.h"
#include "base/mutex.h"

// TBB supplies the threads and nothing else: a thread that it brings here takes tasks until none is
// left, so that a task costs 100 ns and not the 500 to 1,100 of one of TBB's. Which task is next,
// FairQueue says. Tasks change hands under the mutex, by which ThreadSanitizer sees it, though this
// file and the library are not instrumented (base/CMakeLists.txt).

namespace millrace {
namespace {

// One limit for every Workers of the process, over ContextOptions' largest number of threads: of
// several global_controls the smallest counts, so limits of their own would make two contexts share
// the threads of the smaller one. Threads are made on demand only.
constexpr size_t kMaxParallelism = 4097;

// How much time a group may catch up on, per worker: some tasks of the usual length.
constexpr int64_t kCreditNanoseconds = 10'000'000;

// The scheduling class in which the tasks of one Workers run. TBB's threads wander between arenas
// and keep the class they were given, so each asks when it begins to serve (0.45 us) and sets it
// where it differs. (An observer of the arena misses threads that leave while the arena is
// destroyed, and leaks.)
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
  void Enter() const {
    if ((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == policy_) return;
    pthread_setschedparam(pthread_self(), policy_, &parameter_);
  }

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

}  // namespace

struct Workers::Impl {
  Impl(int num_threads, bool batch_priority)
      : limit(tbb::global_control::max_allowed_parallelism, kMaxParallelism),
        arena(num_threads, /*reserved_for_masters=*/0),
        scheduling_class(batch_priority),
        common(MakeGroup()),
        queue(num_threads * kCreditNanoseconds) {}

  void Serve() MILLRACE_EXCLUDES(mu);
  bool TakeFirst(FairQueue::Turn& turn) MILLRACE_EXCLUDES(mu);
  bool TakeNext(FairQueue::Turn& turn) MILLRACE_EXCLUDES(mu);
  bool TakeLocked(FairQueue::Turn& turn) MILLRACE_REQUIRES(mu);

  tbb::global_control limit;
  tbb::task_arena arena;
  const SchedulingClass scheduling_class;
  const std::shared_ptr<TaskGroup> common;  // of tasks without a group
  Mutex mu;
  CondVar idle;  // the destructor waits for serving == 0
  FairQueue queue MILLRACE_GUARDED_BY(mu);
  int serving MILLRACE_GUARDED_BY(mu) = 0;  // threads in Serve, or called there
  int called MILLRACE_GUARDED_BY(mu) = 0;   // of them, those that have not come yet
};

// A thread comes and runs tasks until none is left.
void Workers::Impl::Serve() {
  FairQueue::Turn turn;
  if (!TakeFirst(turn)) return;
  scheduling_class.Enter();
  do {
    const int64_t begin_ns = turn.counts ? ProcessorTime() : 0;
    turn.task();
    turn.task = nullptr;  // with what it holds, and not under the mutex
    if (turn.counts) turn.spent_ns = ProcessorTime() - begin_ns;
  } while (TakeNext(turn));
}

bool Workers::Impl::TakeFirst(FairQueue::Turn& turn) {
  MutexLock lock(mu);
  --called;
  return TakeLocked(turn);
}

bool Workers::Impl::TakeNext(FairQueue::Turn& turn) {
  MutexLock lock(mu);
  queue.End(turn);
  return TakeLocked(turn);
}

// False: there is none, and the thread leaves.
bool Workers::Impl::TakeLocked(FairQueue::Turn& turn) {
  if (queue.size() == 0) {
    if (--serving == 0) idle.NotifyAll();
    return false;
  }
  turn = queue.Take();
  return true;
}

Workers::Workers(int num_threads, bool batch_priority)
    : num_threads_(num_threads), impl_(std::make_unique<Impl>(num_threads, batch_priority)) {
  impl_->arena.initialize();
}

Workers::~Workers() {
  MutexLock lock(impl_->mu);
  while (impl_->serving != 0) impl_->idle.Wait(impl_->mu);
}

std::shared_ptr<TaskGroup> Workers::MakeGroup() { return std::make_shared<TaskGroup>(); }

// Threads are called until as many are on their way as tasks are queued, or all serve. So no task
// is left: a thread leaves only when none is queued.
void Workers::Enqueue(const std::shared_ptr<TaskGroup>& group, std::function<void()> task) {
  Impl* const impl = impl_.get();
  {
    MutexLock lock(impl->mu);
    impl->queue.Add(group, std::move(task));
    if (impl->serving == num_threads_ || impl->called >= impl->queue.size()) return;
    ++impl->serving;
    ++impl->called;
  }
  impl->arena.enqueue([impl] { impl->Serve(); });
}

void Workers::Enqueue(std::function<void()> task) { Enqueue(impl_->common, std::move(task)); }

}  // namespace millrace
