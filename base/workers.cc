#include "base/workers.h"

#include <pthread.h>
#include <sched.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

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

// Sets the scheduling class of each thread that enters the arena, and resets it as it leaves. TBB's
// threads wander between arenas and may leave one unobserved while it is destroyed, so an arena
// without batch priority says what it wants too.
class SchedulingClass : public tbb::task_scheduler_observer {
 public:
  SchedulingClass(tbb::task_arena& arena, bool batch_priority)
      : tbb::task_scheduler_observer(arena), batch_priority_(batch_priority) {
    if (pthread_getschedparam(pthread_self(), &callers_policy_, &callers_parameter_) != 0) {
      callers_policy_ = SCHED_OTHER;
    }
    observe(true);
  }
  ~SchedulingClass() override { observe(false); }
  void on_scheduler_entry(bool) override {
    const sched_param batch{};
    // A refusal (seccomp) leaves the class as it is, which is only slower.
    pthread_setschedparam(pthread_self(), batch_priority_ ? SCHED_BATCH : callers_policy_,
                          batch_priority_ ? &batch : &callers_parameter_);
  }
  void on_scheduler_exit(bool) override {
    pthread_setschedparam(pthread_self(), callers_policy_, &callers_parameter_);
  }

 private:
  const bool batch_priority_;
  int callers_policy_ = SCHED_OTHER;
  sched_param callers_parameter_{};
};

}  // namespace

struct Workers::Impl {
  Impl(int num_threads, bool batch_priority)
      : limit(tbb::global_control::max_allowed_parallelism, kMaxParallelism),
        arena(num_threads, /*reserved_for_masters=*/0),
        scheduling_class(arena, batch_priority) {}

  tbb::global_control limit;
  tbb::task_arena arena;
  SchedulingClass scheduling_class;
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
    (*held)();
    delete held;
    __tsan_release(impl);
    MutexLock lock(impl->mu);
    if (--impl->pending == 0) impl->idle.NotifyAll();
  });
}

}  // namespace millrace
