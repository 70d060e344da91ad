#ifndef MILLRACE_PYTHON_CALL_ERROR_H_
#define MILLRACE_PYTHON_CALL_ERROR_H_

#include "capi/millrace.h"
#include "python/call/object.h"

namespace millrace::python {

// Makes the exception of an error: an instance of a class of millrace.errors. The second frees the
// error.
Ref ExceptionOf(const mr_error* error);
Ref ExceptionOf(mr_error* error);

// Throws the exception of an error, which it frees; does nothing for NULL. Called with the
// interpreter's lock held.
void Check(mr_error* error);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_CALL_ERROR_H_
