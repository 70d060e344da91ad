#ifndef MILLRACE_PIPELINE_EXECUTOR_LOCKED_H_
#define MILLRACE_PIPELINE_EXECUTOR_LOCKED_H_

#include <utility>

#include "base/mutex.h"
#include "pipeline/executor/executor.h"

namespace millrace::pipeline {

// Holds the executor's mutex, and calls the workers and the consumer once it has let go. Called
// under the mutex they would wait for it at once, and cost two more calls to the system. The
// executor lives until then: the tasks that are about to be called are counted, and the consumer is
// called by a task under way, or by itself. The owners of records that a source has released end
// behind the calls, when the executor may be gone.
class MILLRACE_SCOPED_CAPABILITY Executor::Locked {
 public:
  explicit Locked(Executor& executor) MILLRACE_ACQUIRE(executor.mu_) : executor_(executor) {
    executor_.mu_.Lock();
  }
  ~Locked() MILLRACE_RELEASE() { LetGo(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  // Lets go, calls, and holds the mutex again; false if there was nothing to call and to end.
  bool Call() MILLRACE_NO_THREAD_SAFETY_ANALYSIS {
    {
      const ReleasedRecords released = TakeReleased();
      const bool calls = executor_.state_.ring.consumer_to_call() || executor_.tasks_to_call_ > 0;
      if (!calls && released.empty()) return false;
      LetGo();
    }
    executor_.mu_.Lock();
    return true;
  }

 private:
  ReleasedRecords TakeReleased() const {
    GrowingSource* const growing = executor_.parts_.growing;
    return growing == nullptr ? ReleasedRecords() : growing->TakeReleased();
  }
  void LetGo() MILLRACE_NO_THREAD_SAFETY_ANALYSIS {
    const ReleasedRecords released = TakeReleased();  // ends behind all else
    const bool consumer = executor_.state_.ring.TakeConsumerCall();
    const int tasks = std::exchange(executor_.tasks_to_call_, 0);
    executor_.mu_.Unlock();
    if (consumer) executor_.batch_ready_.NotifyAll();
    if (tasks > 0) executor_.CallWorkers(tasks);
  }

  Executor& executor_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXECUTOR_LOCKED_H_
