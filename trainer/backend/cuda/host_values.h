#ifndef MILLRACE_TRAINER_BACKEND_CUDA_HOST_VALUES_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_HOST_VALUES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "trainer/backend/backend.h"

// What the host writes for a device, and reads of it.

namespace millrace::trainer::cuda {

// The factors by which a field of uint8 is normalised, by channel, then what is added.
std::vector<float> ScalesOf(const ModelInput& input);

// Writes the numbers of a step (StepValues), the samples of its rows (SampleId), and a byte for
// each row, one after another.
void WriteStep(const StepInput& step, std::byte* to);

// The results of a step with so many losses; their sums (LossSums) lie one after another.
StepResult ReadResult(const std::byte* from, size_t losses);

// Channels of a pixel: as they lie in memory, of which the first few count.
struct Channels {
  size_t in_memory = 1;
  size_t used = 1;
};
std::vector<float> ToFloats(std::span<const std::byte> bytes, DType type, const Channels& channels);
std::vector<std::byte> FromFloats(std::span<const float> values, DType type);

// The moments of a batch (the number of values; means; sums of squared differences from the mean)
// as sums, which ranks add up (the number; sums; sums of squares), and back. Double is enough: the
// values are floats, and where squares of a mean would swallow a variance, it is less than their
// rounding.
void MomentsToSums(std::span<double> values);
void SumsToMoments(std::span<double> values);

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_HOST_VALUES_H_
