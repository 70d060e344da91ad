// A kernel of an optimizer is bound by memory: each thread takes 16 bytes of each array at a time,
// and writes the compute copy beside the master weights, so that nothing is read twice. Sums for
// norms are exact (square_sum.h), so the order in which threads add does not show.

#include <cfloat>
#include <cmath>
#include <type_traits>

#include "trainer/backend/cuda/kernels/indices.cuh"
#include "trainer/backend/cuda/kernels/update.cuh"
#include "trainer/backend/cuda/kernels/update.h"
#include "trainer/backend/cuda/kernels/values.cuh"
#include "trainer/optimizer/square_rounding.h"

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {
namespace {

constexpr int kUpdatePack = 4;

// Elements `at` to `at` + kSize of the region.
template <int kSize, typename Compute, typename Element>
__device__ void UpdateAt(const UpdateArgs& args, const Element& element, uint64_t at) {
  constexpr size_t kSlots = Element::kSlots;
  float gradient[kSize];
  float weight[kSize];
  float slots[kSlots][kSize];
  Load(args.gradient + at, gradient);
  Load(args.master + at, weight);
  MILLRACE_UNROLL
  for (size_t s = 0; s < kSlots; ++s) Load(args.slots[s] + (at - args.slots_begin), slots[s]);
  MILLRACE_UNROLL
  for (int i = 0; i < kSize; ++i) {
    float state[kSlots];
    for (size_t s = 0; s < kSlots; ++s) state[s] = slots[s][i];
    element(gradient[i], weight[i], state);
    for (size_t s = 0; s < kSlots; ++s) slots[s][i] = state[s];
  }
  Store(weight, args.master + at);
  MILLRACE_UNROLL
  for (size_t s = 0; s < kSlots; ++s) Store(slots[s], args.slots[s] + (at - args.slots_begin));
  if (args.compute != nullptr) Store(weight, static_cast<Compute*>(args.compute) + at);
}

// The ratio of a parameter, by norms of gradients before their scale.
__device__ inline float TrustOf(const UpdateArgs& args, uint32_t parameter,
                                const LarsElement& element) {
  const SquaresPair& squares = args.squares[parameter];
  const double weights = std::sqrt(squares.of[0][0] + squares.of[0][1]);
  const double gradient = std::sqrt(squares.of[1][0] + squares.of[1][1]);
  return args.trust.Ratio(weights, element.scale * gradient, element.decay);
}

template <int kSize, typename Compute, typename Element>
__global__ void UpdateKernel(UpdateArgs args) {
  const UpdateTile tile = args.tiles[blockIdx.x];
  Element element = static_cast<const Element*>(args.elements)[tile.group];
  if constexpr (std::is_same_v<Element, LarsElement>) {
    if (tile.has_trust != 0) element.trust = TrustOf(args, tile.parameter, element);
  }
  const uint32_t packed = tile.count / kSize * kSize;
  for (uint32_t k = threadIdx.x * kSize; k < packed; k += blockDim.x * kSize) {
    UpdateAt<kSize, Compute>(args, element, tile.begin + k);
  }
  for (uint32_t k = packed + threadIdx.x; k < tile.count; k += blockDim.x) {
    UpdateAt<1, Compute>(args, element, tile.begin + k);
  }
}

Grid GridOf(const char* name, int64_t blocks, bool has_barriers) {
  return {name, static_cast<unsigned>(blocks), kThreads, has_barriers};
}

// True if vectors may be loaded wherever a tile begins.
bool UpdateAllowsVectors(const UpdateArgs& args) {
  bool aligned = AllowVectors({args.gradient, args.master}, sizeof(float),
                              {static_cast<int64_t>(args.slots_begin)});
  for (const float* const slot : args.slots) {
    aligned = aligned && AllowVectors({slot}, sizeof(float), {});
  }
  const size_t compute_vector = kUpdatePack * SizeOf(args.compute_type);
  return aligned && args.allows_vectors &&
         reinterpret_cast<uintptr_t>(args.compute) % compute_vector == 0;
}

template <typename Element>
absl::Status UpdateBy(void* stream, const UpdateArgs& args) {
  return WithType(args.compute_type, [&]<typename Compute>() {
    const Grid grid = GridOf("update", args.num_tiles, false);
    return UpdateAllowsVectors(args)
               ? Launch(stream, grid, UpdateKernel<kUpdatePack, Compute, Element>, args)
               : Launch(stream, grid, UpdateKernel<1, Compute, Element>, args);
  });
}

absl::Status Update(void* stream, const UpdateArgs& args) {
  if (args.num_tiles == 0) return absl::OkStatus();
  return std::visit(
      [&]<typename Element>(const Element&) { return UpdateBy<Element>(stream, args); },
      args.element);
}

struct Larger {
  __device__ double operator()(double a, double b) const { return a > b ? a : b; }
};
struct Sum {
  __device__ double operator()(double a, double b) const { return a + b; }
};

// What `together` makes of `mine` of all threads of the block, for its thread 0.
template <typename Together>
__device__ double OfBlock(double mine, const Together& together) {
  __shared__ double of_threads[kThreads];
  __syncthreads();  // thread 0 has read those of the call before
  of_threads[threadIdx.x] = mine;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      of_threads[threadIdx.x] = together(of_threads[threadIdx.x], of_threads[threadIdx.x + half]);
    }
  }
  return of_threads[0];
}

// The elements of a tile of the weights (0), or of the gradient (1).
__device__ inline const float* ElementsOf(const TileNormArgs& args, const UpdateTile& tile, int k) {
  return (k == 0 ? args.master : args.gradient) + tile.begin;
}

// A comparison with NaN is false, so NaN is left out.
__global__ void LargestOfTilesKernel(TileNormArgs args) {
  const UpdateTile tile = args.tiles[blockIdx.x];
  for (int k = 0; k < 2; ++k) {
    const float* const elements = ElementsOf(args, tile, k);
    float largest = 0;
    for (uint32_t i = threadIdx.x; i < tile.count; i += blockDim.x) {
      const float magnitude = std::fabs(elements[i]);
      if (magnitude > largest) largest = magnitude;
    }
    const double of_tile = OfBlock(largest, Larger());
    if (threadIdx.x == 0) args.largest_of_tiles[blockIdx.x].of[k] = of_tile;
  }
}

__global__ void SquaresOfTilesKernel(TileNormArgs args) {
  const UpdateTile tile = args.tiles[blockIdx.x];
  for (int k = 0; k < 2; ++k) {
    const SquareRounding rounding =
        SquareRounding::Of(args.largest[tile.parameter].of[k], args.sizes[tile.parameter]);
    const float* const elements = ElementsOf(args, tile, k);
    double squares[2] = {0, 0};
    for (uint32_t i = threadIdx.x; i < tile.count; i += blockDim.x) {
      rounding.Add(elements[i], squares);
    }
    for (int part = 0; part < 2; ++part) {
      const double of_tile = OfBlock(squares[part], Sum());
      if (threadIdx.x == 0) args.squares_of_tiles[blockIdx.x].of[k][part] = of_tile;
    }
  }
}

__global__ void LargestKernel(NormArgsOfParameters args) {
  const TileRange range = args.ranges[blockIdx.x];
  for (int k = 0; k < 2; ++k) {
    double largest = 0;
    for (uint32_t i = threadIdx.x; i < range.count; i += blockDim.x) {
      largest = Larger()(largest, args.largest_of_tiles[range.first + i].of[k]);
    }
    largest = OfBlock(largest, Larger());
    if (threadIdx.x == 0) args.largest[range.parameter].of[k] = largest;
  }
}

__global__ void SquaresKernel(NormArgsOfParameters args) {
  const TileRange range = args.ranges[blockIdx.x];
  for (int k = 0; k < 4; ++k) {
    double sum = 0;
    for (uint32_t i = threadIdx.x; i < range.count; i += blockDim.x) {
      sum += args.squares_of_tiles[range.first + i].of[k / 2][k % 2];
    }
    sum = OfBlock(sum, Sum());
    if (threadIdx.x == 0) args.squares[range.parameter].of[k / 2][k % 2] = sum;
  }
}

absl::Status LargestOfTiles(void* stream, const TileNormArgs& args) {
  if (args.num_tiles == 0) return absl::OkStatus();
  return Launch(stream, GridOf("largest of tiles", args.num_tiles, true), LargestOfTilesKernel,
                args);
}

absl::Status SquaresOfTiles(void* stream, const TileNormArgs& args) {
  if (args.num_tiles == 0) return absl::OkStatus();
  return Launch(stream, GridOf("squares of tiles", args.num_tiles, true), SquaresOfTilesKernel,
                args);
}

absl::Status Largest(void* stream, const NormArgsOfParameters& args) {
  if (args.num_ranges == 0) return absl::OkStatus();
  return Launch(stream, GridOf("largest", args.num_ranges, true), LargestKernel, args);
}

absl::Status Squares(void* stream, const NormArgsOfParameters& args) {
  if (args.num_ranges == 0) return absl::OkStatus();
  return Launch(stream, GridOf("squares", args.num_ranges, true), SquaresKernel, args);
}

__global__ void AverageKernel(AverageArgs args) {
  for (int64_t i = FirstIndex(); i < args.count; i += IndexStep()) {
    args.element(args.newest[i], args.average[i]);
  }
}

absl::Status Average(void* stream, const AverageArgs& args) {
  if (args.count == 0) return absl::OkStatus();
  return Launch(stream, {"average", BlocksFor(args.count), kThreads}, AverageKernel, args);
}

__global__ void ExchangeKernel(ExchangeArgs args) {
  for (int64_t i = FirstIndex(); i < args.count; i += IndexStep()) {
    const float a = args.a[i];
    args.a[i] = args.b[i];
    args.b[i] = a;
  }
}

absl::Status Exchange(void* stream, const ExchangeArgs& args) {
  if (args.count == 0) return absl::OkStatus();
  return Launch(stream, {"exchange", BlocksFor(args.count), kThreads}, ExchangeKernel, args);
}

__global__ void FindNonFiniteKernel(NonFiniteArgs args) {
  bool has_found = false;
  for (int64_t i = FirstIndex(); i < args.count; i += IndexStep()) {
    const bool is_finite = std::fabs(args.values[i]) <= FLT_MAX;
    has_found = has_found || !is_finite;
  }
  if (has_found) *args.found = 1;
}

absl::Status FindNonFinite(void* stream, const NonFiniteArgs& args) {
  if (args.count == 0) return absl::OkStatus();
  return Launch(stream, {"find non-finite", BlocksFor(args.count), kThreads}, FindNonFiniteKernel,
                args);
}

}  // namespace

const UpdateKernels kUpdateKernels = {Update,  LargestOfTiles, Largest,  SquaresOfTiles,
                                      Squares, Average,        Exchange, FindNonFinite};

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD
