#include "python/ops/function.h"

#include <thread>

#include "python/call/lock.h"

namespace millrace::python {
namespace {

// The exceptions that are kept for their tracebacks.
constexpr Py_ssize_t kMostRaised = 32;

// Returns the exception that is set, with its traceback, and clears it.
Ref TakeException() {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return Ref(value);
}

// Returns "TYPE: MESSAGE".
Ref TextOfException(PyObject* exception) {
  const Ref type =
      Checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(exception)), "__name__"));
  const Ref message = Checked(PyObject_Str(exception));
  return Checked(PyUnicode_FromFormat("%U: %U", type.get(), message.get()));
}

// An error of Millrace keeps its code.
int32_t CodeOf(PyObject* exception) {
  const Ref errors = Checked(PyImport_ImportModule("millrace.errors"));
  const Ref type = Checked(PyObject_GetAttrString(errors.get(), "Error"));
  if (PyObject_IsInstance(exception, type.get()) != 1) return MR_UNKNOWN;
  const Ref code = Checked(PyObject_GetAttrString(exception, "code"));
  const long number = PyLong_AsLong(code.get());
  if (PyErr_Occurred() != nullptr) throw Raised();
  return static_cast<int32_t>(number);
}

// The traceback's frames hold arrays of the call, whose memory ends with it.
void ClearFrames(PyObject* exception) {
  const Ref traceback(PyException_GetTraceback(exception));
  if (!traceback) return;
  const Ref module = Checked(PyImport_ImportModule("traceback"));
  Checked(PyObject_CallMethod(module.get(), "clear_frames", "O", traceback.get()));
}

void ClearAllFrames(PyObject* exception) {
  ClearFrames(exception);
  for (auto* const next : {PyException_GetCause, PyException_GetContext}) {
    if (const Ref other(next(exception)); other) ClearAllFrames(other.get());
  }
}

void Keep(PyObject* raised, PyObject* text, PyObject* exception) {
  const Ref pair = Checked(PyTuple_Pack(2, text, exception));
  CheckedZero(PyList_Append(raised, pair.get()));
  if (PyList_Size(raised) > kMostRaised) CheckedZero(PySequence_DelItem(raised, 0));
}

}  // namespace

thread_local int InOp::depth_ = 0;

void RunAwayFromOps(const std::function<void()>& wait, PyObject* keep) {
  if (!InOp::Here()) {
    {
      const Unlocked unlocked;
      wait();
    }
    Py_XDECREF(keep);
    return;
  }
  std::thread([wait, keep] {
    wait();
    if (const Locked locked; locked) Py_XDECREF(keep);
  }).detach();
}

Ref Loan::Lend(Tensor* tensor) {
  tensors_.emplace_back(AsObject(tensor));
  return ArrayOf(AsObject(tensor));
}

bool Loan::IsOut() const {
  return std::any_of(tensors_.begin(), tensors_.end(),
                     [](const Ref& tensor) { return Py_REFCNT(tensor.get()) != 1; });
}

// An object that only a cycle holds, such as a function that calls itself, is not kept.
void Loan::CheckReturned() const {
  if (!IsOut()) return;
  PyGC_Collect();
  if (!IsOut()) return;
  Raise(PyExc_BufferError,
        "the op keeps an array of its rows, whose memory ends with the call: keep a copy");
}

mr_error* ErrorOfException(const Function& function) {
  const Ref exception = TakeException();
  try {
    ClearAllFrames(exception.get());
    const Ref text = TextOfException(exception.get());
    Keep(function.raised, text.get(), exception.get());
    return mr_error_create(CodeOf(exception.get()), TextOf(text.get()).c_str());
  } catch (const Raised&) {
    PyErr_Clear();
    return mr_error_create(MR_UNKNOWN, "an op of Python raised an exception that has no text");
  }
}

}  // namespace millrace::python
