#ifndef MILLRACE_COLLECTIVES_REDUCER_PRIVATE_OPTIONS_H_
#define MILLRACE_COLLECTIVES_REDUCER_PRIVATE_OPTIONS_H_

#include <chrono>
#include <cstdint>

#include "collectives/gradient_reducer.h"
#include "collectives/host/flag.h"

namespace millrace::collectives {

// The options that users have, and those that only this library and its tests set.
struct PrivateReducerOptions : ReducerOptions {
  PrivateReducerOptions() = default;
  PrivateReducerOptions(const ReducerOptions& options) : ReducerOptions(options) {}  // implicit

  // The distance of the reducer's steps in messages: the number of reducers that take steps by
  // turns.
  int64_t step_stride = 1;
  // The number of this rank's host: ranks with the same number count as one host. -1: ranks that
  // share memory do. Tests alone set it.
  int host = -1;
  // The clock of waits for ranks of the host. Tests alone set it.
  ClockFunction clock = &std::chrono::steady_clock::now;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_PRIVATE_OPTIONS_H_
