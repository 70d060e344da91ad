#ifndef MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_UPDATE_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_UPDATE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/optimizer/elements.h"

// The kernels of optimizers, with their arguments. Every pointer is to memory of the device unless
// it says otherwise. A block does one tile: a part of one parameter. Bits are those of the CPU.

namespace millrace::trainer::cuda {

// Elements [begin, begin + count) of a region (arena_layout.h), all of one parameter.
struct UpdateTile {
  static constexpr uint32_t kMostCount = 4096;

  uint64_t begin = 0;
  uint32_t count = 0;
  uint32_t group = 0;  // whose numbers they are updated by
  uint32_t parameter = 0;
  uint32_t has_trust = 0;  // 1 if the parameter has a trust ratio
};

// What is found of the weights (0) and of the gradient (1) of a tile, or of a parameter.
struct LargestPair {
  double of[2] = {0, 0};
};
struct SquaresPair {
  double of[2][2] = {{0, 0}, {0, 0}};
};

// Updates a region: master weights, slots, and the compute copies.
struct UpdateArgs {
  UpdateElement element;           // on the host; any of `elements`, by whose type they are read
  const void* elements = nullptr;  // of each group
  const UpdateTile* tiles = nullptr;
  int64_t num_tiles = 0;

  // Element 0 of the region.
  const float* gradient = nullptr;
  float* master = nullptr;
  void* compute = nullptr;  // null: the master weights are what products read
  DType compute_type = DType::kF32;
  // Element `slots_begin` of the region.
  float* slots[kMaxSlots] = {};
  uint64_t slots_begin = 0;
  bool allows_vectors = false;  // true if all tiles begin at multiples of 4

  const SquaresPair* squares = nullptr;  // of each parameter; null: there are no trust ratios
  TrustRule trust;
};

// Of the tiles of a region: their largest magnitudes or, with those of whole parameters, the sums
// of their squares, as LargestMagnitude and AddSquares (square_sum.h).
struct TileNormArgs {
  const UpdateTile* tiles = nullptr;
  int64_t num_tiles = 0;
  const float* gradient = nullptr;  // element 0 of the region
  const float* master = nullptr;
  const uint64_t* sizes = nullptr;       // elements of each parameter, on all ranks
  const LargestPair* largest = nullptr;  // of each parameter
  LargestPair* largest_of_tiles = nullptr;
  SquaresPair* squares_of_tiles = nullptr;
};

// The tiles of a parameter, which lie behind one another.
struct TileRange {
  uint32_t parameter = 0;
  uint32_t first = 0;
  uint32_t count = 0;
};

// Puts the numbers of the tiles of each parameter together.
struct NormArgsOfParameters {
  const TileRange* ranges = nullptr;
  int64_t num_ranges = 0;
  const LargestPair* largest_of_tiles = nullptr;
  const SquaresPair* squares_of_tiles = nullptr;
  LargestPair* largest = nullptr;  // of each parameter
  SquaresPair* squares = nullptr;
};

// average = element(newest, average).
struct AverageArgs {
  AverageElement element;
  const float* newest = nullptr;
  float* average = nullptr;
  int64_t count = 0;
};

// Exchanges the values of `a` and `b`.
struct ExchangeArgs {
  float* a = nullptr;
  float* b = nullptr;
  int64_t count = 0;
};

// *found = 1 if any of `values` is infinite or NaN; else it stays as it is.
struct NonFiniteArgs {
  const float* values = nullptr;
  int64_t count = 0;
  uint32_t* found = nullptr;
};

struct UpdateKernels {
  Kernel<UpdateArgs> update = nullptr;
  Kernel<TileNormArgs> largest_of_tiles = nullptr;
  Kernel<NormArgsOfParameters> largest = nullptr;
  Kernel<TileNormArgs> squares_of_tiles = nullptr;
  Kernel<NormArgsOfParameters> squares = nullptr;
  Kernel<AverageArgs> average = nullptr;
  Kernel<ExchangeArgs> exchange = nullptr;
  Kernel<NonFiniteArgs> find_non_finite = nullptr;
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_UPDATE_H_
