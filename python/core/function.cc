#include "python/core/function.h"

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
  const Ref code(PyObject_GetAttrString(exception, "code"));
  const long number = code ? PyLong_AsLong(code.get()) : -1;
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  return number > MR_OK && number <= MR_UNAUTHENTICATED ? static_cast<int32_t>(number) : MR_UNKNOWN;
}

void Keep(PyObject* raised, PyObject* text, PyObject* exception) {
  const Ref pair = Checked(PyTuple_Pack(2, text, exception));
  CheckedZero(PyList_Append(raised, pair.get()));
  if (PyList_Size(raised) > kMostRaised) CheckedZero(PySequence_DelItem(raised, 0));
}

}  // namespace

Function::Function(PyObject* callable_in, PyObject* raised_in)
    : callable(callable_in), raised(raised_in) {
  Py_INCREF(callable);
  Py_INCREF(raised);
}

Function::~Function() {
  Py_DECREF(callable);
  Py_DECREF(raised);
}

void DropFunction(void* function) {
  if (IsEnding()) return;
  const Locked locked;
  delete static_cast<Function*>(function);
}

Ref Loan::Lend(Tensor* tensor) {
  tensors_.emplace_back(AsObject(tensor));
  return ArrayOf(AsObject(tensor));
}

void Loan::CheckReturned() const {
  for (const Ref& tensor : tensors_) {
    if (Py_REFCNT(tensor.get()) == 1) continue;
    Raise(PyExc_BufferError,
          "the op keeps an array of its rows, whose memory ends with the call: keep a copy");
  }
}

mr_error* ErrorOfException(const Function& function) {
  const Ref exception = TakeException();
  try {
    const Ref text = TextOfException(exception.get());
    Keep(function.raised, text.get(), exception.get());
    return mr_error_create(CodeOf(exception.get()), TextOf(text.get()).c_str());
  } catch (const Raised&) {
    PyErr_Clear();
    return mr_error_create(MR_UNKNOWN, "an op of Python raised an exception that has no text");
  }
}

}  // namespace millrace::python
