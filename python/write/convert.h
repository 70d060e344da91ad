#ifndef MILLRACE_PYTHON_WRITE_CONVERT_H_
#define MILLRACE_PYTHON_WRITE_CONVERT_H_

#include "python/call/object.h"

namespace millrace::python {

// convert(files, progress, bad, **options): mr_convert.
PyObject* Convert(PyObject* module, PyObject* arguments, PyObject* keywords);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_WRITE_CONVERT_H_
