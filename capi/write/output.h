#ifndef MILLRACE_CAPI_WRITE_OUTPUT_H_
#define MILLRACE_CAPI_WRITE_OUTPUT_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/made_folder.h"

namespace millrace::capi {

// The place of the shards of a prefix.
struct Output {
  MadeFolder folder;
  std::string prefix;
};

// Makes the folder of a prefix. `type`: the struct whose field it is.
//   INVALID_ARGUMENT  it is null, a URL, or ends in no name
//   PERMISSION_DENIED, ...  the folder cannot be made
absl::StatusOr<Output> MakeOutput(const char* type, const char* prefix);

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_WRITE_OUTPUT_H_
