#ifndef MILLRACE_PYTHON_LOADER_LOADER_H_
#define MILLRACE_PYTHON_LOADER_LOADER_H_

#include "python/call/object.h"

namespace millrace::python {

void AddLoader(PyObject* module);

// Functions of the module.
PyObject* Explain(PyObject* module, PyObject* arguments, PyObject* keywords);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_LOADER_LOADER_H_
