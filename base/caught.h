#ifndef MILLRACE_BASE_CAUGHT_H_
#define MILLRACE_BASE_CAUGHT_H_

#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Where a thread starts work that others wrote, or that takes memory: nothing may get out of it,
// since an exception that leaves a thread ends the process.

namespace millrace {

// The exception that is being handled, as a status.
//   RESOURCE_EXHAUSTED  the system gave no memory (std::bad_alloc) or no thread (std::system_error)
//   INTERNAL            any other; the text is "exception: ..."
absl::Status ThrownError();

// Calls `work`, and returns what it returns (OK if that is nothing), or its exception.
template <typename Work>
auto Caught(const Work& work) {
  using Result = std::invoke_result_t<const Work&>;
  using Returned = std::conditional_t<std::is_void_v<Result>, absl::Status, Result>;
  try {
    if constexpr (std::is_void_v<Result>) {
      work();
      return Returned();
    } else {
      return Returned(work());
    }
  } catch (...) {
    return Returned(ThrownError());
  }
}

}  // namespace millrace

#endif  // MILLRACE_BASE_CAUGHT_H_
