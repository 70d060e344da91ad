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
  // Per sample; the first extent may be kUnknown: as many as the bytes hold, the other extents'
  // product at a time.
  Shape shape;
};

// The op `decode_raw`: bytes as numbers, little endian, in row-major order. Consumes the field. The
// output points at the bytes themselves where their address suits the dtype, else at a copy.
// Row errors: INVALID_ARGUMENT kFeature (other length).
absl::StatusOr<std::unique_ptr<Op>> MakeDecodeRaw(DecodeRawOptions options);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_DECODE_RAW_H_
