#include "capi/dlpack.h"

#include <array>
#include <memory>

#include "base/status.h"
#include "capi/batch/batch.h"
#include "capi/batch/tensor.h"
#include "capi/call/guard.h"

namespace millrace::capi {
namespace {

absl::StatusOr<DLDataType> DlTypeOf(DType dtype) {
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

// A tensor that holds its batch, with its extents.
struct Held {
  DLManagedTensorVersioned managed = {};
  std::array<int64_t, MR_MAX_RANK> shape = {};
  std::array<int64_t, MR_MAX_RANK> strides = {};
  mr_batch* batch = nullptr;

  static void Delete(DLManagedTensorVersioned* managed) {
    auto* const held = static_cast<Held*>(managed->manager_ctx);
    mr_batch_release(held->batch);
    delete held;
  }
};

absl::StatusOr<std::unique_ptr<Held>> Hold(const mr_batch& batch, size_t index) {
  MILLRACE_ASSIGN_OR_RETURN(const ConstTensorView view, TensorOf(batch.batch, index));
  MILLRACE_ASSIGN_OR_RETURN(const DLDataType dtype, DlTypeOf(view.dtype));
  auto held = std::make_unique<Held>();
  const int rank = view.shape.rank();
  int64_t stride = 1;  // in elements
  for (int i = rank - 1; i >= 0; --i) {
    held->shape[i] = view.shape[i];
    held->strides[i] = stride;
    stride *= view.shape[i];
  }
  held->managed.version = {1, 0};
  held->managed.manager_ctx = held.get();
  held->managed.deleter = Held::Delete;
  held->managed.dl_tensor = {.data = const_cast<void*>(view.data),
                             .device = {kDLCPU, 0},
                             .ndim = rank,
                             .dtype = dtype,
                             .shape = held->shape.data(),
                             .strides = held->strides.data(),
                             .byte_offset = 0};
  return held;
}

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;

mr_error* mr_batch_dlpack(const mr_batch* batch, size_t index, DLManagedTensorVersioned** tensor) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_batch_dlpack", {{"batch", batch != nullptr}, {"tensor", tensor != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<capi::Held> held, capi::Hold(*batch, index));
    held->batch = mr_batch_retain(const_cast<mr_batch*>(batch));  // its count alone is changed
    *tensor = &held.release()->managed;
    return absl::OkStatus();
  });
}
