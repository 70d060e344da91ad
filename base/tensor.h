#ifndef MILLRACE_BASE_TENSOR_H_
#define MILLRACE_BASE_TENSOR_H_

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "base/shape.h"

namespace millrace {

// A borrowed dense tensor, row-major and contiguous. Owns nothing: the function that returns one
// states how long its memory lives. A value type.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kU8;
  Shape shape;

  size_t size_bytes() const { return static_cast<size_t>(shape.num_elements()) * SizeOf(dtype); }
  template <typename T>
  std::span<T> as() const {
    return {static_cast<T*>(data), static_cast<size_t>(shape.num_elements())};
  }
};

// The same, read only.
struct ConstTensorView {
  const void* data = nullptr;
  DType dtype = DType::kU8;
  Shape shape;

  ConstTensorView() = default;
  ConstTensorView(const void* data_in, DType dtype_in, const Shape& shape_in)
      : data(data_in), dtype(dtype_in), shape(shape_in) {}
  ConstTensorView(const TensorView& view)  // NOLINT: a view narrows to a read-only view
      : data(view.data), dtype(view.dtype), shape(view.shape) {}

  size_t size_bytes() const { return static_cast<size_t>(shape.num_elements()) * SizeOf(dtype); }
  template <typename T>
  std::span<const T> as() const {
    return {static_cast<const T*>(data), static_cast<size_t>(shape.num_elements())};
  }
};

}  // namespace millrace

#endif  // MILLRACE_BASE_TENSOR_H_
