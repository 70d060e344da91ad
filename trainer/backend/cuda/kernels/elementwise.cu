// Activations, sums and products of values, and rows cut and joined.

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "trainer/backend/cuda/kernels/entries.h"
#include "trainer/backend/cuda/kernels/indices.cuh"
#include "trainer/backend/cuda/kernels/numbers.cuh"
#include "trainer/backend/cuda/kernels/values.cuh"

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {
namespace {

// A NaN stays one in all of them.
__device__ inline float ActivationOf(LayerKind kind, float slope, float x) {
  switch (kind) {
    case LayerKind::kRelu:
      return x < 0 ? 0 : x;
    case LayerKind::kRelu6:
      return x < 0 ? 0 : (x > 6 ? 6 : x);
    case LayerKind::kLeakyRelu:
      return x < 0 ? slope * x : x;
    case LayerKind::kSigmoid:
      return Sigmoid(x);
    case LayerKind::kTanh:
      return Tanh(x);
    case LayerKind::kSilu:
      return x * Sigmoid(x);
    default:
      return x;
  }
}

// The derivative, by the input of a SiLU and by the output y of all others. A leaky ReLU's output
// has the sign of its input, unless its slope is negative: then `y` is the input.
__device__ inline float SlopeOf(LayerKind kind, float slope, float y) {
  switch (kind) {
    case LayerKind::kRelu:
      return y > 0 ? 1 : 0;
    case LayerKind::kRelu6:
      return y > 0 && y < 6 ? 1 : 0;
    case LayerKind::kLeakyRelu:
      return y > 0 ? 1 : slope;
    case LayerKind::kSigmoid:
      return y * (1 - y);
    case LayerKind::kTanh:
      return (1 - y) * (1 + y);
    case LayerKind::kSilu: {
      const float part = Sigmoid(y);
      return part + y * part * (1 - part);
    }
    default:
      return 1;
  }
}

template <typename T, int kSize>
__global__ void ActivateKernel(ActivationArgs args, int64_t count) {
  for (int64_t i = FirstIndex() * kSize; i < count; i += IndexStep() * kSize) {
    float values[kSize];
    Load(static_cast<const T*>(args.from) + i, values);
    if (args.bias != nullptr) {
      const float* const bias = args.bias + Divide(i, args.channels).rest;
      MILLRACE_UNROLL
      for (int k = 0; k < kSize; ++k) values[k] += bias[k];
    }
    MILLRACE_UNROLL
    for (int k = 0; k < kSize; ++k) values[k] = ActivationOf(args.kind, args.slope, values[k]);
    Store(values, static_cast<T*>(args.to) + i);
  }
}

template <typename T, int kSize>
__global__ void ActivateBackwardKernel(ActivationBackwardArgs args, const T* by) {
  for (int64_t i = FirstIndex() * kSize; i < args.count; i += IndexStep() * kSize) {
    float values[kSize];
    float gradient[kSize];
    Load(by + i, values);
    Load(static_cast<const T*>(args.gradient) + i, gradient);
    MILLRACE_UNROLL
    for (int k = 0; k < kSize; ++k) gradient[k] *= SlopeOf(args.kind, args.slope, values[k]);
    StoreOrAdd(gradient, args.accumulates, static_cast<T*>(args.to) + i);
  }
}

template <typename T, int kSize>
__global__ void BinaryKernel(BinaryArgs args) {
  for (int64_t i = FirstIndex() * kSize; i < args.count; i += IndexStep() * kSize) {
    float a[kSize];
    Load(static_cast<const T*>(args.a) + i, a);
    if (args.b != nullptr) {
      float b[kSize];
      Load(static_cast<const T*>(args.b) + i, b);
      MILLRACE_UNROLL
      for (int k = 0; k < kSize; ++k) a[k] = args.multiplies ? a[k] * b[k] : a[k] + b[k];
    }
    StoreOrAdd(a, args.accumulates, static_cast<T*>(args.to) + i);
  }
}

template <typename T, int kSize>
__global__ void SliceKernel(SliceArgs args, int64_t packs) {
  for (int64_t i = FirstIndex(); i < packs; i += IndexStep()) {
    int64_t row = i;
    const int64_t column = TakeLast(row, args.width / kSize) * kSize;
    float values[kSize];
    Load(static_cast<const T*>(args.from) + row * args.from_width + args.from_begin + column,
         values);
    StoreOrAdd(values, args.accumulates,
               static_cast<T*>(args.to) + row * args.to_width + args.to_begin + column);
  }
}

Grid ElementGrid(const char* name, int64_t packs) {
  return {.name = name, .blocks = BlocksFor(packs), .threads = kThreads};
}

}  // namespace

absl::Status Activate(void* stream, const ActivationArgs& args) {
  const int64_t count = args.pixels * args.channels;
  if (count == 0) return absl::OkStatus();
  const bool vectors = AllowVectors({args.from, args.to}, SizeOf(args.type),
                                    {count, args.bias == nullptr ? 0 : args.channels});
  return WithPacks(args.type, vectors, [&]<typename T, int kSize>() {
    return Launch(stream, ElementGrid("activate", count / kSize), ActivateKernel<T, kSize>, args,
                  count);
  });
}

absl::Status ActivateBackward(void* stream, const ActivationBackwardArgs& args) {
  if (args.count == 0) return absl::OkStatus();
  const bool has_sign_of_input = args.kind != LayerKind::kLeakyRelu || args.slope >= 0;
  const bool by_input = args.kind == LayerKind::kSilu || !has_sign_of_input;
  const void* const by = by_input ? args.input : args.output;
  const bool vectors = AllowVectors({by, args.gradient, args.to}, SizeOf(args.type), {args.count});
  return WithPacks(args.type, vectors, [&]<typename T, int kSize>() {
    return Launch(stream, ElementGrid("activate_backward", args.count / kSize),
                  ActivateBackwardKernel<T, kSize>, args, static_cast<const T*>(by));
  });
}

absl::Status AddOrMultiply(void* stream, const BinaryArgs& args) {
  if (args.count == 0) return absl::OkStatus();
  const bool vectors = AllowVectors({args.a, args.b, args.to}, SizeOf(args.type), {args.count});
  return WithPacks(args.type, vectors, [&]<typename T, int kSize>() {
    return Launch(stream, ElementGrid("binary", args.count / kSize), BinaryKernel<T, kSize>, args);
  });
}

absl::Status CopySlice(void* stream, const SliceArgs& args) {
  if (args.rows * args.width == 0) return absl::OkStatus();
  const bool vectors =
      AllowVectors({args.from, args.to}, SizeOf(args.type),
                   {args.from_width, args.from_begin, args.to_width, args.to_begin, args.width});
  return WithPacks(args.type, vectors, [&]<typename T, int kSize>() {
    const int64_t packs = args.rows * (args.width / kSize);
    return Launch(stream, ElementGrid("slice", packs), SliceKernel<T, kSize>, args, packs);
  });
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD
