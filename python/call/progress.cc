#include "python/call/progress.h"

#include "python/call/error.h"

namespace millrace::python {

int32_t Progress::Tell(void* self, int64_t done, int64_t total) {
  auto& progress = *static_cast<Progress*>(self);
  progress.done_ = done;
  progress.total_ = total;
  if (progress.is_raised_) return 1;
  if (total == 0) return 0;  // there is nothing to tell yet
  const Clock::time_point now = Clock::now();
  if (now < progress.next_) return 0;
  progress.next_ = now + std::chrono::milliseconds(100);
  progress.Interrupt([&] {
    CheckedZero(PyErr_CheckSignals());
    progress.CallFunction();
  });
  return progress.is_raised_ ? 1 : 0;
}

void Progress::CallFunction() {
  if (function_ == Py_None || told_ == done_) return;
  told_ = done_;
  Checked(PyObject_CallFunction(function_, "LL", static_cast<long long>(done_),
                                static_cast<long long>(total_)));
}

void Progress::Keep() {
  PyObject* error[3] = {};
  PyErr_Fetch(&error[0], &error[1], &error[2]);
  for (int i = 0; i < 3; ++i) raised_[i] = Ref(error[i]);
  is_raised_ = true;
}

void Progress::End(mr_error* error) {
  if (is_raised_) {
    mr_error_free(error);
    PyErr_Restore(raised_[0].release(), raised_[1].release(), raised_[2].release());
    throw Raised();
  }
  Check(error);
  if (total_ > 0) CallFunction();
}

}  // namespace millrace::python
