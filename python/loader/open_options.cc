#include "python/loader/open_options.h"

#include "python/call/error.h"
#include "python/call/lock.h"
#include "python/context/context.h"
#include "python/ops/ops.h"
#include "python/plan/plan.h"
#include "python/source/source.h"

namespace millrace::python {
namespace {

// Returns the text of an object in `kept`, or NULL for None.
const char* TextOrNull(PyObject* object, std::string& kept) {
  if (object == Py_None) return nullptr;
  kept = TextOf(object);
  return kept.c_str();
}

}  // namespace

OpenArguments::OpenArguments(PyObject* arguments, PyObject* keywords) {
  const char* names[] = {"plan",   "context",      "rank",
                         "world",  "token",        "quarantine",
                         "force",  "prefetch",     "cpu_budget",
                         "adapt",  "index_folder", "progress",
                         "push",   "memory",       "ops",
                         "trim",   "readonly",     "pinned",
                         "device", "ring",         "max_device_bytes",
                         "http",   "codes",        nullptr};
  options_.struct_size = sizeof options_;
  feed_options_.struct_size = sizeof feed_options_;
  long long max_device_bytes = 0;
  int pinned = -1;
  PyObject* token = Py_None;
  PyObject* quarantine = Py_None;
  PyObject* index_folder = Py_None;
  PyObject* push = Py_None;
  PyObject* memory = Py_None;
  PyObject* http = Py_None;
  int adapt = 1;
  if (!PyArg_ParseTupleAndKeywords(
          arguments, keywords, "O|O$iiOOpiipOOOOOppiiiLOO!", const_cast<char**>(names), &plan_,
          &context_, &options_.rank, &options_.world, &token, &quarantine, &options_.force_resume,
          &options_.prefetch_batches, &options_.cpu_budget, &adapt, &index_folder, &progress_,
          &push, &memory, &ops_, &trim_, &readonly_, &pinned, &feed_options_.device,
          &feed_options_.ring, &max_device_bytes, &http, &PyDict_Type, &codes_)) {
    throw Raised();
  }
  plan();
  context();
  feed_options_.max_device_bytes = max_device_bytes;
  options_.no_adapt = adapt == 0;
  options_.pinned = pinned >= 0;
  options_.pinned_device = pinned >= 0 ? pinned : 0;
  options_.token = TextOrNull(token, token_);
  options_.token_bytes = token_.size();
  options_.quarantine_file = TextOrNull(quarantine, quarantine_file_);
  options_.index_folder = TextOrNull(index_folder, index_folder_);
  options_.cancel = interruptible_.cancel();
  if (push != Py_None) options_.push = PushOf(push);
  if (memory != Py_None) TakeMemory(memory);
  if (http != Py_None) http_.Take(http);
  if (ops_ != Py_None) options_.ops = OpsOf(ops_);
  if (progress_ != Py_None) {
    options_.index_progress = Progress;
    options_.index_user = this;
  }
}

const mr_plan* OpenArguments::plan() const { return PlanOf(plan_); }
mr_context* OpenArguments::context() const { return ContextOf(context_); }

// `memory` is a dict of the stages' names.
void OpenArguments::TakeMemory(PyObject* memory) {
  const Ref keys = Checked(PyMapping_Keys(memory));
  const Ref values = Checked(PyMapping_Values(memory));
  memory_name_texts_ = TextsOf(keys.get());
  for (size_t i = 0; i < memory_name_texts_.size(); ++i) {
    memory_names_.push_back(memory_name_texts_[i].c_str());
    const Ref value = Checked(PySequence_GetItem(values.get(), static_cast<Py_ssize_t>(i)));
    memory_.push_back(MemoryOf(value.get()));
  }
  options_.memory_names = memory_names_.data();
  options_.memory = memory_.data();
  options_.num_memory = memory_.size();
}

// An exception of the function is kept, and ends the call.
void OpenArguments::Progress(void* self, int64_t done_bytes, int64_t total_bytes) {
  auto& of = *static_cast<OpenArguments*>(self);
  const Locked locked;
  if (!locked || of.progress_error_[0]) return;
  const Ref done(PyObject_CallFunction(of.progress_, "LL", static_cast<long long>(done_bytes),
                                       static_cast<long long>(total_bytes)));
  if (done) return;
  PyObject* error[3] = {};
  PyErr_Fetch(&error[0], &error[1], &error[2]);
  for (int i = 0; i < 3; ++i) of.progress_error_[i] = Ref(error[i]);
  of.interruptible_.Cancel();
}

void OpenArguments::Run(const std::function<mr_error*()>& call) {
  options_.http = http_.Give();
  mr_error* const error = interruptible_.Run(call);
  if (!progress_error_[0]) return Check(error);
  mr_error_free(error);
  PyErr_Restore(progress_error_[0].release(), progress_error_[1].release(),
                progress_error_[2].release());
  throw Raised();
}

}  // namespace millrace::python
