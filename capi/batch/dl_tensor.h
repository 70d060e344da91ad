#ifndef MILLRACE_CAPI_BATCH_DL_TENSOR_H_
#define MILLRACE_CAPI_BATCH_DL_TENSOR_H_

#include <array>
#include <memory>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/shape.h"
#include "base/status.h"
#include "capi/dlpack.h"
#include "capi/millrace.h"

namespace millrace::capi {

inline absl::StatusOr<DLDataType> DlTypeOf(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * SizeOf(dtype));
  switch (dtype) {
    case DType::kBytes:
      break;
    case DType::kU8:
      return DLDataType{kDLUInt, bits, 1};
    case DType::kI32:
    case DType::kI64:
      return DLDataType{kDLInt, bits, 1};
    case DType::kBF16:
      return DLDataType{kDLBfloat, bits, 1};
    case DType::kF16:
    case DType::kF32:
    case DType::kF64:
      return DLDataType{kDLFloat, bits, 1};
  }
  return absl::InternalError("a batch has a tensor of bytes");
}

// A DLPack tensor with its extents, and the `Holder` that its memory belongs to, which ends it.
template <typename Holder>
struct Held {
  DLManagedTensorVersioned managed = {};
  std::array<int64_t, MR_MAX_RANK> shape = {};
  std::array<int64_t, MR_MAX_RANK> strides = {};
  Holder holder = {};

  static void Delete(DLManagedTensorVersioned* managed) {
    delete static_cast<Held*>(managed->manager_ctx);
  }
};

// Makes a row-major tensor without gaps. Its holder is empty.
template <typename Holder>
absl::StatusOr<std::unique_ptr<Held<Holder>>> Hold(void* data, DType dtype, const Shape& shape,
                                                   DLDevice device) {
  MILLRACE_ASSIGN_OR_RETURN(const DLDataType type, DlTypeOf(dtype));
  auto held = std::make_unique<Held<Holder>>();
  const int rank = shape.rank();
  int64_t stride = 1;  // in elements
  for (int i = rank - 1; i >= 0; --i) {
    held->shape[i] = shape[i];
    held->strides[i] = stride;
    stride *= shape[i];
  }
  held->managed.version = {1, 0};
  held->managed.manager_ctx = held.get();
  held->managed.deleter = Held<Holder>::Delete;
  held->managed.dl_tensor = {.data = data,
                             .device = device,
                             .ndim = rank,
                             .dtype = type,
                             .shape = held->shape.data(),
                             .strides = held->strides.data(),
                             .byte_offset = 0};
  return held;
}

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_BATCH_DL_TENSOR_H_
