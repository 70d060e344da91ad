#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_BATCH_NORM_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_BATCH_NORM_H_

#include <cstdint>
#include <span>
#include <vector>

// Batch normalisation of rows of pixels of channels, without the rows of padding, which the
// library's primitive cannot leave out. Sums are in double and in the order of the rows, so that
// the result is the same for any number of threads.

namespace millrace::trainer {

// The extents of a tensor [rows, pixels, channels], and which of its rows count.
struct NormShape {
  std::span<const uint8_t> valid;  // one byte per row; 0: padding
  int64_t pixels = 1;
  int64_t channels = 0;

  int64_t row_values() const { return pixels * channels; }
  int64_t num_values() const;  // of one channel, in valid rows
};

// Mean and variance of each channel over the valid rows; zeros if there are none. The variance is
// the mean of the squared differences (biased).
struct Moments {
  std::vector<double> mean;
  std::vector<double> variance;
};
void MeasureMoments(const NormShape& shape, const float* x, Moments& moments);

// result = scale[c] * x + shift[c], on all rows.
void ScaleAndShift(const NormShape& shape, const float* x, std::span<const float> scale,
                   std::span<const float> shift, float* result);

// The sums over valid rows of dy, and of dy * (x - mean), of each channel.
struct GradientSums {
  std::vector<double> dy;
  std::vector<double> dy_x;
};
void SumGradients(const NormShape& shape, const float* x, const float* dy,
                  std::span<const double> mean, GradientSums& sums);

// result = a[c] * dy + b[c] * x + k[c] on valid rows, and zero on others.
struct NormGradient {
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> k;
};
void CombineGradient(const NormShape& shape, const float* x, const float* dy,
                     const NormGradient& factors, float* result);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_BATCH_NORM_H_
