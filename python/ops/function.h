#ifndef MILLRACE_PYTHON_OPS_FUNCTION_H_
#define MILLRACE_PYTHON_OPS_FUNCTION_H_

#include <algorithm>
#include <functional>
#include <memory>

#include "capi/millrace.h"
#include "python/array/tensor.h"
#include "python/call/lock.h"
#include "python/call/object.h"

namespace millrace::python {

// A function of Python that is an op: the `user` of an mr_run_op or an mr_batch_op. Its table holds
// both objects, and lives as long as what calls it.
struct Function {
  Function(PyObject* callable_in, PyObject* raised_in) : callable(callable_in), raised(raised_in) {}
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;

  PyObject* const callable;
  PyObject* const raised;  // a list of (text, exception), to which those of the function go
};

// Marks that this thread is in the call of an op while it lives.
class InOp {
 public:
  InOp() { ++depth_; }
  InOp(const InOp&) = delete;
  InOp& operator=(const InOp&) = delete;
  ~InOp() { --depth_; }
  static bool Here() { return depth_ > 0; }

 private:
  static thread_local int depth_;
};

// Runs what waits for calls of ops to end: here, without the interpreter's lock, or, where this
// thread is in such a call itself, in a thread of its own. Then releases `keep`, a new reference or
// NULL.
void RunAwayFromOps(const std::function<void()>& wait, PyObject* keep);

// Drops a Function, or what is derived from it: the `destroy` of an op.
template <typename Derived>
void DropFunction(void* function) {
  delete static_cast<Derived*>(static_cast<Function*>(function));
}

// The memory that a function of Python sees while it is called.
class Loan {
 public:
  // Adds a view, and returns its array.
  Ref Lend(Tensor* tensor);
  // Throws BufferError if an array outlives the call.
  void CheckReturned() const;
  // Returns true if an array outlives the call.
  bool IsOut() const;

 private:
  std::vector<Ref> tensors_;
};

// Returns an array uint32[rows, words], which `fill` writes.
Ref RandomWords(int64_t rows, int64_t words, const auto& fill) {
  if (words > (PY_SSIZE_T_MAX / 4) / std::max<int64_t>(rows, 1)) {
    Raise(PyExc_MemoryError, "so many random words fit into no memory");
  }
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
  const LockedAgain locked;
  if (!locked) return mr_error_create(MR_CANCELLED, "the interpreter ends");
  const InOp in_op;
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

#endif  // MILLRACE_PYTHON_OPS_FUNCTION_H_
