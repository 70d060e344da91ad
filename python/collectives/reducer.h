#ifndef MILLRACE_PYTHON_COLLECTIVES_REDUCER_H_
#define MILLRACE_PYTHON_COLLECTIVES_REDUCER_H_

#include "python/call/object.h"

namespace millrace::python {

// The type of sums of gradients over a group of ranks.
void AddReducer(PyObject* module);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_COLLECTIVES_REDUCER_H_
