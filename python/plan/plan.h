#ifndef MILLRACE_PYTHON_PLAN_PLAN_H_
#define MILLRACE_PYTHON_PLAN_PLAN_H_

#include "capi/millrace.h"
#include "python/call/object.h"

namespace millrace::python {

void AddPlan(PyObject* module);

// Returns the plan of an object; throws TypeError if it is none. It lives as long as the object.
const mr_plan* PlanOf(PyObject* object);

// Functions of the module.
PyObject* PlanFromText(PyObject* module, PyObject* arguments);
PyObject* PlanFromFile(PyObject* module, PyObject* arguments);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_PLAN_PLAN_H_
