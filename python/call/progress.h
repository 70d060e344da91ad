#ifndef MILLRACE_PYTHON_CALL_PROGRESS_H_
#define MILLRACE_PYTHON_CALL_PROGRESS_H_

#include <chrono>

#include "capi/millrace.h"
#include "python/call/interruptible.h"
#include "python/call/lock.h"
#include "python/call/object.h"

namespace millrace::python {

// Runs work that tells its progress, without the interpreter's lock. At the first time, and then
// ten times a second, signals are looked at, and a function is told (done, total); an exception of
// either cancels the work.
class Progress {
 public:
  // `function` may be None, and outlives it.
  explicit Progress(PyObject* function) : function_(function) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Runs work(), which returns an mr_error and calls Tell. Throws what was raised meanwhile, or the
  // exception of the error.
  template <typename Work>
  void Run(const Work& work) {
    mr_error* error = nullptr;
    {
      const Unlocked unlocked;
      error = work();
    }
    End(error);
  }

  // The same in a thread of its own, so that Ctrl-C ends the work also where it does not call Tell.
  template <typename Work>
  void Run(Interruptible& interruptible, const Work& work) {
    End(interruptible.Run(work));
  }

  // An mr_progress, whose user is a Progress.
  static int32_t Tell(void* self, int64_t done, int64_t total);
  // Runs a body with the lock, in the thread of the work; what it raises cancels the work.
  template <typename Body>
  void Interrupt(const Body& body) {
    const Locked locked;
    if (is_raised_) return;
    try {
      body();
    } catch (const Raised&) {
      Keep();
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
      Keep();
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  void CallFunction();
  void Keep();
  void End(mr_error* error);

  PyObject* const function_;
  Clock::time_point next_ = Clock::now();
  int64_t done_ = 0;
  int64_t total_ = 0;
  int64_t told_ = -1;  // what the function was told last
  bool is_raised_ = false;
  Ref raised_[3];  // as PyErr_Fetch gives it
};

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_CALL_PROGRESS_H_
