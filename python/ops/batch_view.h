#ifndef MILLRACE_PYTHON_OPS_BATCH_VIEW_H_
#define MILLRACE_PYTHON_OPS_BATCH_VIEW_H_

#include "capi/millrace.h"
#include "python/ops/function.h"

namespace millrace::python {

void AddBatchView(PyObject* module);

// Calls the function with a batch: the `apply` of an mr_batch_op, whose user is a Function.
mr_error* ApplyToBatch(void* function, const mr_batch_view* batch);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_OPS_BATCH_VIEW_H_
