#include "base/status.h"

#include <cerrno>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr char kRetryableUrl[] = "millrace/retryable";

}  // namespace

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(ToAbsl(context), ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

absl::Status ErrnoStatus(int error_number, std::string_view call, std::string_view subject) {
  const absl::Status status =
      absl::ErrnoToStatus(error_number, absl::StrCat(ToAbsl(subject), ": ", ToAbsl(call)));
  // Absl's codes for these two say less: OUT_OF_RANGE and UNKNOWN.
  if (error_number == EFBIG) return absl::ResourceExhaustedError(status.message());
  if (error_number == ELOOP) return absl::FailedPreconditionError(status.message());
  return status;
}

absl::Status MarkRetryable(absl::Status status) {
  status.SetPayload(kRetryableUrl, absl::Cord());
  return status;
}

bool IsRetryable(const absl::Status& status) {
  return status.GetPayload(kRetryableUrl).has_value();
}

}  // namespace millrace
