#ifndef MILLRACE_BASE_DTYPE_H_
#define MILLRACE_BASE_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace {

// Element types. The numbers are stable: they are hashed into digests and written to files.
enum class DType : uint8_t {
  kBytes = 0,  // one opaque byte string per sample; its shape is {length}; never in a batch
  kU8 = 1,
  kI32 = 2,
  kI64 = 3,
  kF16 = 4,
  kBF16 = 5,
  kF32 = 6,
  kF64 = 7,
};

// Bytes of one element (1 for kBytes).
size_t SizeOf(DType dtype);

// "bytes", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64".
std::string_view Name(DType dtype);

}  // namespace millrace

#endif  // MILLRACE_BASE_DTYPE_H_
