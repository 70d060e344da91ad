#ifndef MILLRACE_PYTHON_DEVICE_DEVICE_BATCH_H_
#define MILLRACE_PYTHON_DEVICE_DEVICE_BATCH_H_

#include <cstdint>

#include "capi/millrace_device.h"
#include "python/batch/look.h"
#include "python/call/object.h"

namespace millrace::python {

void AddDeviceBatch(PyObject* module);

// Sets the class of batches on devices, a subclass of _core.DeviceBatch without fields of its own.
void SetDeviceBatchType(PyObject* type);

// Takes over a batch of the feed that has this look, and sets the rows that hold samples.
Ref MakeBatch(mr_device_batch* batch, Look& look, int64_t& valid_rows);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_DEVICE_DEVICE_BATCH_H_
