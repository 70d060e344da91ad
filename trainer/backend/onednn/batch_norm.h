#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_BATCH_NORM_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_BATCH_NORM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/backend/onednn/norm_kernels.h"

// Batch normalisation of rows of pixels of channels, without the rows of padding, which the
// library's primitive cannot leave out. Rows are cut to pieces of a fixed size, whose sums are put
// together in double and in their order, so that the result is the same for any number of threads.

namespace millrace::trainer {

// The extents of a tensor [rows, pixels, channels], and which of its rows count.
struct NormShape {
  std::span<const uint8_t> valid;  // one byte per row; 0: padding
  int64_t pixels = 1;
  int64_t channels = 0;
  bool is_half = false;  // true for elements of BFloat, false for float
  int threads = 1;
};

// Mean and variance of each channel over the valid rows; zeros if there are none. The variance is
// the mean of the squared differences (biased).
struct Moments {
  double count = 0;  // values of each channel
  std::vector<double> mean;
  std::vector<double> variance;
};

// The sums over valid rows of dz, and of dz * (x - mean), of each channel.
struct GradientSums {
  std::vector<double> dz;
  std::vector<double> dz_x;
};

// The kernels' passes over whole tensors; `work` names these, and its pixels are ignored. Memory
// for the pieces' sums is kept from call to call.
class NormPasses {
 public:
  void MeasureMoments(const NormShape& shape, const NormWork& work, Moments& moments);
  // NormKernels::apply on all rows.
  static void Apply(const NormShape& shape, const NormWork& work);
  // In rows of padding dz, if it is kept, becomes zero.
  void SumGradients(const NormShape& shape, const NormWork& work, std::span<const double> mean,
                    GradientSums& sums);
  // NormKernels::combine on valid rows, and zero on others.
  static void Combine(const NormShape& shape, const NormWork& work);

 private:
  struct Piece;
  static std::vector<Piece> PiecesOf(const NormShape& shape);

  std::vector<float> sums_;  // by piece: sums, products and origins of the channels
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_BATCH_NORM_H_
