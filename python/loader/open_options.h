#ifndef MILLRACE_PYTHON_LOADER_OPEN_OPTIONS_H_
#define MILLRACE_PYTHON_LOADER_OPEN_OPTIONS_H_

#include <functional>

#include "capi/millrace_device.h"
#include "python/call/interruptible.h"
#include "python/call/object.h"
#include "python/loader/http_options.h"

namespace millrace::python {

// The arguments with which a loader is opened or explained: a plan, a context or None, and
// keywords.
class OpenArguments {
 public:
  // Throws what Python raises for wrong ones.
  OpenArguments(PyObject* arguments, PyObject* keywords);
  OpenArguments(const OpenArguments&) = delete;
  OpenArguments& operator=(const OpenArguments&) = delete;

  const mr_plan* plan() const;
  mr_context* context() const;
  const mr_open_options& options() const { return options_; }
  // The device on which batches lie; for a feed alone.
  const mr_feed_options& feed_options() const { return feed_options_; }
  bool trim() const { return trim_ != 0; }
  bool readonly() const { return readonly_ != 0; }
  // The objects that the loader uses as long as it lives; None where there are none.
  Ref KeepContext() const { return Ref::Borrow(context_); }
  Ref KeepOps() const { return Ref::Borrow(ops_); }
  Ref KeepCodes() const { return codes_ == nullptr ? Checked(PyDict_New()) : Ref::Borrow(codes_); }
  // Runs a call that opens files with these options, which Ctrl-C ends. Throws what was raised
  // meanwhile, or the exception of its error.
  void Run(const std::function<mr_error*()>& call);

 private:
  static void Progress(void* self, int64_t done_bytes, int64_t total_bytes);
  void TakeMemory(PyObject* memory);

  mr_open_options options_ = {};
  mr_feed_options feed_options_ = {};
  PyObject* plan_ = nullptr;
  PyObject* context_ = Py_None;
  PyObject* ops_ = Py_None;
  PyObject* codes_ = nullptr;
  PyObject* progress_ = Py_None;
  Ref progress_error_[3];  // as PyErr_Fetch gives it
  HttpArguments http_;
  Interruptible interruptible_;
  int trim_ = 0;
  int readonly_ = 0;
  std::string token_, quarantine_file_, index_folder_;
  std::vector<std::string> memory_name_texts_;
  std::vector<const char*> memory_names_;
  std::vector<const mr_memory*> memory_;
};

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_LOADER_OPEN_OPTIONS_H_
