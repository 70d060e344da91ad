#ifndef MILLRACE_PYTHON_BATCH_BATCH_H_
#define MILLRACE_PYTHON_BATCH_BATCH_H_

#include <cstdint>

#include "capi/millrace.h"
#include "python/batch/look.h"
#include "python/call/object.h"

namespace millrace::python {

void AddBatch(PyObject* module);

// Sets the class of batches, a subclass of _core.Batch without fields of its own.
void SetBatchType(PyObject* type);

// Takes over a batch of the loader that has this look, and sets the rows that hold samples.
Ref MakeBatch(mr_batch* batch, Look& look, int64_t& valid_rows);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_BATCH_BATCH_H_
