#ifndef MILLRACE_READERS_CONTAINER_DETECT_H_
#define MILLRACE_READERS_CONTAINER_DETECT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/io.h"
#include "base/record_error.h"
#include "readers/container/container.h"
#include "readers/record.h"

// Tells what a file is compressed with, and why a record header is wrong.

namespace millrace::readers {

// Decides what `file` is compressed with by its first bytes: kNone when they are a TFRecord header
// with a good CRC, kGzip, kZlib or kZstd when they start such a stream, otherwise kNone.
absl::StatusOr<Compression> DetectCompression(const RandomAccessFile& file);

// Returns the compression of `file` as a whole, where `container` tells its plain files by their
// first bytes; never kAuto.
absl::StatusOr<Compression> DetectCompression(const RandomAccessFile& file,
                                              const Container& container);

// The meaning of a record header with a bad CRC.
struct BadHeader {
  RecordErrorReason reason = RecordErrorReason::kLengthCrc;
  std::string text;
};

// Explains the kHeaderBytes at `header`, whose CRC is bad and which stand at `offset` of the bytes
// of a file. At the front of a `plain` one they may start a compressed stream: kWrongCompression.
BadHeader ExplainBadHeader(const std::byte* header, uint64_t offset, bool plain);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CONTAINER_DETECT_H_
