#ifndef MILLRACE_COLLECTIVES_AGREED_H_
#define MILLRACE_COLLECTIVES_AGREED_H_

#include "absl/status/status.h"

// A mark on errors that every rank of a group returns from the same collective call. No rank waits
// for another after such an error, so no Abort is needed, and one rank's report to the user is
// enough.

namespace millrace::collectives {

// Returns `status`, which must not be OK, with the mark.
absl::Status MarkAgreed(absl::Status status);

// True for a status that MarkAgreed made, also after Annotate.
bool IsAgreed(const absl::Status& status);

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_AGREED_H_
