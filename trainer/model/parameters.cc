#include "trainer/model/parameters.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/philox.h"

namespace millrace::trainer {
namespace {

// Box-Muller: two normal values from two uniform ones.
void FillNormal(std::vector<float>& tensor, double deviation, RandomStream stream) {
  for (size_t i = 0; i < tensor.size(); i += 2) {
    const double radius = std::sqrt(-2 * std::log(1 - stream.NextDouble()));
    const double angle = 2 * std::numbers::pi * stream.NextDouble();
    tensor[i] = static_cast<float>(deviation * radius * std::cos(angle));
    if (i + 1 < tensor.size()) {
      tensor[i + 1] = static_cast<float>(deviation * radius * std::sin(angle));
    }
  }
}

}  // namespace

TensorSet MakeZeros(const Model& model) {
  TensorSet tensors;
  for (const Parameter& parameter : model.parameters) {
    tensors.emplace_back(parameter.shape.num_elements(), 0.0f);
  }
  return tensors;
}

TensorSet MakeInitialWeights(const Model& model, uint64_t seed) {
  TensorSet tensors = MakeZeros(model);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Parameter& parameter = model.parameters[i];
    if (parameter.initial == Initial::kOnes) std::ranges::fill(tensors[i], 1.0f);
    if (parameter.initial != Initial::kHeNormal) continue;
    RandomKey key;
    key.seed = seed;
    key.op = HashName(parameter.name);
    FillNormal(tensors[i], std::sqrt(2.0 / static_cast<double>(parameter.fan_in)),
               RandomStream(key));
  }
  return tensors;
}

TensorSet MakeInitialBuffers(const Model& model) {
  TensorSet tensors;
  for (const Buffer& buffer : model.buffers) {
    tensors.emplace_back(buffer.shape.num_elements(), buffer.initial);
  }
  return tensors;
}

uint64_t Digest(const TensorSet& tensors) {
  uint64_t digest = 0;
  for (const std::vector<float>& tensor : tensors) {
    digest = XXH3_64bits_withSeed(tensor.data(), tensor.size() * sizeof(float), digest);
  }
  return digest;
}

}  // namespace millrace::trainer
