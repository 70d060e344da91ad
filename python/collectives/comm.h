#ifndef MILLRACE_PYTHON_COLLECTIVES_COMM_H_
#define MILLRACE_PYTHON_COLLECTIVES_COMM_H_

#include <atomic>
#include <chrono>
#include <thread>

#include "capi/millrace_collectives.h"
#include "python/call/lock.h"
#include "python/call/object.h"

namespace millrace::python {

// The calls of a group and of its reducers, one at a time, without the interpreter's lock. While
// one waits, signals are looked at twenty times a second; what their handlers raise ends the wait,
// and the group. Calls and ends hold the lock.
class GroupCalls {
 public:
  // `stalled` is told sentences about ranks that stall; None: nothing is.
  explicit GroupCalls(PyObject* stalled) : stalled_(Ref::Borrow(stalled)) {}

  // Runs call(), which returns an mr_error. Throws what was raised meanwhile, or the exception of
  // the error; RuntimeError if a thread is in a call.
  template <typename Waiting>
  void Run(const Waiting& call) {
    Begin();
    mr_error* error = nullptr;
    {
      const Unlocked unlocked;
      error = call();
    }
    End(error);
  }

  // An mr_comm_options.watch and .stalled, whose user is a GroupCalls.
  static mr_error* Watch(void* self);
  static void TellStall(void* self, const char* text, size_t size);

 private:
  using Clock = std::chrono::steady_clock;

  void Begin();
  void End(mr_error* error);
  void LookAtSignals();

  const Ref stalled_;
  // The thread that is in a call; none: no thread is. Caller -> threads that wait for the group,
  // relaxed: each looks whether it is itself.
  std::atomic<std::thread::id> caller_{std::thread::id()};
  // Of the caller.
  Clock::time_point next_look_;
  bool is_raised_ = false;
  Ref raised_[3];  // as PyErr_Fetch gives it
};

// A group of ranks.
struct Comm {
  PyObject_HEAD;
  mr_comm* comm;  // NULL once it is closed
  GroupCalls* calls;
  PyObject* reason;  // of the backend
};

void AddComm(PyObject* module);

// Throws TypeError for an object that is no group.
Comm* CommOf(PyObject* object);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_COLLECTIVES_COMM_H_
