#include "collectives/reduce_internal.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace millrace::collectives {
namespace {

template <typename T>
T Sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));  // wraps
  } else {
    return a + b;
  }
}

template <typename T>
void AccumulateAs(ReduceOp op, void* accumulator, const void* in, size_t count) {
  T* __restrict a = static_cast<T*>(accumulator);
  const T* __restrict b = static_cast<const T*>(in);
  switch (op) {
    case ReduceOp::kSum:
      for (size_t i = 0; i < count; ++i) a[i] = Sum(a[i], b[i]);
      break;
    case ReduceOp::kMin:
      for (size_t i = 0; i < count; ++i) a[i] = std::min(a[i], b[i]);
      break;
    case ReduceOp::kMax:
      for (size_t i = 0; i < count; ++i) a[i] = std::max(a[i], b[i]);
      break;
  }
}

}  // namespace

bool IsTaken(DType dtype) {
  switch (dtype) {
    case DType::kU8:
    case DType::kI32:
    case DType::kI64:
    case DType::kF32:
    case DType::kF64:
      return true;
    default:
      return false;
  }
}

std::string_view Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
  }
  return "unknown";
}

void Accumulate(DType dtype, ReduceOp op, void* accumulator, const void* in, size_t count) {
  switch (dtype) {
    case DType::kU8:
      return AccumulateAs<uint8_t>(op, accumulator, in, count);
    case DType::kI32:
      return AccumulateAs<int32_t>(op, accumulator, in, count);
    case DType::kI64:
      return AccumulateAs<int64_t>(op, accumulator, in, count);
    case DType::kF32:
      return AccumulateAs<float>(op, accumulator, in, count);
    case DType::kF64:
      return AccumulateAs<double>(op, accumulator, in, count);
    default:
      return;  // excluded by REQUIRES
  }
}

}  // namespace millrace::collectives
