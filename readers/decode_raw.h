#ifndef MILLRACE_READERS_DECODE_RAW_H_
#define MILLRACE_READERS_DECODE_RAW_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/op.h"

namespace millrace::readers {

struct DecodeRawOptions {
  std::string field = "record";  // bytes
  std::string output;            // default: the field
  DType dtype = DType::kU8;      // not kBytes
  // Shape of a sample. The first extent may be kUnknown: it follows from the number of bytes.
  Shape shape;
};

// Makes the op `decode_raw`: bytes as numbers, little endian, in row-major order. Consumes the
// field. The output is a view of the bytes if their address suits the dtype, else a copy.
// Row errors: INVALID_ARGUMENT kFeature (other length).
absl::StatusOr<std::unique_ptr<Op>> MakeDecodeRaw(DecodeRawOptions options);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_DECODE_RAW_H_
