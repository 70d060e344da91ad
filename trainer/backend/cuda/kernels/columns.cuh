#ifndef MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_COLUMNS_CUH_
#define MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_COLUMNS_CUH_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "trainer/backend/cuda/kernels/indices.cuh"
#include "trainer/backend/cuda/kernels/launch.h"

// Passes over pixels of channels whose threads stay at their channels, and sums by channel.
//
// A block takes a tile of channels (128 bytes of each pixel, where vectors are allowed) of a strip
// of pixels. The strips follow from the tensor's sizes alone, never from the GPU, and all sums are
// made in a fixed order: each thread over its pixels, in float32; a block over its threads; and a
// second kernel over the strips, in float64.

namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD {

// Blocks are whole waves of those that an H100 or H200 runs at a time: Body::kBlocks on each of its
// multiprocessors. Sums have fewer, for the second kernel reads what each leaves.
constexpr int64_t kMultiprocessors = 132;
constexpr int64_t kWavesOfSums = 2;
constexpr int64_t kWavesOfPass = 4;
constexpr int64_t kMaxBlocksAtATime = 4 * kMultiprocessors;
constexpr int64_t kMaxSumBlocks = kWavesOfSums * kMaxBlocksAtATime;
constexpr int64_t kThreadPixels = 8;  // the least that are worth a thread

// Threads of a block side by side, each with kSize channels, and one below the other.
template <int kSize>
constexpr int kLanes = kSize == 1 ? 32 : 8;
template <int kSize>
constexpr int kRows = kThreads / kLanes<kSize>;
template <int kSize>
constexpr int kTileChannels = kLanes<kSize> * kSize;

struct ColumnShape {
  int64_t pixels = 0;
  int64_t channels = 0;
  int64_t tiles = 1;
  int64_t strips = 1;
  int64_t strip_pixels = 0;

  unsigned blocks() const { return static_cast<unsigned>(tiles * strips); }
};

constexpr int64_t RoundUp(int64_t value, int64_t by) { return (value + by - 1) / by; }

template <int kSize>
ColumnShape ColumnsOf(int64_t pixels, int64_t channels, int64_t max_blocks) {
  ColumnShape shape;
  shape.pixels = pixels;
  shape.channels = channels;
  shape.tiles = RoundUp(channels, kTileChannels<kSize>);
  const int64_t most = std::max<int64_t>(1, max_blocks / shape.tiles);
  const int64_t wanted = RoundUp(pixels, kRows<kSize> * kThreadPixels);
  const int64_t strips = std::clamp<int64_t>(wanted, 1, most);
  shape.strip_pixels = std::max<int64_t>(1, RoundUp(pixels, strips));
  shape.strips = std::max<int64_t>(1, RoundUp(pixels, shape.strip_pixels));
  return shape;
}

// Numbers of each channel of a strip that a pass leaves for the second kernel, beside one of all
// channels.
constexpr int64_t kMaxRecords = 3;
constexpr size_t ColumnScratchBytes(int64_t channels) {
  const int64_t widest = std::max(kTileChannels<1>, kTileChannels<8>);
  const int64_t columns = std::max(kMaxSumBlocks * widest, RoundUp(channels, widest) * widest);
  return static_cast<size_t>(kMaxRecords * columns + kMaxSumBlocks) * sizeof(float);
}

// The place of this thread.
template <int kSize>
struct ColumnThread {
  int64_t strip = 0;
  int64_t tile_channel = 0;  // the first of the tile
  int lane = 0;
  int row = 0;
  int64_t channel = 0;      // the first of the thread; may be behind the last
  int64_t strip_begin = 0;  // pixels
  int64_t begin = 0;        // the first of this thread; the others are kRows apart
  int64_t end = 0;

  __device__ explicit ColumnThread(const ColumnShape& shape) {
    const Quotient place = Divide(blockIdx.x, shape.tiles);
    strip = place.quotient;
    tile_channel = place.rest * kTileChannels<kSize>;
    lane = static_cast<int>(threadIdx.x) % kLanes<kSize>;
    row = static_cast<int>(threadIdx.x) / kLanes<kSize>;
    channel = tile_channel + lane * kSize;
    strip_begin = strip * shape.strip_pixels;
    begin = strip_begin + row;
    end = strip_begin + shape.strip_pixels;
    if (end > shape.pixels) end = shape.pixels;
  }
};

// Calls take(loaded, offset, pixel) for each pixel of a thread, in order, with what
// body.Read(offset, pixel) gave; the offset is that of the thread's first channel. Body::kAhead
// pixels are read before the first of them is taken, so that their loads wait beside each other; a
// multiprocessor is to hold at least Body::kBlocks blocks.
template <typename Body, typename Take>
__device__ inline void ForPixels(const Body& body, const ColumnThread<Body::kSize>& at,
                                 const ColumnShape& shape, const Take& take) {
  constexpr int64_t kStep = kRows<Body::kSize>;
  typename Body::Loaded loaded[Body::kAhead];
  for (int64_t first = at.begin; first < at.end; first += Body::kAhead * kStep) {
    MILLRACE_UNROLL
    for (int i = 0; i < Body::kAhead; ++i) {
      const int64_t pixel = first + i * kStep;
      if (pixel < at.end) loaded[i] = body.Read(pixel * shape.channels + at.channel, pixel);
    }
    MILLRACE_UNROLL
    for (int i = 0; i < Body::kAhead; ++i) {
      const int64_t pixel = first + i * kStep;
      if (pixel < at.end) take(loaded[i], pixel * shape.channels + at.channel, pixel);
    }
  }
}

// For each of its pixels, a thread calls body.Visit(loaded, offset).
template <typename Body>
__global__ void __launch_bounds__(kThreads, Body::kBlocks)
    PassColumns(typename Body::Args args, ColumnShape shape) {
  const ColumnThread<Body::kSize> at(shape);
  if (at.channel >= shape.channels) return;
  const Body body(args, at.channel);
  ForPixels(body, at, shape, [&](const typename Body::Loaded& loaded, int64_t offset, int64_t) {
    body.Visit(loaded, offset);
  });
}

// What the first kernel leaves for the second: of each strip, records of each channel, and the
// number of pixels that count.
struct Partials {
  float* records = nullptr;  // [strips][Body::kRecords][channels]
  float* counts = nullptr;   // [strips]

  template <typename Body>
  static Partials In(void* scratch, const ColumnShape& shape) {
    auto* const records = static_cast<float*>(scratch);
    return {records, records + shape.strips * Body::kRecords * shape.channels};
  }
};

// Adds up Body::kSums numbers of each channel of a strip, which are its first records. A body with
// one record more leaves its origin, a number of each channel of the strip.
template <typename Body>
__global__ void __launch_bounds__(kThreads, Body::kBlocks)
    SumColumns(typename Body::Args args, ColumnShape shape, Partials partials) {
  constexpr int kSize = Body::kSize;
  constexpr int kTile = kTileChannels<kSize>;
  __shared__ float parts[kRows<kSize>][Body::kSums][kTile];
  __shared__ int counts[kRows<kSize>];
  const ColumnThread<kSize> at(shape);
  float* const records = partials.records + at.strip * Body::kRecords * shape.channels;
  float sums[Body::kSums][kSize] = {};
  int count = 0;
  if (at.channel < shape.channels) {
    const Body body(args, at, shape);
    ForPixels(body, at, shape, [&](const typename Body::Loaded& loaded, int64_t offset, int64_t) {
      count += body.Add(loaded, offset, sums) ? 1 : 0;
    });
    if constexpr (Body::kRecords > Body::kSums) {
      if (at.row == 0) body.StoreOrigin(records + Body::kSums * shape.channels + at.channel);
    }
  }
  MILLRACE_UNROLL
  for (int k = 0; k < Body::kSums; ++k) {
    MILLRACE_UNROLL
    for (int i = 0; i < kSize; ++i) parts[at.row][k][at.lane * kSize + i] = sums[k][i];
  }
  if (at.lane == 0) counts[at.row] = count;
  __syncthreads();
  for (int column = static_cast<int>(threadIdx.x); column < Body::kSums * kTile;
       column += static_cast<int>(kThreads)) {
    const int k = column / kTile;
    const int64_t channel = at.tile_channel + column % kTile;
    if (channel >= shape.channels) continue;
    float sum = 0;
    for (int row = 0; row < kRows<kSize>; ++row) sum += parts[row][k][column % kTile];
    records[k * shape.channels + channel] = sum;
  }
  if (threadIdx.x > 0 || at.tile_channel > 0) return;
  for (int row = 1; row < kRows<kSize>; ++row) count += counts[row];
  partials.counts[at.strip] = static_cast<float>(count);
}

// The second kernel: adds up the strips of each channel, and ends with body.End(channel, count,
// sums).
constexpr int kFinishChannels = 4;  // of a block
constexpr int kFinishSlices = kThreads / kFinishChannels;
constexpr int kFinishAhead = 4;  // strips that are loaded before the first is added

// Adds every strip of a thread.
template <typename Body, int kNumbers>
__device__ inline void AddStrips(const Body& body, const ColumnShape& shape,
                                 const Partials& partials, int64_t channel, int64_t slice,
                                 double (&sums)[kNumbers]) {
  float records[kFinishAhead][Body::kRecords];
  float counts[kFinishAhead];
  for (int64_t first = slice; first < shape.strips; first += kFinishAhead * kFinishSlices) {
    MILLRACE_UNROLL
    for (int i = 0; i < kFinishAhead; ++i) {
      const int64_t strip = first + i * kFinishSlices;
      if (strip >= shape.strips) continue;
      const float* const from = partials.records + strip * Body::kRecords * shape.channels;
      MILLRACE_UNROLL
      for (int k = 0; k < Body::kRecords; ++k) records[i][k] = from[k * shape.channels + channel];
      counts[i] = partials.counts[strip];
    }
    MILLRACE_UNROLL
    for (int i = 0; i < kFinishAhead; ++i) {
      if (first + i * kFinishSlices >= shape.strips) continue;
      body.Add(records[i], counts[i], sums);
      sums[kNumbers - 1] += counts[i];
    }
  }
}

template <typename Body>
__global__ void FinishColumns(typename Body::Args args, ColumnShape shape, Partials partials) {
  constexpr int kNumbers = Body::kSums + 1;  // the last is the count
  __shared__ double parts[kFinishSlices][kNumbers][kFinishChannels];
  const int lane = static_cast<int>(threadIdx.x) % kFinishChannels;
  const int slice = static_cast<int>(threadIdx.x) / kFinishChannels;
  const int64_t channel = int64_t{blockIdx.x} * kFinishChannels + lane;
  double sums[kNumbers] = {};
  if (channel < shape.channels) {
    AddStrips(Body(args, shape, partials, channel), shape, partials, channel, slice, sums);
  }
  for (int k = 0; k < kNumbers; ++k) parts[slice][k][lane] = sums[k];
  for (int half = kFinishSlices / 2; half > 0; half /= 2) {
    __syncthreads();
    if (slice >= half) continue;
    for (int k = 0; k < kNumbers; ++k) parts[slice][k][lane] += parts[slice + half][k][lane];
  }
  if (slice > 0 || channel >= shape.channels) return;
  for (int k = 0; k < kNumbers; ++k) sums[k] = parts[0][k][lane];
  Body(args, shape, partials, channel).End(channel, sums[Body::kSums], sums);
}

inline Grid FinishGrid(const char* name, int64_t channels) {
  return {.name = name,
          .blocks = static_cast<unsigned>(RoundUp(channels, kFinishChannels)),
          .threads = kThreads,
          .has_barriers = true};
}

// Both kernels, `name` of both, with Sums<...> as the body of the first.
template <typename Sums, typename Finish>
absl::Status LaunchSums(void* stream, const char* name, int64_t pixels, int64_t channels,
                        const typename Sums::Args& args, void* scratch) {
  static_assert(Sums::kBlocks * kMultiprocessors <= kMaxBlocksAtATime);
  const ColumnShape shape =
      ColumnsOf<Sums::kSize>(pixels, channels, kWavesOfSums * Sums::kBlocks * kMultiprocessors);
  const Partials partials = Partials::In<Sums>(scratch, shape);
  const Grid grid = {
      .name = name, .blocks = shape.blocks(), .threads = kThreads, .has_barriers = true};
  absl::Status status = Launch(stream, grid, SumColumns<Sums>, args, shape, partials);
  if (!status.ok()) return status;
  return Launch(stream, FinishGrid(name, channels), FinishColumns<Finish>, args, shape, partials);
}

template <typename Body>
absl::Status LaunchPass(void* stream, const char* name, int64_t pixels, int64_t channels,
                        const typename Body::Args& args) {
  if (pixels == 0) return absl::OkStatus();
  const ColumnShape shape =
      ColumnsOf<Body::kSize>(pixels, channels, kWavesOfPass * Body::kBlocks * kMultiprocessors);
  return Launch(stream, {.name = name, .blocks = shape.blocks(), .threads = kThreads},
                PassColumns<Body>, args, shape);
}

}  // namespace millrace::trainer::cuda::MILLRACE_KERNEL_BUILD

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_KERNELS_COLUMNS_CUH_
