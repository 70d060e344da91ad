#include "capi/call/error.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "capi/call/guard.h"
#include "capi/call/sized.h"

namespace millrace::capi {
namespace {

// Takes no memory to be made, and is told by its address.
const mr_error kNoMemory = {.code = MR_RESOURCE_EXHAUSTED};

constexpr const char* kNoMemoryText = "the system gives no more memory";

template <RecordErrorReason kReason, mr_record_reason kNumber>
constexpr bool kSame = static_cast<int32_t>(kReason) == kNumber;
static_assert(kSame<RecordErrorReason::kUnknown, MR_RECORD_UNKNOWN>);
static_assert(kSame<RecordErrorReason::kLengthCrc, MR_RECORD_LENGTH_CRC>);
static_assert(kSame<RecordErrorReason::kDataCrc, MR_RECORD_DATA_CRC>);
static_assert(kSame<RecordErrorReason::kTruncatedHeader, MR_RECORD_TRUNCATED_HEADER>);
static_assert(kSame<RecordErrorReason::kTruncatedPayload, MR_RECORD_TRUNCATED_PAYLOAD>);
static_assert(kSame<RecordErrorReason::kAbsurdLength, MR_RECORD_ABSURD_LENGTH>);
static_assert(kSame<RecordErrorReason::kCompressedData, MR_RECORD_COMPRESSED_DATA>);
static_assert(kSame<RecordErrorReason::kCompressedCut, MR_RECORD_COMPRESSED_CUT>);
static_assert(kSame<RecordErrorReason::kWrongCompression, MR_RECORD_WRONG_COMPRESSION>);
static_assert(kSame<RecordErrorReason::kExample, MR_RECORD_EXAMPLE>);
static_assert(kSame<RecordErrorReason::kFeature, MR_RECORD_FEATURE>);
static_assert(kSame<RecordErrorReason::kImage, MR_RECORD_IMAGE>);
static_assert(kSame<RecordErrorReason::kValue, MR_RECORD_VALUE>);

}  // namespace

mr_error* NoMemoryError() noexcept { return const_cast<mr_error*>(&kNoMemory); }

mr_record RecordOf(const RecordError& record) {
  mr_record shown = {};
  shown.struct_size = sizeof shown;
  shown.file = record.file.c_str();
  shown.offset = record.offset;
  shown.ordinal = record.ordinal;
  shown.position = record.position;
  shown.reason = static_cast<int32_t>(record.reason);
  return shown;
}

mr_error* MakeError(const absl::Status& status) noexcept {
  if (status.ok()) return nullptr;
  try {
    auto error = std::make_unique<mr_error>();
    error->code = static_cast<int32_t>(status.code());
    error->retryable = IsRetryable(status);
    error->message = std::string(ToStd(status.message()));
    error->record = GetRecordError(status);
    error->peer = collectives::PeerLostOf(status);
    return error.release();
  } catch (...) {
    return NoMemoryError();
  }
}

absl::Status TakeError(mr_error* error) {
  if (error == nullptr) return absl::OkStatus();
  absl::Status status(static_cast<absl::StatusCode>(error->code), mr_error_message(error));
  mr_error_free(error);
  return status;
}

absl::Status TakeReason(const char* call, int32_t code, const char* message, absl::Status& reason) {
  if (!IsErrorCode(code)) {
    return absl::InvalidArgumentError(
        absl::StrCat(call, ": code is ", code, ", which is no code of an error"));
  }
  reason = absl::Status(static_cast<absl::StatusCode>(code), message == nullptr ? "" : message);
  return absl::OkStatus();
}

}  // namespace millrace::capi

namespace capi = millrace::capi;

mr_error* mr_error_create(int32_t code, const char* message) {
  return capi::Guard([&] {
    const int32_t known = capi::IsErrorCode(code) ? code : MR_UNKNOWN;
    return absl::Status(static_cast<absl::StatusCode>(known), message == nullptr ? "" : message);
  });
}

int32_t mr_error_code(const mr_error* error) { return error == nullptr ? MR_OK : error->code; }

const char* mr_error_message(const mr_error* error) {
  if (error == nullptr) return "";
  return error == capi::NoMemoryError() ? capi::kNoMemoryText : error->message.c_str();
}

int32_t mr_error_retryable(const mr_error* error) { return error != nullptr && error->retryable; }

int32_t mr_error_record(const mr_error* error, mr_record* record) {
  if (error == nullptr || record == nullptr || !error->record.has_value()) return 0;
  return capi::Give(capi::RecordOf(*error->record), *record);
}

int32_t mr_error_peer(const mr_error* error, mr_peer* peer) {
  if (error == nullptr || peer == nullptr || !error->peer.has_value()) return 0;
  mr_peer filled = {};
  filled.step = error->peer->step;
  filled.rank = error->peer->rank;
  filled.bucket = error->peer->bucket;
  filled.phase = millrace::collectives::Name(error->peer->phase);
  return capi::Give(filled, *peer);
}

void mr_error_free(mr_error* error) {
  if (error != capi::NoMemoryError()) delete error;
}
