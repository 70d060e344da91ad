#ifndef MILLRACE_PYTHON_CONTEXT_CONTEXT_H_
#define MILLRACE_PYTHON_CONTEXT_CONTEXT_H_

#include "capi/millrace.h"
#include "python/call/object.h"

namespace millrace::python {

void AddContext(PyObject* module);

// Returns the context of an object, NULL for None; throws TypeError if it is neither. It lives as
// long as the object.
mr_context* ContextOf(PyObject* object);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_CONTEXT_CONTEXT_H_
