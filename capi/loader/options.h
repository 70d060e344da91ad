#ifndef MILLRACE_CAPI_LOADER_OPTIONS_H_
#define MILLRACE_CAPI_LOADER_OPTIONS_H_

#include "absl/status/statusor.h"
#include "capi/millrace.h"
#include "pipeline/pipeline.h"

namespace millrace::capi {

// Returns the options as C++ has them; the defaults for null. They borrow the callback's user.
//   INVALID_ARGUMENT  the struct, its token or its memory is not valid
absl::StatusOr<pipeline::OpenOptions> OpenOptionsOf(const mr_open_options* given);

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_LOADER_OPTIONS_H_
