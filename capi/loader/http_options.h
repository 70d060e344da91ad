#ifndef MILLRACE_CAPI_LOADER_HTTP_OPTIONS_H_
#define MILLRACE_CAPI_LOADER_HTTP_OPTIONS_H_

#include "absl/status/statusor.h"
#include "capi/millrace_options.h"
#include "readers/http_options.h"

namespace millrace::capi {

// Returns the options as C++ has them; the defaults for null.
//   INVALID_ARGUMENT  the struct is not valid
absl::StatusOr<readers::HttpOptions> HttpOptionsOf(const mr_http_options* given);

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_LOADER_HTTP_OPTIONS_H_
