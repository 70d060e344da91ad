#ifndef MILLRACE_PYTHON_ARRAY_DLPACK_H_
#define MILLRACE_PYTHON_ARRAY_DLPACK_H_

#include "capi/dlpack.h"
#include "python/call/lock.h"
#include "python/call/object.h"

namespace millrace::python {

// The arguments of __dlpack__.
struct DlpackArguments {
  // Throws BufferError for wishes that a tensor on `device` does not fulfil.
  DlpackArguments(PyObject* arguments, PyObject* keywords, DLDevice device);

  PyObject* stream = Py_None;
  bool takes_versions = false;  // true if the consumer knows the struct with a version
};

// Returns a capsule that owns a tensor until a consumer takes it.
Ref CapsuleOf(DLManagedTensorVersioned* tensor);
Ref CapsuleOf(DLManagedTensor* tensor);

// Ends a tensor on a device without the interpreter's lock, which the caller holds: the driver may
// wait for a thread that wants it.
template <typename Managed>
void EndUnlocked(Managed* tensor) {
  const Unlocked unlocked;
  tensor->deleter(tensor);
}

// Returns what __dlpack_device__ does.
Ref DeviceTuple(DLDevice device);

// Throws BufferError for a tensor that a consumer without versions would take as one to write.
void CheckWriteable(bool readonly);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_ARRAY_DLPACK_H_
