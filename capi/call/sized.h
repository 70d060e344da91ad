#ifndef MILLRACE_CAPI_CALL_SIZED_H_
#define MILLRACE_CAPI_CALL_SIZED_H_

#include <cstddef>

#include "absl/status/status.h"

// Structs that begin with the size that their program was compiled with, so that programs and
// libraries of different versions fit: the smaller of the two sizes is what both know.

namespace millrace::capi {

// Of structs of `known` bytes, as Take and Give below.
absl::Status TakeBytes(const void* given, size_t known, const char* type, void* taken);
bool GiveBytes(const void* filled, size_t known, void* out);
absl::Status SizeError(const void* given, const char* type);

// Copies a caller's struct into `taken`, which is zero where the caller's is shorter, and all zero
// where `given` is null.
//   INVALID_ARGUMENT  struct_size is no size of `type`, or a field that is not known here is not 0
template <typename T>
absl::Status Take(const T* given, const char* type, T& taken) {
  return TakeBytes(given, sizeof(T), type, &taken);
}

// Copies `filled` into a caller's struct, as far as there is room, but for its struct_size; what is
// longer gets zeros. Returns false if struct_size is no size.
template <typename T>
bool Give(const T& filled, T& out) {
  return GiveBytes(&filled, sizeof(T), &out);
}

// The same as a status.
//   INVALID_ARGUMENT  struct_size is no size of `type`
template <typename T>
absl::Status Give(const T& filled, T* out, const char* type) {
  return Give(filled, *out) ? absl::OkStatus() : SizeError(out, type);
}

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_CALL_SIZED_H_
