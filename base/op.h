#ifndef MILLRACE_BASE_OP_H_
#define MILLRACE_BASE_OP_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/run.h"
#include "base/schema.h"

namespace millrace {

// A one-to-one stage: reads columns of a run and writes columns.
// Thread-safe after Resolve: Apply runs on many workers at once, on different runs.
class Op {
 public:
  virtual ~Op() = default;

  // Checks the incoming fields and returns the outgoing ones; called once, before the first Apply.
  //   value                        the schema after this op
  //   INVALID_ARGUMENT, NOT_FOUND  a field is missing, or has a dtype or shape that the op does
  //                                not take
  virtual absl::StatusOr<Schema> Resolve(const Schema& input) = 0;

  // Works on all rows that are ok. A bad row is reported by run.Fail and must not stop the others.
  // Results depend on the row alone, never on how rows are grouped into runs.
  virtual void Apply(Run& run) const = 0;

  // The number of rows that the op prefers to get at once (a decoder interleaves images); 1: any
  // number is fine.
  virtual int64_t preferred_rows() const { return 1; }
};

}  // namespace millrace

#endif  // MILLRACE_BASE_OP_H_
