#ifndef MILLRACE_TESTS_COLLECTIVES_REDUCER_ON_HOST_H_
#define MILLRACE_TESTS_COLLECTIVES_REDUCER_ON_HOST_H_

#include <memory>

#include "collectives/reducer/internals.h"

namespace millrace::collectives {

// For ReducerOptions::internals: this rank is on host `host`, as are all that say the same number;
// -1: the ranks that share memory are on one host.
inline std::shared_ptr<const ReducerInternals> OnHost(int host) {
  return std::make_shared<const ReducerInternals>(ReducerInternals{.host = host});
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_REDUCER_ON_HOST_H_
