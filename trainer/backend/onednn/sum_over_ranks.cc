#include "trainer/backend/onednn/sum_over_ranks.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/status.h"

namespace millrace::trainer {

// The sums are those of the values and of their squares. Double is enough for them: the values are
// floats, and where squares of a mean would swallow a variance, it is less than their rounding.
absl::Status SumMoments(const SumOverRanksFunction& sum, uint64_t step, Moments& moments) {
  const size_t channels = moments.mean.size();
  std::vector<double> values(1 + 2 * channels);
  double* const first = &values[1];
  double* const second = first + channels;
  values[0] = moments.count;
  for (size_t c = 0; c < channels; ++c) {
    const double mean = moments.mean[c];
    first[c] = moments.count * mean;
    second[c] = moments.count * (moments.variance[c] + mean * mean);
  }
  MILLRACE_RETURN_IF_ERROR(sum(step, values));
  moments.count = values[0];
  const double n = std::max(1.0, moments.count);
  for (size_t c = 0; c < channels; ++c) {
    const double mean = first[c] / n;
    moments.mean[c] = mean;
    moments.variance[c] = std::max(0.0, second[c] / n - mean * mean);
  }
  return absl::OkStatus();
}

absl::Status SumGradientSums(const SumOverRanksFunction& sum, uint64_t step, GradientSums& sums) {
  const auto channels = static_cast<std::ptrdiff_t>(sums.dz.size());
  std::vector<double> values = sums.dz;
  values.insert(values.end(), sums.dz_x.begin(), sums.dz_x.end());
  MILLRACE_RETURN_IF_ERROR(sum(step, values));
  std::copy(values.begin(), values.begin() + channels, sums.dz.begin());
  std::copy(values.begin() + channels, values.end(), sums.dz_x.begin());
  return absl::OkStatus();
}

}  // namespace millrace::trainer
