#ifndef MILLRACE_BASE_RECORD_ERROR_H_
#define MILLRACE_BASE_RECORD_ERROR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace millrace {

// Why a record is bad. The numbers are stable; the texts of messages are not API.
enum class RecordErrorReason : int32_t {
  kUnknown = 0,
  kLengthCrc = 1,         // the CRC of the length field does not match
  kDataCrc = 2,           // the CRC of the payload does not match
  kTruncatedHeader = 3,   // 1-11 stray bytes where a record header should stand
  kTruncatedPayload = 4,  // the file ends inside a payload or its CRC
  kAbsurdLength = 5,      // a length over the declared cap
  kCompressedData = 6,    // the gzip, zlib or zstd stream is corrupt
  kCompressedCut = 7,     // the compressed stream ends before its end marker
  kWrongCompression = 8,  // the bytes do not look like the declared compression
  kExample = 9,           // the payload is not a valid tf.train.Example (CSV row, JSON, tar sample)
  kFeature = 10,          // a feature is missing, or has another type or length than declared
  kImage = 11,            // image bytes that no decoder takes
  kValue = 12,            // a value outside the range an op accepts (a label >= depth, say)
};

std::string_view RecordErrorReasonName(RecordErrorReason reason);

// The identity of a bad record, which travels as a payload of absl::Status.
struct RecordError {
  std::string file;
  int64_t offset = -1;    // bytes from the start of the (inflated) file; -1: not known
  int64_t ordinal = -1;   // number of the record in its file, from 0; -1: not known
  int64_t position = -1;  // position in the stream of the pipeline; -1: not in a pipeline
  RecordErrorReason reason = RecordErrorReason::kUnknown;
};

// Attaches `error` to `status` (which must not be OK), replacing an earlier one.
void SetRecordError(absl::Status& status, const RecordError& error);

// Returns the error that SetRecordError attached; nullopt if there is none or it is malformed.
std::optional<RecordError> GetRecordError(const absl::Status& status);

// Makes a status with code `code`, a message "FILE: record ORDINAL at offset OFFSET: TEXT", and
// `error` attached.
absl::Status MakeRecordError(absl::StatusCode code, const RecordError& error,
                             std::string_view text);

}  // namespace millrace

#endif  // MILLRACE_BASE_RECORD_ERROR_H_
