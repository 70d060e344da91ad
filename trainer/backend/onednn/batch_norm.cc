#include "trainer/backend/onednn/batch_norm.h"

#include <algorithm>

namespace millrace::trainer {
namespace {

// Calls `visit` with the offset of every pixel of every valid row.
template <typename Visit>
void VisitPixels(const NormShape& shape, const Visit& visit) {
  for (size_t row = 0; row < shape.valid.size(); ++row) {
    if (shape.valid[row] == 0) continue;
    const int64_t begin = static_cast<int64_t>(row) * shape.row_values();
    for (int64_t pixel = 0; pixel < shape.pixels; ++pixel) visit(begin + pixel * shape.channels);
  }
}

void Divide(std::vector<double>& sums, int64_t count) {
  const double factor = 1.0 / static_cast<double>(std::max<int64_t>(1, count));
  for (double& sum : sums) sum *= factor;
}

}  // namespace

int64_t NormShape::num_values() const {
  return pixels * static_cast<int64_t>(valid.size() - std::ranges::count(valid, 0));
}

void MeasureMoments(const NormShape& shape, const float* x, Moments& moments) {
  const int64_t channels = shape.channels;
  moments.mean.assign(channels, 0);
  moments.variance.assign(channels, 0);
  double* const __restrict mean = moments.mean.data();
  double* const __restrict variance = moments.variance.data();
  VisitPixels(shape, [=](int64_t at) {
    for (int64_t c = 0; c < channels; ++c) mean[c] += x[at + c];
  });
  Divide(moments.mean, shape.num_values());
  VisitPixels(shape, [=](int64_t at) {
    for (int64_t c = 0; c < channels; ++c) {
      const double difference = x[at + c] - mean[c];
      variance[c] += difference * difference;
    }
  });
  Divide(moments.variance, shape.num_values());
}

void ScaleAndShift(const NormShape& shape, const float* x, std::span<const float> scale,
                   std::span<const float> shift, float* result) {
  const int64_t pixels = static_cast<int64_t>(shape.valid.size()) * shape.pixels;
  const int64_t channels = shape.channels;
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    const float* const __restrict from = x + pixel * channels;
    float* const __restrict to = result + pixel * channels;
    for (int64_t c = 0; c < channels; ++c) to[c] = scale[c] * from[c] + shift[c];
  }
}

void SumGradients(const NormShape& shape, const float* x, const float* dy,
                  std::span<const double> mean, GradientSums& sums) {
  const int64_t channels = shape.channels;
  sums.dy.assign(channels, 0);
  sums.dy_x.assign(channels, 0);
  double* const __restrict plain = sums.dy.data();
  double* const __restrict product = sums.dy_x.data();
  VisitPixels(shape, [=](int64_t at) {
    for (int64_t c = 0; c < channels; ++c) {
      const double gradient = dy[at + c];
      plain[c] += gradient;
      product[c] += gradient * (x[at + c] - mean[c]);
    }
  });
}

void CombineGradient(const NormShape& shape, const float* x, const float* dy,
                     const NormGradient& factors, float* result) {
  const int64_t channels = shape.channels;
  const int64_t row_values = shape.row_values();
  for (size_t row = 0; row < shape.valid.size(); ++row) {
    if (shape.valid[row] == 0) std::fill_n(result + row * row_values, row_values, 0.0f);
  }
  const float* const __restrict a = factors.a.data();
  const float* const __restrict b = factors.b.data();
  const float* const __restrict k = factors.k.data();
  VisitPixels(shape, [=](int64_t at) {
    for (int64_t c = 0; c < channels; ++c) {
      result[at + c] = a[c] * dy[at + c] + b[c] * x[at + c] + k[c];
    }
  });
}

}  // namespace millrace::trainer
