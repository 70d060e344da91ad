#ifndef MILLRACE_PYTHON_OPS_OPS_H_
#define MILLRACE_PYTHON_OPS_OPS_H_

#include "capi/millrace.h"
#include "python/call/object.h"

namespace millrace::python {

void AddOps(PyObject* module);

// Returns the table of an object; throws TypeError if it is none. It lives as long as the object.
const mr_ops* OpsOf(PyObject* object);

// Makes the exception that a function of these ops raised the cause of `exception`, if its text is
// in that of `exception`.
void SetCause(PyObject* ops, PyObject* exception);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_OPS_OPS_H_
