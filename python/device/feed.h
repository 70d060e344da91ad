#ifndef MILLRACE_PYTHON_DEVICE_FEED_H_
#define MILLRACE_PYTHON_DEVICE_FEED_H_

#include "python/call/object.h"

namespace millrace::python {

// The type of a loader whose batches lie in the memory of a device.
void AddFeed(PyObject* module);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_DEVICE_FEED_H_
