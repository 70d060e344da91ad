#ifndef MILLRACE_TRAINER_MODEL_LAYER_DOCS_H_
#define MILLRACE_TRAINER_MODEL_LAYER_DOCS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace::trainer {

// Returns the page with the table of all layers between its lines "<!-- layers -->" and
// "<!-- end of layers -->", in place of what is there.
//   INVALID_ARGUMENT  the page lacks one of the lines, or has them in another order
absl::StatusOr<std::string> WithLayerTable(std::string_view markdown);

// Checks that the rows' options are the fields of their messages.
//   INTERNAL  a field without an option, or an option without a field; the text names it
absl::Status CheckLayerDocs();

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODEL_LAYER_DOCS_H_
