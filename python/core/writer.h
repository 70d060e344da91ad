#ifndef MILLRACE_PYTHON_CORE_WRITER_H_
#define MILLRACE_PYTHON_CORE_WRITER_H_

#include "python/core/object.h"

namespace millrace::python {

// Adds the type Writer: an mr_writer.
void AddWriter(PyObject* module);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_CORE_WRITER_H_
