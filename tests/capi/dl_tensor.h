#ifndef MILLRACE_TESTS_CAPI_DL_TENSOR_H_
#define MILLRACE_TESTS_CAPI_DL_TENSOR_H_

#include <stdint.h>

// DLManagedTensorVersioned, as dlpack.h 1.0 has it.
typedef struct dl_tensor {
  struct {
    uint32_t major, minor;
  } version;
  void* manager_ctx;
  void (*deleter)(struct dl_tensor*);
  uint64_t flags;
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} dl_tensor;

#endif  // MILLRACE_TESTS_CAPI_DL_TENSOR_H_
