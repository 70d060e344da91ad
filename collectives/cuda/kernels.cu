// Additions and conversions of gradients on a GPU. They are bound by memory: each thread takes 16
// bytes or more at a time if all arrays are aligned to that. Sums have the same bits as on the host
// (base/half.h), on every rank and every GPU: no operations are fused, divisions are not
// approximated, and conversions round to nearest, ties to even. Only the payload of a NaN, from an
// addition or a conversion, depends on the device.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <initializer_list>

#include "collectives/cuda/kernels.h"

namespace millrace::collectives::kernels {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kMaxSumBlocks = 2048;  // more than run at once; each then takes several parts
constexpr size_t kVectorBytes = 16;       // the most that a thread loads or stores at once

__device__ float ToFloat(float value) { return value; }
__device__ float ToFloat(__half value) { return __half2float(value); }
__device__ float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ void Round(float value, float* out) { *out = value; }
__device__ void Round(float value, __half* out) { *out = __float2half_rn(value); }
__device__ void Round(float value, __nv_bfloat16* out) { *out = __float2bfloat16_rn(value); }

// Neighbours that are loaded and stored together.
template <typename T, int kSize>
struct alignas(std::min(kVectorBytes, kSize * sizeof(T))) Pack {
  T values[kSize];
};

template <int kSize, typename T>
__device__ void Load(const T* from, float (&to)[kSize]) {
  const auto pack = *reinterpret_cast<const Pack<T, kSize>*>(from);
#pragma unroll
  for (int i = 0; i < kSize; ++i) to[i] = ToFloat(pack.values[i]);
}

template <int kSize, typename T>
__device__ void Store(const float (&from)[kSize], T* to) {
  Pack<T, kSize> pack;
#pragma unroll
  for (int i = 0; i < kSize; ++i) Round(from[i], &pack.values[i]);
  *reinterpret_cast<Pack<T, kSize>*>(to) = pack;
}

// Elements `at` to `at` + kSize. All of them are loaded before the first is stored: `out` may be
// any of the addends.
template <int kSize, typename In, typename Out>
__device__ void SumAt(const BlockSum& sum, float divisor, size_t at) {
  const In* const blocks = static_cast<const In*>(sum.blocks) + at;
  float total[kSize];
  int block = 0;
  if (sum.first != nullptr) {
    Load(sum.first + at, total);
  } else {
    Load(blocks, total);
    block = 1;
  }
  for (; block < sum.num_blocks; ++block) {
    float addend[kSize];
    Load(blocks + block * sum.count, addend);
#pragma unroll
    for (int i = 0; i < kSize; ++i) total[i] = __fadd_rn(total[i], addend[i]);
  }
  if (sum.rows != nullptr) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) total[i] = __fdiv_rn(total[i], divisor);
  }
  Store(total, static_cast<Out*>(sum.out) + at);
}

template <int kSize, typename In, typename Out>
__global__ void SumKernel(BlockSum sum) {
  const size_t num_threads = size_t{gridDim.x} * kThreads;
  const size_t thread = size_t{blockIdx.x} * kThreads + threadIdx.x;
  const float divisor = sum.rows == nullptr || *sum.rows < 1 ? 1.0f : __ll2float_rn(*sum.rows);
  const size_t end = sum.count / kSize * kSize;
  for (size_t at = thread * kSize; at < end; at += num_threads * kSize) {
    SumAt<kSize, In, Out>(sum, divisor, at);
  }
  for (size_t at = end + thread; at < sum.count; at += num_threads) {
    SumAt<1, In, Out>(sum, divisor, at);
  }
}

// The sum of `mine` over all threads of the block, for its thread 0.
__device__ double BlockTotal(double mine) {
  __shared__ double totals[kThreads];
  totals[threadIdx.x] = mine;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) totals[threadIdx.x] += totals[threadIdx.x + half];
  }
  return totals[0];
}

// The same elements go to the same thread, aligned or not.
template <int kSize, typename T>
__global__ void SquaresKernel(const T* data, size_t count, bool aligned, double* partials) {
  const size_t num_threads = size_t{gridDim.x} * kThreads;
  const size_t thread = size_t{blockIdx.x} * kThreads + threadIdx.x;
  double squares = 0;
  for (size_t at = thread * kSize; at < count; at += num_threads * kSize) {
    float values[kSize] = {};
    if (aligned && count - at >= kSize) {
      Load(data + at, values);
    } else {
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        if (i < count - at) values[i] = ToFloat(data[at + i]);
      }
    }
#pragma unroll
    for (const double value : values) squares += value * value;  // the product is exact
  }
  squares = BlockTotal(squares);
  if (threadIdx.x == 0) partials[blockIdx.x] = squares;
}

__global__ void AddPartialsKernel(const double* partials, unsigned num_partials, double* sum) {
  double mine = 0;
  for (unsigned i = threadIdx.x; i < num_partials; i += kThreads) mine += partials[i];
  mine = BlockTotal(mine);
  if (threadIdx.x == 0) *sum += mine;
}

__global__ void SetKernel(int64_t* to, int64_t value) { *to = value; }

template <typename... Parameters, typename... Arguments>
cudaError_t Launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
                   cudaStream_t stream, Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// f.template operator()<T>() for the type of the elements.
template <typename F>
cudaError_t WithType(DType type, F f) {
  switch (type) {
    case DType::kF32:
      return f.template operator()<float>();
    case DType::kF16:
      return f.template operator()<__half>();
    case DType::kBF16:
      return f.template operator()<__nv_bfloat16>();
    default:
      return cudaErrorInvalidValue;
  }
}

template <typename F>
cudaError_t WithTypes(DType in, DType out, F f) {
  return WithType(in, [&]<typename In>() {
    return WithType(out, [&]<typename Out>() { return f.template operator()<In, Out>(); });
  });
}

// Elements for which each of these types has a vector or more.
template <typename... T>
constexpr int kPackOf = kVectorBytes / std::min({sizeof(T)...});

bool IsAligned(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory) % kVectorBytes == 0;
}

unsigned BlocksFor(size_t count, int pack, unsigned max_blocks) {
  const size_t per_block = size_t{kThreads} * pack;
  return static_cast<unsigned>(std::min<size_t>(max_blocks, (count + per_block - 1) / per_block));
}

template <typename... Parameters>
cudaError_t LoadKernel(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel);
}

template <typename In, typename Out>
cudaError_t LoadSum() {
  const cudaError_t error = LoadKernel(SumKernel<kPackOf<In, Out>, In, Out>);
  return error == cudaSuccess ? LoadKernel(SumKernel<1, In, Out>) : error;
}

cudaError_t LoadOfType(DType type) {
  for (const DType out : {DType::kF32, DType::kF16, DType::kBF16}) {
    const cudaError_t error =
        WithTypes(type, out, [&]<typename In, typename Out>() { return LoadSum<In, Out>(); });
    if (error != cudaSuccess) return error;
  }
  return WithType(type, [&]<typename T>() { return LoadKernel(SquaresKernel<kPackOf<T>, T>); });
}

}  // namespace

cudaError_t Load() {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (const cudaError_t error = LoadOfType(type); error != cudaSuccess) return error;
  }
  const cudaError_t error = LoadKernel(AddPartialsKernel);
  return error == cudaSuccess ? LoadKernel(SetKernel) : error;
}

cudaError_t Set(int64_t* to, int64_t value, cudaStream_t stream) {
  return Launch(SetKernel, 1, 1, stream, to, value);
}

cudaError_t Sum(const BlockSum& sum, cudaStream_t stream) {
  if (sum.count == 0) return cudaSuccess;
  return WithTypes(sum.in_type, sum.out_type, [&]<typename In, typename Out>() {
    constexpr int kPack = kPackOf<In, Out>;
    const bool aligned =
        IsAligned(sum.first) && IsAligned(sum.blocks) && IsAligned(sum.out) &&
        (sum.num_blocks == 1 || sum.count * sizeof(In) % kVectorBytes == 0);  // the blocks' starts
    if (aligned) {
      return Launch(SumKernel<kPack, In, Out>, BlocksFor(sum.count, kPack, kMaxSumBlocks), kThreads,
                    stream, sum);
    }
    return Launch(SumKernel<1, In, Out>, BlocksFor(sum.count, 1, kMaxSumBlocks), kThreads, stream,
                  sum);
  });
}

cudaError_t AddSquares(const void* data, DType type, size_t count, double* partials, double* sum,
                       cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return WithType(type, [&]<typename T>() {
    constexpr int kPack = kPackOf<T>;
    const unsigned blocks = BlocksFor(count, kPack, kMaxPartials);
    const cudaError_t error = Launch(SquaresKernel<kPack, T>, blocks, kThreads, stream,
                                     static_cast<const T*>(data), count, IsAligned(data), partials);
    if (error != cudaSuccess) return error;
    return Launch(AddPartialsKernel, 1, kThreads, stream, partials, blocks, sum);
  });
}

}  // namespace millrace::collectives::kernels
