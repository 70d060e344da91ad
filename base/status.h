#ifndef MILLRACE_BASE_STATUS_H_
#define MILLRACE_BASE_STATUS_H_

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// Debian's Abseil has a string_view of its own, so std::string_view needs a spelt-out conversion.
// Our interfaces use std types only; these two lines are the border.

namespace millrace {

inline absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view ToStd(absl::string_view text) { return {text.data(), text.size()}; }

// Returns `status` with "context: " before its message; code and payloads stay. OK stays OK.
// Each layer that knows more (path, shard, rank, tensor, config line) adds it once.
absl::Status Annotate(const absl::Status& status, std::string_view context);

// Returns a status for the failed system call `call` on `subject`, made from `error_number` as absl
// maps it, but for EFBIG (RESOURCE_EXHAUSTED) and ELOOP (FAILED_PRECONDITION).
absl::Status ErrnoStatus(int error_number, std::string_view call, std::string_view subject);

// Returns `status`, which must not be OK, marked as retryable: its cause is in the caller's hands
// (batches that it holds, for example), and once the cause is gone the next call goes on.
absl::Status MarkRetryable(absl::Status status);

// True for a status made by MarkRetryable, also after Annotate. Any other error is final: the same
// object returns it again.
bool IsRetryable(const absl::Status& status);

}  // namespace millrace

#define MILLRACE_CONCAT_INNER_(a, b) a##b
#define MILLRACE_CONCAT_(a, b) MILLRACE_CONCAT_INNER_(a, b)

// Returns from the enclosing function when `expr` (an absl::Status) is not OK.
#define MILLRACE_RETURN_IF_ERROR(expr)                                                           \
  do {                                                                                           \
    if (absl::Status millrace_status_ = (expr); !millrace_status_.ok()) return millrace_status_; \
  } while (false)

// Assigns the value of `expr` (an absl::StatusOr) to `lhs`, or returns its status.
#define MILLRACE_ASSIGN_OR_RETURN(lhs, expr) \
  MILLRACE_ASSIGN_OR_RETURN_IMPL_(MILLRACE_CONCAT_(millrace_result_, __LINE__), lhs, expr)
#define MILLRACE_ASSIGN_OR_RETURN_IMPL_(result, lhs, expr) \
  auto result = (expr);                                    \
  if (!result.ok()) return result.status();                \
  lhs = std::move(result).value()

#endif  // MILLRACE_BASE_STATUS_H_
