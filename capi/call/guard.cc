#include "capi/call/guard.h"

#include "absl/strings/str_cat.h"

namespace millrace::capi {

absl::Status CheckGiven(const char* call, std::initializer_list<Argument> arguments) {
  for (const Argument& argument : arguments) {
    if (argument.given) continue;
    return absl::InvalidArgumentError(absl::StrCat(call, ": ", argument.name, " is NULL"));
  }
  return absl::OkStatus();
}

}  // namespace millrace::capi
