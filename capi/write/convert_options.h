#ifndef MILLRACE_CAPI_WRITE_CONVERT_OPTIONS_H_
#define MILLRACE_CAPI_WRITE_CONVERT_OPTIONS_H_

#include "absl/status/statusor.h"
#include "capi/millrace.h"
#include "readers/convert.h"

namespace millrace::capi {

// Returns the options as C++ has them, but for the prefix. `cancels` becomes theirs, and is asked
// here while files are listed. They borrow the callbacks' user.
//   INVALID_ARGUMENT  names the first word that says nothing
//   NOT_FOUND, ...    the file of classes cannot be read, or a pattern matches nothing
absl::StatusOr<readers::ConvertOptions> ConvertOptionsOf(const mr_convert_options& taken,
                                                         Cancels cancels);

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_WRITE_CONVERT_OPTIONS_H_
