#ifndef MILLRACE_TRAINER_LOOP_NOISE_H_
#define MILLRACE_TRAINER_LOOP_NOISE_H_

#include <cstdint>
#include <span>

#include "base/run.h"
#include "trainer/job/job.pb.h"

// The random numbers of adversarial steps. Each is a pure function of its keys, so that they do not
// depend on ranks or threads.

namespace millrace::trainer {

// Fills `values`, the generator's inputs of one sample after the other, by (seed, step, sample).
// `ids` has one sample for each row.
void FillNoise(NoiseDistribution distribution, uint64_t seed, uint64_t step,
               std::span<const SampleId> ids, std::span<float> values);

// True if the discriminator learns with exchanged targets in step `step`.
bool IsFlipped(double probability, uint64_t seed, uint64_t step);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LOOP_NOISE_H_
