#ifndef MILLRACE_PYTHON_WRITE_WRITER_H_
#define MILLRACE_PYTHON_WRITE_WRITER_H_

#include "python/call/object.h"

namespace millrace::python {

// Adds the type Writer: an mr_writer.
void AddWriter(PyObject* module);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_WRITE_WRITER_H_
