#ifndef MILLRACE_PYTHON_CALL_LOCK_H_
#define MILLRACE_PYTHON_CALL_LOCK_H_

#include "python/call/object.h"

// The interpreter's lock, and its end. Behind the end a thread that asks for the lock would be
// ended by it, in the middle of C++ functions; so such threads stay away, and the interpreter waits
// for those that have asked.

namespace millrace::python {

// Gives up the interpreter's lock while it lives. Each call that may wait does so: worker threads
// want the lock to run functions of Python. A thread that is late for the end never comes back.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked();

 private:
  PyThreadState* state_;
};

// Holds the interpreter's lock while it lives, in any thread. False behind the interpreter's end:
// then there is no lock, and nothing of Python may be touched.
class Locked {
 public:
  Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() {
    if (held_) PyGILState_Release(state_);
  }
  explicit operator bool() const { return held_; }

 private:
  bool held_ = false;
  PyGILState_STATE state_ = PyGILState_UNLOCKED;
};

// The same in a thread of C++ that asks for the lock again and again, as those of the pipeline do:
// what the interpreter has made for the thread, such as its threading.local, stays until the thread
// ends. With Locked it is made anew each time, which takes two calls to the system. A thread that
// awaits such a thread must not hold the lock.
class LockedAgain {
 public:
  LockedAgain();

  explicit operator bool() const { return static_cast<bool>(locked_); }

 private:
  const bool is_new_;
  const Locked locked_;
};

// Says that the interpreter is about to end: from now on only the calling thread, which holds the
// lock, gets it. Waits for threads that have asked for it before.
void EndInterpreter();

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_CALL_LOCK_H_
