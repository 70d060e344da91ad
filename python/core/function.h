#ifndef MILLRACE_PYTHON_CORE_FUNCTION_H_
#define MILLRACE_PYTHON_CORE_FUNCTION_H_

#include <memory>

#include "capi/millrace.h"
#include "python/core/object.h"
#include "python/core/tensor.h"

namespace millrace::python {

// A function of Python that is an op: the `user` of an mr_run_op or an mr_batch_op.
struct Function {
  // Both are called with the interpreter's lock held.
  Function(PyObject* callable, PyObject* raised);
  ~Function();
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;

  PyObject* callable;
  PyObject* raised;  // a list of (text, exception), to which those of the function are appended
};

// Drops a Function in any thread: the `destroy` of an op.
void DropFunction(void* function);

// The memory that a function of Python sees while it is called.
class Loan {
 public:
  // Adds a view, and returns its array.
  Ref Lend(Tensor* tensor);
  // Throws BufferError if an array outlives the call.
  void CheckReturned() const;

 private:
  std::vector<Ref> tensors_;
};

// Returns an array uint32[rows, words], which `fill` writes.
Ref RandomWords(int64_t rows, int64_t words, const auto& fill) {
  const Ref bytes =
      Checked(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(4 * rows * words)));
  fill(reinterpret_cast<uint32_t*>(PyBytes_AsString(bytes.get())));
  const Ref numpy = Checked(PyImport_ImportModule("numpy"));
  const Ref flat =
      Checked(PyObject_CallMethod(numpy.get(), "frombuffer", "Os", bytes.get(), "uint32"));
  return Checked(PyObject_CallMethod(flat.get(), "reshape", "LL", static_cast<long long>(rows),
                                     static_cast<long long>(words)));
}

// Returns the error of the exception that is set, which it clears and appends to function.raised.
mr_error* ErrorOfException(const Function& function);

// Runs the body of an op's call, in a thread of the pipeline.
template <typename Body>
mr_error* CallFunction(const Function& function, const Body& body) {
  if (IsEnding()) return mr_error_create(MR_CANCELLED, "the interpreter ends");
  const Locked locked;
  try {
    body();
    return nullptr;
  } catch (const Raised&) {
    return ErrorOfException(function);
  } catch (const std::bad_alloc&) {
    return mr_error_create(MR_RESOURCE_EXHAUSTED, "no memory for the call of an op of Python");
  }
}

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_CORE_FUNCTION_H_
