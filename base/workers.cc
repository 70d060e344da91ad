#include "base/workers.h"

#include <pthread.h>
#include <sched.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <cstdint>
#include <utility>

#include "base/mutex.h"

#if defined(__SANITIZE_THREAD__)
#define MILLRACE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MILLRACE_TSAN 1
#endif
#endif

// The library underneath is not instrumented, so ThreadSanitizer sees neither the hand-off of a
// task to a worker nor the join. These two calls tell it; elsewhere they are nothing.
#ifdef MILLRACE_TSAN
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#else
static void __tsan_acquire(void*) {}
static void __tsan_release(void*) {}
#endif

namespace millrace {
namespace {

// Sets the scheduling class of each thread that enters the arena, and resets it as it leaves.
class BatchPriority : public tbb::task_scheduler_observer {
 public:
  explicit BatchPriority(tbb::task_arena& arena) : tbb::task_scheduler_observer(arena) {
    observe(true);
  }
  ~BatchPriority() override { observe(false); }
  void on_scheduler_entry(bool) override { Set(SCHED_BATCH); }
  void on_scheduler_exit(bool) override { Set(SCHED_OTHER); }

 private:
  // A refusal (seccomp) leaves the default class, which is only slower.
  static void Set(int policy) {
    sched_param parameter{};
    pthread_setschedparam(pthread_self(), policy, &parameter);
  }
};

}  // namespace

struct Workers::Impl {
  explicit Impl(int num_threads)
      : limit(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(num_threads) + 1),
        arena(num_threads, /*reserved_for_masters=*/0) {}

  tbb::global_control limit;
  tbb::task_arena arena;
  std::unique_ptr<BatchPriority> priority;
  Mutex mu;
  CondVar idle;
  int64_t pending MILLRACE_GUARDED_BY(mu) = 0;  // tasks that have not finished
};

Workers::Workers(int num_threads, bool batch_priority)
    : num_threads_(num_threads), impl_(std::make_unique<Impl>(num_threads)) {
  impl_->arena.initialize();
  if (batch_priority) impl_->priority = std::make_unique<BatchPriority>(impl_->arena);
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
