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

// Values over two deviations are drawn again.
void FillTruncated(std::vector<float>& tensor, double deviation, RandomStream stream) {
  for (float& value : tensor) {
    double drawn = 0;
    do {
      const double radius = std::sqrt(-2 * std::log(1 - stream.NextDouble()));
      drawn = radius * std::cos(2 * std::numbers::pi * stream.NextDouble());
    } while (std::abs(drawn) > 2);
    value = static_cast<float>(deviation * drawn);
  }
}

void FillUniform(std::vector<float>& tensor, double limit, RandomStream stream) {
  for (float& value : tensor) value = static_cast<float>(limit * (2 * stream.NextDouble() - 1));
}

void FillInitial(const Parameter& parameter, const RandomStream& stream,
                 std::vector<float>& tensor) {
  const Initial& initial = parameter.initial;
  const auto fan_in = static_cast<double>(parameter.fan_in);
  const auto fan_out = static_cast<double>(parameter.fan_out);
  switch (initial.distribution) {
    case Distribution::kHeNormal:
      return FillNormal(tensor, std::sqrt(2.0 / (initial.by_fan_out ? fan_out : fan_in)), stream);
    case Distribution::kGlorotUniform:
      return FillUniform(tensor, std::sqrt(6.0 / (fan_in + fan_out)), stream);
    case Distribution::kNormal:
      return FillNormal(tensor, initial.deviation, stream);
    case Distribution::kTruncatedNormal:
      return FillTruncated(tensor, initial.deviation, stream);
    case Distribution::kZeros:
    case Distribution::kOnes:
      std::ranges::fill(tensor, initial.distribution == Distribution::kOnes ? 1.0f : 0.0f);
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
    RandomKey key;
    key.seed = seed;
    key.op = HashName(model.parameters[i].name);
    FillInitial(model.parameters[i], RandomStream(key), tensors[i]);
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
