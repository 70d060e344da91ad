#ifndef MILLRACE_TESTS_COLLECTIVES_CUDA_HOST_STREAM_H_
#define MILLRACE_TESTS_COLLECTIVES_CUDA_HOST_STREAM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace millrace::collectives {

// A stream of a device whose memory is the host's: tasks run one after the other on a thread of
// their own. What the fake NCCL gets where the real one gets a cudaStream_t. Thread-safe.
class HostStream {
 public:
  HostStream() : thread_([this] { Run(); }) {}
  // Runs what was enqueued first.
  ~HostStream() {
    MutexLock lock(mu_);
    closing_ = true;
    changed_.NotifyAll();
  }

  void Enqueue(std::function<void()> task) {
    MutexLock lock(mu_);
    tasks_.push_back(std::move(task));
    ++issued_;
    changed_.NotifyAll();
  }
  // Until all that was enqueued is done.
  void Wait() { WaitFor(issued()); }
  // Until the first `count` tasks are done.
  void WaitFor(uint64_t count) {
    MutexLock lock(mu_);
    while (done_ < count) changed_.Wait(mu_);
  }
  uint64_t issued() {
    MutexLock lock(mu_);
    return issued_;
  }
  bool HasDone(uint64_t count) {
    MutexLock lock(mu_);
    return done_ >= count;
  }

 private:
  void Run() {
    mu_.Lock();
    while (true) {
      while (tasks_.empty() && !closing_) changed_.Wait(mu_);
      if (tasks_.empty()) break;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      mu_.Unlock();
      task();
      mu_.Lock();
      ++done_;
      changed_.NotifyAll();
    }
    mu_.Unlock();
  }

  Mutex mu_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ MILLRACE_GUARDED_BY(mu_);
  uint64_t issued_ MILLRACE_GUARDED_BY(mu_) = 0;
  uint64_t done_ MILLRACE_GUARDED_BY(mu_) = 0;
  bool closing_ MILLRACE_GUARDED_BY(mu_) = false;
  std::jthread thread_;  // last: the members above exist when it starts
};

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_CUDA_HOST_STREAM_H_
