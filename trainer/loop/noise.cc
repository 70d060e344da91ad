#include "trainer/loop/noise.h"

#include <cmath>
#include <numbers>

#include "base/philox.h"

namespace millrace::trainer {
namespace {

RandomKey KeyOf(std::string_view name, uint64_t seed, uint64_t step) {
  RandomKey key;
  key.seed = Mix64(seed ^ Mix64(step));
  key.op = HashName(name);
  return key;
}

// Box-Muller: two normal values from two uniform ones.
void FillNormal(RandomStream stream, std::span<float> values) {
  for (size_t i = 0; i < values.size(); i += 2) {
    const double radius = std::sqrt(-2 * std::log(1 - stream.NextDouble()));
    const double angle = 2 * std::numbers::pi * stream.NextDouble();
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < values.size()) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

void FillUniform(RandomStream stream, std::span<float> values) {
  for (float& value : values) value = 2 * stream.NextFloat() - 1;
}

}  // namespace

void FillNoise(NoiseDistribution distribution, uint64_t seed, uint64_t step,
               std::span<const SampleId> ids, std::span<float> values) {
  RandomKey key = KeyOf("noise", seed, step);
  const size_t size = values.size() / ids.size();
  for (size_t row = 0; row < ids.size(); ++row) {
    key.epoch = ids[row].epoch;
    key.record = ids[row].record;
    key.sub_index = ids[row].sub_index;
    const std::span<float> own = values.subspan(row * size, size);
    if (distribution == UNIFORM) {
      FillUniform(RandomStream(key), own);
    } else {
      FillNormal(RandomStream(key), own);
    }
  }
}

bool IsFlipped(double probability, uint64_t seed, uint64_t step) {
  return RandomStream(KeyOf("flip", seed, step)).NextDouble() < probability;
}

}  // namespace millrace::trainer
