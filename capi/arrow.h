#ifndef MILLRACE_CAPI_ARROW_H_
#define MILLRACE_CAPI_ARROW_H_

#include <cstdint>

// The structs of Arrow's C data interface, which never change
// (https://arrow.apache.org/docs/format/CDataInterface.html).

extern "C" {

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

}  // extern "C"

namespace millrace::capi {

inline constexpr int64_t kArrowNullable = 2;

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_ARROW_H_
