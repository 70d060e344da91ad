#ifndef MILLRACE_COLLECTIVES_REDUCER_INTERNALS_H_
#define MILLRACE_COLLECTIVES_REDUCER_INTERNALS_H_

#include <cstdint>

#include "collectives/gradient_reducer.h"

namespace millrace::collectives {

// The options of a reducer that this library and its tests set, beyond those that users have.
struct ReducerInternals {
  // How far apart messages number the steps: of several reducers that take steps by turns each
  // sees every second step, say.
  int64_t step_stride = 1;
  // Ranks with the same number count as one host, in tests; -1: those that share memory do.
  int host = -1;
};

inline ReducerInternals InternalsOf(const ReducerOptions& options) {
  return options.internals != nullptr ? *options.internals : ReducerInternals();
}

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_INTERNALS_H_
