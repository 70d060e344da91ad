#ifndef MILLRACE_PYTHON_CORE_BYTES_H_
#define MILLRACE_PYTHON_CORE_BYTES_H_

#include "python/core/object.h"

namespace millrace::python {

// The bytes of an object: its own if it is bytes, else a copy of its buffer.
struct Bytes {
  explicit Bytes(PyObject* object)
      : owner(PyBytes_Check(object) ? Ref::Borrow(object) : Checked(PyBytes_FromObject(object))) {
    char* text = nullptr;
    CheckedZero(PyBytes_AsStringAndSize(owner.get(), &text, &size));
    data = text;
  }
  Ref owner;
  const void* data = nullptr;
  Py_ssize_t size = 0;
};

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_CORE_BYTES_H_
