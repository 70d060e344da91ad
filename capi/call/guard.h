#ifndef MILLRACE_CAPI_CALL_GUARD_H_
#define MILLRACE_CAPI_CALL_GUARD_H_

#include <initializer_list>
#include <string_view>

#include "absl/status/status.h"
#include "base/caught.h"
#include "capi/call/error.h"

// The common parts of every call.

namespace millrace::capi {

// Calls `body`, which returns a status, and returns it as an error of C. An exception is an error:
// no memory is RESOURCE_EXHAUSTED.
template <typename Body>
mr_error* Guard(const Body& body) noexcept {
  try {
    return MakeError(Caught(body));
  } catch (...) {  // no memory for the text of the exception
    return NoMemoryError();
  }
}

// An argument that must not be null.
struct Argument {
  const char* name;
  bool given;
};
//   INVALID_ARGUMENT  "CALL: NAME is NULL"
absl::Status CheckGiven(const char* call, std::initializer_list<Argument> arguments);

// Hands a text to a sink.
inline void Pour(std::string_view text, mr_sink sink, void* user) {
  sink(user, text.data(), text.size());
}

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_CALL_GUARD_H_
