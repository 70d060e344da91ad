#ifndef MILLRACE_PYTHON_CORE_BATCH_H_
#define MILLRACE_PYTHON_CORE_BATCH_H_

#include <memory>
#include <vector>

#include "capi/millrace.h"
#include "python/core/object.h"

namespace millrace::python {

// The fields of a loader's batches.
struct Fields {
  enum class Kind { kRows, kRagged, kSplits };  // which extent the first one is
  Ref names;                                    // a tuple of str
  Ref numbers;                                  // a dict: the number of each name
  std::vector<Kind> kinds;
};

// How a loader's batches look.
struct Look {
  std::shared_ptr<const Fields> fields;  // NULL until there is a batch
  bool trim = false;                     // true if rows of padding are left out of views
  bool readonly = false;                 // true if views may not be written
};

void AddBatch(PyObject* module);

// Sets the class of batches, a subclass of _core.Batch without fields of its own.
void SetBatchType(PyObject* type);

// Takes over a batch of the loader that has this look.
Ref MakeBatch(mr_batch* batch, Look& look);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_CORE_BATCH_H_
