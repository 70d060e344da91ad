#include "augment/resize/image.h"

#include <algorithm>

#include "augment/field/convert.h"
#include "augment/resize/resize.h"

namespace millrace::augment {
namespace {

void ResizeBytes(const PixelView& in, const ResizeTarget& target, void* out) {
  const size_t element = SizeOf(in.dtype);
  ResizeNearest(static_cast<const std::byte*>(in.data), in.height, in.width,
                static_cast<size_t>(in.stride) * element,
                static_cast<size_t>(in.channels) * element,
                {static_cast<std::byte*>(out), target.height, target.width});
}

// `in` itself if its rows lie one behind the other, or a copy of which that is true.
template <typename T>
const T* Dense(const ImageView<T>& in, RunArena& arena) {
  const int64_t row = in.width * in.channels;
  if (in.stride == row) return in.data;
  T* const dense = AllocateArray<T>(arena, in.height * row);
  for (int64_t y = 0; y < in.height; ++y) {
    std::copy_n(in.data + y * in.stride, row, dense + y * row);
  }
  return dense;
}

// To the same dtype.
template <typename T>
void ResizeAs(const PixelView& in, const ResizeTarget& target, void* memory, RunArena& arena) {
  const ImageView<T> view{static_cast<const T*>(in.data), in.height, in.width, in.stride,
                          in.channels};
  const ImageTarget<T> out{static_cast<T*>(memory), target.height, target.width};
  switch (target.method) {
    case ResizeMethod::kNearest:
      return ResizeBytes(in, target, memory);
    case ResizeMethod::kArea:
      return ResizeArea(Dense(view, arena), in.height, in.width, in.channels, out.data, out.height,
                        out.width);
    case ResizeMethod::kBicubic:
      if (!target.antialias) return ResizeBicubic(view, out, arena);
      return ResizeAntialias(view, true, out, arena);
    case ResizeMethod::kBilinear:
      break;
  }
  if (target.antialias) return ResizeAntialias(view, false, out, arena);
  ResizeBilinear(view.data, in.height, in.width, in.stride, in.channels, out.data, out.height,
                 out.width, arena);
}

// With every value as float32, dense where that is another dtype.
PixelView ToFloats(const PixelView& in, RunArena& arena) {
  if (in.dtype == DType::kF32) return in;
  const int64_t row = in.width * in.channels;
  auto* const floats = AllocateArray<float>(arena, in.height * row);
  const auto* const bytes = static_cast<const uint8_t*>(in.data);
  for (int64_t y = 0; y < in.height; ++y) {
    std::copy_n(bytes + y * in.stride, row, floats + y * row);
  }
  return {floats, DType::kF32, row, in.height, in.width, in.channels};
}

uint8_t ToByte(float value) {
  uint8_t byte = 0;
  ConvertFloat(value, DType::kU8, &byte);
  return byte;
}

}  // namespace

PixelView ViewOf(const ConstTensorView& image, const Region& region) {
  const int64_t channels = image.shape[2], stride = image.shape[1] * channels;
  const int64_t first = region.top * stride + region.left * channels;
  const auto* const data = static_cast<const std::byte*>(image.data);
  return {data + static_cast<size_t>(first) * SizeOf(image.dtype),
          image.dtype,
          stride,
          region.height,
          region.width,
          channels};
}

void ResizeImage(const PixelView& in, const ResizeTarget& target, void* out, RunArena& arena) {
  if (target.method == ResizeMethod::kNearest && target.dtype == in.dtype) {
    return ResizeBytes(in, target, out);
  }
  if (target.dtype == DType::kU8 && in.dtype == DType::kU8) {
    return ResizeAs<uint8_t>(in, target, out, arena);
  }
  const PixelView floats = ToFloats(in, arena);
  if (target.dtype == DType::kF32) return ResizeAs<float>(floats, target, out, arena);
  const int64_t count = target.height * target.width * in.channels;
  auto* const resized = AllocateArray<float>(arena, count);
  ResizeAs<float>(floats, target, resized, arena);
  std::transform(resized, resized + count, static_cast<uint8_t*>(out), ToByte);
}

}  // namespace millrace::augment
