#include "trainer/backend/onednn/batch_norm.h"

#include <algorithm>
#include <cstring>

#include "base/half.h"
#include "trainer/compute/threads.h"

namespace millrace::trainer {

// Some pixels of one row.
struct NormPasses::Piece {
  int64_t begin = 0;  // pixel of the tensor
  int64_t pixels = 0;
  bool is_valid = false;
};

namespace {

constexpr int64_t kPiecePixels = 256;

size_t ElementSize(const NormShape& shape) {
  return shape.is_half ? sizeof(BFloat) : sizeof(float);
}

const void* Behind(const void* data, size_t bytes) {
  return data == nullptr ? nullptr : static_cast<const std::byte*>(data) + bytes;
}
void* Behind(void* data, size_t bytes) {
  return data == nullptr ? nullptr : static_cast<std::byte*>(data) + bytes;
}

// The part of `work` on the pixels from `begin`.
NormWork Part(const NormShape& shape, const NormWork& work, int64_t begin, int64_t pixels) {
  const size_t bytes = static_cast<size_t>(begin * shape.channels) * ElementSize(shape);
  NormWork part = work;
  part.pixels = pixels;
  part.channels = shape.channels;
  for (const void** data : {&part.x, &part.addend, &part.dy, &part.more_dy}) {
    *data = Behind(*data, bytes);
  }
  for (void** data : {&part.result, &part.dz, &part.dx}) *data = Behind(*data, bytes);
  return part;
}

void FillZeros(const NormShape& shape, void* data, int64_t pixels) {
  if (data == nullptr) return;
  std::memset(data, 0, static_cast<size_t>(pixels * shape.channels) * ElementSize(shape));
}

void LoadOrigins(const NormShape& shape, const void* x, float* origins) {
  for (int64_t c = 0; c < shape.channels; ++c) {
    origins[c] =
        shape.is_half ? ToFloat(static_cast<const BFloat*>(x)[c]) : static_cast<const float*>(x)[c];
  }
}

// The values of one channel so far.
struct Merge {
  double count = 0;

  // Adds a piece of `more` values by Chan's rule: their sum, and that of their squares, less their
  // origins. `variance` is that of all times their count.
  void Add(int64_t channels, double more, const float* sums, const float* squares,
           const float* origins, Moments& moments) {
    const double weight = more / (count + more);
    const double product = count * weight;
    double* const __restrict mean = moments.mean.data();
    double* const __restrict variance = moments.variance.data();
    for (int64_t c = 0; c < channels; ++c) {
      const double offset = sums[c] / more;
      const double difference = origins[c] + offset - mean[c];
      mean[c] += difference * weight;
      variance[c] += squares[c] - sums[c] * offset + difference * difference * product;
    }
    count += more;
  }
};

}  // namespace

std::vector<NormPasses::Piece> NormPasses::PiecesOf(const NormShape& shape) {
  std::vector<Piece> pieces;
  for (size_t row = 0; row < shape.valid.size(); ++row) {
    const int64_t first = static_cast<int64_t>(row) * shape.pixels;
    for (int64_t begin = 0; begin < shape.pixels; begin += kPiecePixels) {
      pieces.push_back(
          {first + begin, std::min(kPiecePixels, shape.pixels - begin), shape.valid[row] != 0});
    }
  }
  return pieces;
}

void NormPasses::MeasureMoments(const NormShape& shape, const NormWork& work, Moments& moments) {
  const int64_t channels = shape.channels;
  const std::vector<Piece> pieces = PiecesOf(shape);
  const auto count = static_cast<int64_t>(pieces.size());
  sums_.assign(3 * channels * count, 0);
  const NormKernels& kernels = NormKernelsOf(shape.is_half);
  RunOnThreads(shape.threads, [&](int thread, int of) {
    const auto [begin, end] = PartOf(count, thread, of);
    for (int64_t i = begin; i < end; ++i) {
      if (!pieces[i].is_valid) continue;
      NormWork part = Part(shape, work, pieces[i].begin, pieces[i].pixels);
      part.sums = &sums_[3 * channels * i];
      part.products = part.sums + channels;
      LoadOrigins(shape, part.x, part.products + channels);
      part.origin = part.products + channels;
      kernels.moments(part);
    }
  });
  moments.mean.assign(channels, 0);
  moments.variance.assign(channels, 0);
  Merge merge;
  for (int64_t i = 0; i < count; ++i) {
    if (!pieces[i].is_valid) continue;
    const float* const sums = &sums_[3 * channels * i];
    merge.Add(channels, static_cast<double>(pieces[i].pixels), sums, sums + channels,
              sums + 2 * channels, moments);
  }
  moments.count = merge.count;
  for (double& variance : moments.variance) {
    variance = std::max(0.0, variance) / std::max(1.0, merge.count);
  }
}

void NormPasses::Apply(const NormShape& shape, const NormWork& work) {
  const int64_t pixels = static_cast<int64_t>(shape.valid.size()) * shape.pixels;
  const NormKernels& kernels = NormKernelsOf(shape.is_half);
  RunOnThreads(shape.threads, [&](int thread, int of) {
    const auto [begin, end] = PartOf(pixels, thread, of);
    kernels.apply(Part(shape, work, begin, end - begin));
  });
}

void NormPasses::SumGradients(const NormShape& shape, const NormWork& work,
                              std::span<const double> mean, GradientSums& sums) {
  const int64_t channels = shape.channels;
  const std::vector<Piece> pieces = PiecesOf(shape);
  const auto count = static_cast<int64_t>(pieces.size());
  sums_.assign(2 * channels * count, 0);
  const std::vector<float> origin(mean.begin(), mean.end());
  const NormKernels& kernels = NormKernelsOf(shape.is_half);
  RunOnThreads(shape.threads, [&](int thread, int of) {
    const auto [begin, end] = PartOf(count, thread, of);
    for (int64_t i = begin; i < end; ++i) {
      NormWork part = Part(shape, work, pieces[i].begin, pieces[i].pixels);
      part.origin = origin.data();
      part.sums = &sums_[2 * channels * i];
      part.products = part.sums + channels;
      pieces[i].is_valid ? kernels.sums(part) : FillZeros(shape, part.dz, part.pixels);
    }
  });
  sums.dz.assign(channels, 0);
  sums.dz_x.assign(channels, 0);
  for (int64_t i = 0; i < count; ++i) {
    const float* const of = &sums_[2 * channels * i];
    for (int64_t c = 0; c < channels; ++c) {
      sums.dz[c] += of[c];
      sums.dz_x[c] += of[channels + c];
    }
  }
  for (int64_t c = 0; c < channels; ++c) sums.dz_x[c] -= sums.dz[c] * (mean[c] - origin[c]);
}

void NormPasses::Combine(const NormShape& shape, const NormWork& work) {
  const std::vector<Piece> pieces = PiecesOf(shape);
  const NormKernels& kernels = NormKernelsOf(shape.is_half);
  RunOnThreads(shape.threads, [&](int thread, int of) {
    const auto [begin, end] = PartOf(static_cast<int64_t>(pieces.size()), thread, of);
    for (int64_t i = begin; i < end; ++i) {
      const NormWork part = Part(shape, work, pieces[i].begin, pieces[i].pixels);
      pieces[i].is_valid ? kernels.combine(part) : FillZeros(shape, part.dx, part.pixels);
    }
  });
}

}  // namespace millrace::trainer
