#ifndef MILLRACE_PYTHON_CALL_BYTES_H_
#define MILLRACE_PYTHON_CALL_BYTES_H_

#include "python/call/object.h"

namespace millrace::python {

// The bytes of an object: its own if it is bytes, else a copy of its buffer.
struct Bytes {
  // Throws TypeError for an object that is neither bytes nor a buffer.
  explicit Bytes(PyObject* object)
      : owner(PyBytes_Check(object) ? Ref::Borrow(object) : CopyOf(object)) {
    char* text = nullptr;
    CheckedZero(PyBytes_AsStringAndSize(owner.get(), &text, &size));
    data = text;
  }
  Ref owner;
  const void* data = nullptr;
  Py_ssize_t size = 0;

 private:
  // bytes() would take a number or a list of numbers, too.
  static Ref CopyOf(PyObject* object) {
    const Ref view = Checked(PyMemoryView_FromObject(object));
    return Checked(PyBytes_FromObject(view.get()));
  }
};

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_CALL_BYTES_H_
