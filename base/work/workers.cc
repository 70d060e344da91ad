#include "base/workers.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>  // NOLINT: clock_gettime is POSIX

#include <cstdint>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/work/fair_queue.h"

// Threads that take tasks, and sleep at once when there is none. Which task is next, FairQueue
// says. A library's pool looks for more work before it sleeps, TBB's for about 100 us of processor
// time: as long as a ring of cheap batches takes to fill, each time that it is full.

namespace millrace {
namespace {

// How much time a group may catch up on, per worker: some tasks of the usual length.
constexpr int64_t kCreditNanoseconds = 10'000'000;

// The settings that a thread inherits, here those of the thread that makes the Workers. Threads are
// started by the thread that brings a task, which may be bound to one core.
class Inherited {
 public:
  explicit Inherited(bool batch_priority) {
    has_cores_ = sched_getaffinity(0, sizeof(cores_), &cores_) == 0;
    if (batch_priority) {
      policy_ = SCHED_BATCH;
    } else if (pthread_getschedparam(pthread_self(), &policy_, &parameter_) != 0) {
      policy_ = SCHED_OTHER;
    }
  }
  // A refusal (seccomp) leaves the calling thread as it is, which is only slower.
  void Take() const {
    if (has_cores_) sched_setaffinity(0, sizeof(cores_), &cores_);
    pthread_setschedparam(pthread_self(), policy_, &parameter_);
  }

 private:
  cpu_set_t cores_{};
  bool has_cores_ = false;
  int policy_ = SCHED_OTHER;
  sched_param parameter_{};
};

void Run(FairQueue::Turn& turn, ThreadClock clock) {
  const int64_t begin_ns = turn.counts ? clock() : 0;
  turn.task();
  turn.task = nullptr;  // with what it holds, and not under the mutex
  if (turn.counts) turn.spent_ns = clock() - begin_ns;
}

}  // namespace

// This clock cannot fail. It stands still while another process has the core, so that shares are
// right on a busy machine too.
int64_t ThreadProcessorTime() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

struct Workers::Impl {
  // Each sleeps on a variable of its own: of several threads that wait on one, glibc may wake none
  // (its bug 25847, up to 2.40).
  struct Thread {
    CondVar wake;
    bool called = false;  // to come; guarded by mu
    std::jthread thread;
  };

  Impl(int num_threads, bool batch_priority, ThreadClock thread_clock)
      : max_threads(static_cast<size_t>(num_threads)),
        inherited(batch_priority),
        clock(thread_clock),
        common(MakeGroup()),
        queue(num_threads * kCreditNanoseconds) {}

  void StartThreadLocked() MILLRACE_REQUIRES(mu);
  void Serve(Thread& self) MILLRACE_EXCLUDES(mu);
  bool TakeLocked(Thread& self, FairQueue::Turn& turn) MILLRACE_REQUIRES(mu);
  Thread* CallLocked() MILLRACE_REQUIRES(mu);

  const size_t max_threads;
  const Inherited inherited;
  const ThreadClock clock;
  const std::shared_ptr<TaskGroup> common;  // of tasks without a group
  Mutex mu;
  FairQueue queue MILLRACE_GUARDED_BY(mu);
  std::vector<std::unique_ptr<Thread>> threads MILLRACE_GUARDED_BY(mu);
  std::vector<Thread*> sleeping MILLRACE_GUARDED_BY(mu);  // the last one fell asleep last
  int64_t called MILLRACE_GUARDED_BY(mu) = 0;             // threads that have not come yet
  bool ending MILLRACE_GUARDED_BY(mu) = false;
};

void Workers::Impl::StartThreadLocked() {
  auto started = std::make_unique<Thread>();
  started->called = true;
  started->thread = std::jthread([this, self = started.get()] { Serve(*self); });
  threads.push_back(std::move(started));
  ++called;
}

void Workers::Impl::Serve(Thread& self) {
  pthread_setname_np(pthread_self(), "millrace-worker");
  inherited.Take();
  FairQueue::Turn turn;
  {
    MutexLock lock(mu);
    --called;
    if (!TakeLocked(self, turn)) return;
  }
  while (true) {
    Run(turn, clock);
    MutexLock lock(mu);
    queue.End(turn);
    if (!TakeLocked(self, turn)) return;
  }
}

// Sleeps until there is a task; false at the end.
bool Workers::Impl::TakeLocked(Thread& self, FairQueue::Turn& turn) {
  while (queue.size() == 0) {
    if (ending) return false;
    self.called = false;
    sleeping.push_back(&self);
    while (!self.called && !ending) self.wake.Wait(mu);
    if (self.called) --called;
  }
  turn = queue.Take();
  return true;
}

// Sees to it that threads come until as many are on their way as tasks are queued, or none is left:
// then one that is busy takes the task next. Returns one to be woken, or nullptr.
Workers::Impl::Thread* Workers::Impl::CallLocked() {
  if (called >= queue.size()) return nullptr;
  if (!sleeping.empty()) {
    Thread* const thread = sleeping.back();
    sleeping.pop_back();
    thread->called = true;
    ++called;
    return thread;
  }
  if (threads.size() == max_threads || ending) return nullptr;
  try {
    StartThreadLocked();
  } catch (const std::system_error&) {  // fewer threads do the same more slowly
  } catch (const std::bad_alloc&) {
  }
  return nullptr;
}

Workers::Workers(int num_threads, bool batch_priority, ThreadClock clock)
    : num_threads_(num_threads), impl_(std::make_unique<Impl>(num_threads, batch_priority, clock)) {
  MutexLock lock(impl_->mu);
  impl_->threads.reserve(impl_->max_threads);
  impl_->sleeping.reserve(impl_->max_threads);
  impl_->StartThreadLocked();
}

Workers::~Workers() {
  std::vector<std::unique_ptr<Impl::Thread>> threads;
  {
    MutexLock lock(impl_->mu);
    impl_->ending = true;
    threads = std::move(impl_->threads);
  }
  for (const auto& thread : threads) thread->wake.NotifyOne();
  for (const auto& thread : threads) thread->thread.join();
}

std::shared_ptr<TaskGroup> Workers::MakeGroup() { return std::make_shared<TaskGroup>(); }

void Workers::Enqueue(const std::shared_ptr<TaskGroup>& group, std::function<void()> task) {
  Impl::Thread* called = nullptr;
  {
    MutexLock lock(impl_->mu);
    impl_->queue.Add(group, std::move(task));
    called = impl_->CallLocked();
  }
  if (called != nullptr) called->wake.NotifyOne();
}

void Workers::Enqueue(std::function<void()> task) { Enqueue(impl_->common, std::move(task)); }

}  // namespace millrace
