#ifndef MILLRACE_PYTHON_OPS_RUN_VIEW_H_
#define MILLRACE_PYTHON_OPS_RUN_VIEW_H_

#include <vector>

#include "capi/millrace.h"
#include "python/ops/function.h"

namespace millrace::python {

void AddRunView(PyObject* module);

// A function on runs of samples, with the fields that it writes.
struct RunFunction : Function {
  using Function::Function;
  std::vector<std::string> names;
  std::vector<mr_field> writes;  // with the names above
};

// Calls the function with a run: the `apply` of an mr_run_op, whose user is a Function.
mr_error* ApplyToRun(void* function, const mr_run_view* run);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_OPS_RUN_VIEW_H_
