#include "base/record_error.h"

#include <cinttypes>
#include <cstdio>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace {
namespace {

constexpr char kPayloadUrl[] = "millrace/record_error";

}  // namespace

std::string_view RecordErrorReasonName(RecordErrorReason reason) {
  switch (reason) {
    case RecordErrorReason::kUnknown:
      return "unknown";
    case RecordErrorReason::kLengthCrc:
      return "length_crc";
    case RecordErrorReason::kDataCrc:
      return "data_crc";
    case RecordErrorReason::kTruncatedHeader:
      return "truncated_header";
    case RecordErrorReason::kTruncatedPayload:
      return "truncated_payload";
    case RecordErrorReason::kAbsurdLength:
      return "absurd_length";
    case RecordErrorReason::kCompressedData:
      return "compressed_data";
    case RecordErrorReason::kCompressedCut:
      return "compressed_cut";
    case RecordErrorReason::kWrongCompression:
      return "wrong_compression";
    case RecordErrorReason::kExample:
      return "example";
    case RecordErrorReason::kFeature:
      return "feature";
    case RecordErrorReason::kImage:
      return "image";
    case RecordErrorReason::kValue:
      return "value";
  }
  return "unknown";
}

// The payload is one line of numbers and then the file name, which may hold any byte.
void SetRecordError(absl::Status& status, const RecordError& error) {
  status.SetPayload(kPayloadUrl, absl::Cord(absl::StrCat(
                                     error.offset, " ", error.ordinal, " ", error.position, " ",
                                     static_cast<int32_t>(error.reason), "\n", error.file)));
}

std::optional<RecordError> GetRecordError(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  const size_t newline = text.find('\n');
  if (newline == std::string::npos) return std::nullopt;
  const std::string numbers = text.substr(0, newline);  // scanf would read on across the newline
  RecordError error;
  int32_t reason = 0;
  if (std::sscanf(numbers.c_str(), "%" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd32, &error.offset,
                  &error.ordinal, &error.position, &reason) != 4) {
    return std::nullopt;
  }
  error.reason = static_cast<RecordErrorReason>(reason);
  error.file = text.substr(newline + 1);
  return error;
}

absl::Status MakeRecordError(absl::StatusCode code, const RecordError& error,
                             std::string_view text) {
  std::string where = error.file;
  if (error.ordinal >= 0) absl::StrAppend(&where, ": record ", error.ordinal);
  if (error.offset >= 0)
    absl::StrAppend(&where, error.ordinal >= 0 ? " " : ": ", "at offset ", error.offset);
  absl::Status status(code, absl::StrCat(where, ": ", ToAbsl(text)));
  SetRecordError(status, error);
  return status;
}

}  // namespace millrace
