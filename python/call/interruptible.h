#ifndef MILLRACE_PYTHON_CALL_INTERRUPTIBLE_H_
#define MILLRACE_PYTHON_CALL_INTERRUPTIBLE_H_

#include <functional>

#include "capi/millrace.h"
#include "python/call/object.h"

namespace millrace::python {

// Work that Ctrl-C ends: it runs in a thread of its own, while the calling one, which alone may
// handle signals, looks for them twenty times a second.
class Interruptible {
 public:
  Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible() { mr_cancel_free(cancel_); }

  // The option of the work that ends it.
  const mr_cancel* cancel() const { return cancel_; }
  // Ends the work. Called by any thread.
  void Cancel() { mr_cancel_set(cancel_); }

  // Runs the work without the interpreter's lock, and returns its error. Throws what the handler of
  // a signal raises, when the work has ended.
  mr_error* Run(const std::function<mr_error*()>& work);

 private:
  mr_cancel* cancel_ = nullptr;
};

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_CALL_INTERRUPTIBLE_H_
