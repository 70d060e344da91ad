#ifndef MILLRACE_BASE_MUTEX_H_
#define MILLRACE_BASE_MUTEX_H_

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

// std::mutex with clang's thread-safety annotations. Debian's absl::Mutex carries them too, but has
// deadlock detection switched on (50 ns for an uncontended lock against 5) and breaks
// ThreadSanitizer.

#if defined(__clang__)
#define MILLRACE_ANNOTATION_(x) __attribute__((x))
#else
#define MILLRACE_ANNOTATION_(x)
#endif

#define MILLRACE_CAPABILITY(x) MILLRACE_ANNOTATION_(capability(x))
#define MILLRACE_SCOPED_CAPABILITY MILLRACE_ANNOTATION_(scoped_lockable)
#define MILLRACE_GUARDED_BY(x) MILLRACE_ANNOTATION_(guarded_by(x))
#define MILLRACE_REQUIRES(...) MILLRACE_ANNOTATION_(requires_capability(__VA_ARGS__))
#define MILLRACE_EXCLUDES(...) MILLRACE_ANNOTATION_(locks_excluded(__VA_ARGS__))
#define MILLRACE_ACQUIRE(...) MILLRACE_ANNOTATION_(acquire_capability(__VA_ARGS__))
#define MILLRACE_RELEASE(...) MILLRACE_ANNOTATION_(release_capability(__VA_ARGS__))
#define MILLRACE_NO_THREAD_SAFETY_ANALYSIS MILLRACE_ANNOTATION_(no_thread_safety_analysis)

namespace millrace {

class MILLRACE_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() MILLRACE_ACQUIRE() { mutex_.lock(); }
  void Unlock() MILLRACE_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class MILLRACE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) MILLRACE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() MILLRACE_RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Wait in a loop over the condition: wake-ups may be spurious.
class CondVar {
 public:
  // Releases `mutex`, sleeps until notified, takes it again.
  void Wait(Mutex& mutex) MILLRACE_REQUIRES(mutex) {
    // condition_.wait would need the libstdc++ of GCC 12 (GLIBCXX_3.4.30).
    pthread_cond_wait(condition_.native_handle(), mutex.mutex_.native_handle());
  }
  // The same with a time limit; returns false when it ran out.
  bool WaitFor(Mutex& mutex, std::chrono::nanoseconds limit) MILLRACE_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool notified = condition_.wait_for(lock, limit) == std::cv_status::no_timeout;
    lock.release();
    return notified;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_MUTEX_H_
