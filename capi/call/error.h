#ifndef MILLRACE_CAPI_CALL_ERROR_H_
#define MILLRACE_CAPI_CALL_ERROR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/record_error.h"
#include "capi/millrace.h"
#include "collectives/peer_lost.h"

// An error as C sees it: what a status holds, copied out, so that reading it cannot fail.
struct mr_error {
  int32_t code = MR_OK;
  bool retryable = false;
  std::string message = {};
  std::optional<millrace::RecordError> record = {};
  std::optional<millrace::collectives::PeerLost> peer = {};
};

namespace millrace::capi {

// True for a code that an error can have.
inline bool IsErrorCode(int32_t code) { return code > MR_OK && code <= MR_UNAUTHENTICATED; }

// Returns the status as an error that the caller owns; null for OK. Where there is no memory for
// it, the error says that instead.
mr_error* MakeError(const absl::Status& status) noexcept;

// Returns the status that an error of the program holds, and frees it; OK for null.
absl::Status TakeError(mr_error* error);

// Writes the status that a program gives to `call` as a code and a text, which may be null.
//   INVALID_ARGUMENT  the code is none of an error
absl::Status TakeReason(const char* call, int32_t code, const char* message, absl::Status& reason);

// Returns the record of an error as a struct of C that borrows its texts.
mr_record RecordOf(const RecordError& record);

// Returns the error that needs no memory. mr_error_free takes it, and leaves it as it is.
mr_error* NoMemoryError() noexcept;

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_CALL_ERROR_H_
