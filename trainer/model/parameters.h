#ifndef MILLRACE_TRAINER_MODEL_PARAMETERS_H_
#define MILLRACE_TRAINER_MODEL_PARAMETERS_H_

#include <cstdint>
#include <vector>

#include "trainer/model/model.h"

namespace millrace::trainer {

// One float32 tensor per parameter of a model, or per buffer, in its order, row-major.
using TensorSet = std::vector<std::vector<float>>;

// All zeros: the initial momentum.
TensorSet MakeZeros(const Model& model);

// The weights a training begins with, by the parameters' `initial`. Each draw is keyed by (seed,
// parameter's name, element), so every rank makes the same tensors, and adding a layer changes no
// other.
TensorSet MakeInitialWeights(const Model& model, uint64_t seed);

// The buffers a training begins with.
TensorSet MakeInitialBuffers(const Model& model);

// A hash of all bytes, to compare ranks.
uint64_t Digest(const TensorSet& tensors);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MODEL_PARAMETERS_H_
