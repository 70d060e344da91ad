#ifndef MILLRACE_PYTHON_SOURCE_SOURCE_H_
#define MILLRACE_PYTHON_SOURCE_SOURCE_H_

#include "capi/millrace.h"
#include "python/call/object.h"

namespace millrace::python {

void AddSources(PyObject* module);

// Return the sources of objects; throw TypeError for others. They live as long as the objects.
const mr_memory* MemoryOf(PyObject* object);
const mr_push* PushOf(PyObject* object);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_SOURCE_SOURCE_H_
