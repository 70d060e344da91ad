#include "python/context/context.h"

#include "python/call/error.h"
#include "python/call/lock.h"
#include "python/ops/function.h"

namespace millrace::python {
namespace {

struct Context {
  PyObject_HEAD;
  mr_context* context;
};

PyTypeObject* context_type = nullptr;

Context* AsContext(PyObject* object) { return reinterpret_cast<Context*>(object); }

// Awaits the threads, which may wait for the interpreter's lock.
void Dealloc(PyObject* object) {
  if (mr_context* const context = AsContext(object)->context; context != nullptr) {
    RunAwayFromOps([context] { mr_context_free(context); }, nullptr);
  }
  Free(object);
}

// ---- The log: a function of Python that takes (level, message) ----

void Log(void* user, int32_t level, const char* message, size_t size) {
  const Locked locked;
  if (!locked) return;
  try {
    const Ref text = Text(std::string(message, size));
    Checked(PyObject_CallFunction(static_cast<PyObject*>(user), "iO", level, text.get()));
  } catch (const Raised&) {
    PyErr_WriteUnraisable(static_cast<PyObject*>(user));
  }
}

void DropLog(void* user) {
  const Locked locked;
  if (locked) Py_DECREF(static_cast<PyObject*>(user));
}

PyObject* New(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  return Call([&] {
    const char* names[] = {
        "threads", "memory_budget_bytes", "batch_priority", "read_deadline_ms", "log", nullptr};
    mr_context_options options = {};
    options.struct_size = sizeof options;
    long long budget = 0;
    long long deadline = 0;
    PyObject* log = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$iLpLO", const_cast<char**>(names),
                                     &options.threads, &budget, &options.batch_priority, &deadline,
                                     &log)) {
      throw Raised();
    }
    options.memory_budget_bytes = budget;
    options.read_deadline_ms = deadline;
    Ref object(reinterpret_cast<PyObject*>(Make<Context>(type)));
    if (log != Py_None) {
      options.log = Log;
      options.log_user = Ref::Borrow(log).release();
      options.log_destroy = DropLog;
    }
    mr_error* error = nullptr;
    {
      const Unlocked unlocked;
      error = mr_context_create(&options, &AsContext(object.get())->context);
    }
    Check(error);
    return object;
  });
}

PyObject* Metrics(PyObject* self, PyObject*) {
  return Call([&] {
    std::string text;
    Check(mr_context_metrics(AsContext(self)->context, AppendTo, &text));
    return Text(text);
  });
}

PyMethodDef methods[] = {
    {"metrics", Metrics, METH_NOARGS, "Returns the metrics in Prometheus' text format."},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("Worker threads, files and a memory budget, for loaders.")},
    {Py_tp_new, reinterpret_cast<void*>(New)},
    {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
    {Py_tp_methods, methods},
    {0, nullptr}};

PyType_Spec spec = {"millrace._core.Context", sizeof(Context), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

void AddContext(PyObject* module) { context_type = AddType(module, &spec); }

mr_context* ContextOf(PyObject* object) {
  if (object == Py_None) return nullptr;
  if (!PyObject_TypeCheck(object, context_type)) Raise(PyExc_TypeError, "not a Context");
  return AsContext(object)->context;
}

}  // namespace millrace::python
