#ifndef MILLRACE_BASE_CANCELS_H_
#define MILLRACE_BASE_CANCELS_H_

#include <functional>

#include "absl/status/status.h"

namespace millrace {

// Returns true if the caller of long work wants it to end. The work asks ten times a second and
// more, by any of its threads and by several at once, so it must be thread-safe and return at once.
// Empty: nobody is asked.
using Cancels = std::function<bool()>;

// Returns CANCELLED, with `message`, if `cancels` returns true.
absl::Status CheckGoesOn(const Cancels& cancels, const char* message);

}  // namespace millrace

#endif  // MILLRACE_BASE_CANCELS_H_
