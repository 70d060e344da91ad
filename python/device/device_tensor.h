#ifndef MILLRACE_PYTHON_DEVICE_DEVICE_TENSOR_H_
#define MILLRACE_PYTHON_DEVICE_DEVICE_TENSOR_H_

#include <cstddef>

#include "capi/millrace_device.h"
#include "python/batch/look.h"
#include "python/call/object.h"

namespace millrace::python {

void AddDeviceTensor(PyObject* module);

// Makes a view of tensor number `number` of a batch, as `shown` says. `owner` is the object that
// has the batch.
Ref MakeDeviceTensor(PyObject* owner, const mr_device_batch* batch, size_t number,
                     const mr_tensor& shown, const Look& look);

// Returns the stream of a number as DLPack has them: None or 1 the legacy default stream, 2 the one
// per thread, -1 none. Throws ValueError for other numbers below 0.
void* StreamOf(PyObject* number);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_DEVICE_DEVICE_TENSOR_H_
