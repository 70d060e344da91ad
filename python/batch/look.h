#ifndef MILLRACE_PYTHON_BATCH_LOOK_H_
#define MILLRACE_PYTHON_BATCH_LOOK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "python/call/object.h"

namespace millrace::python {

// The fields of a loader's batches.
struct Fields {
  enum class Kind { kRows, kRagged, kSplits };  // which extent the first one is
  Ref names;                                    // a tuple of str
  Ref numbers;                                  // a dict: the number of each name
  std::vector<Kind> kinds;
  Ref codes;  // a dict: what a state says of the code of each Python op
};

// How a loader's batches look.
struct Look {
  std::shared_ptr<const Fields> fields;  // without names until there is a batch
  bool trim = false;                     // true if rows of padding are left out of views
  bool readonly = false;                 // true if views may not be written
  int32_t device = 0;                    // CUDA's number of the device that they lie on, if any
};

std::shared_ptr<const Fields> MakeFields(const std::vector<std::string>& names, Ref codes);

// Returns the number of a field; throws KeyError if there is none of that name.
size_t NumberOf(const Fields& fields, PyObject* name);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_BATCH_LOOK_H_
