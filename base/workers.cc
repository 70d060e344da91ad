#include "base/workers.h"

#include <pthread.h>
#include <sched.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <cstdint>
#include <utility>

#include "base/mutex.h"

// The library underneath is not instrumented, so ThreadSanitizer sees neither the hand-off of a
// task to a worker nor the join. These two calls tell it; elsewhere they are nothing. This file is
// not instrumented either, so the compiler does not say that the rest is: base/CMakeLists.txt does.
#ifdef MILLRACE_TSAN
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#else
static void __tsan_acquire(void*) {}
static void __tsan_release(void*) {}
#endif

namespace millrace {
namespace {

// One limit for every Workers of the process, over ContextOptions' largest number of threads: of
// several global_controls the smallest counts, so limits of their own would make two contexts share
// the threads of the smaller one. Threads are made on demand only.
constexpr size_t kMaxParallelism = 4097;

// The scheduling class in which the tasks of one Workers run. TBB's threads wander between arenas
// and keep the class they were given, so each task asks (0.45 us) and sets it where it differs. (An
// observer of the arena misses threads that leave while the arena is destroyed, and leaks.)
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

}  // namespace

struct Workers::Impl {
  Impl(int num_threads, bool batch_priority)
      : limit(tbb::global_control::max_allowed_parallelism, kMaxParallelism),
        arena(num_threads, /*reserved_for_masters=*/0),
        scheduling_class(batch_priority) {}

  tbb::global_control limit;
  tbb::task_arena arena;
  const SchedulingClass scheduling_class;
  Mutex mu;
  CondVar idle;
  int64_t pending MILLRACE_GUARDED_BY(mu) = 0;  // tasks that have not finished
};

Workers::Workers(int num_threads, bool batch_priority)
    : num_threads_(num_threads), impl_(std::make_unique<Impl>(num_threads, batch_priority)) {
  impl_->arena.initialize();
}

Workers::~Workers() {
  {
    MutexLock lock(impl_->mu);
    while (impl_->pending != 0) impl_->idle.Wait(impl_->mu);
  }
  __tsan_acquire(impl_.get());
}

void Workers::Enqueue(std::function<void()> task) {
  Impl* impl = impl_.get();
  {
    MutexLock lock(impl->mu);
    ++impl->pending;
  }
  auto* held = new std::function<void()>(std::move(task));
  __tsan_release(held);
  impl->arena.enqueue([impl, held] {
    __tsan_acquire(held);
    impl->scheduling_class.Enter();
    (*held)();
    delete held;
    __tsan_release(impl);
    MutexLock lock(impl->mu);
    if (--impl->pending == 0) impl->idle.NotifyAll();
  });
}

}  // namespace millrace
