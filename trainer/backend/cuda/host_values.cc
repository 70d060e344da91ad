#include "trainer/backend/cuda/host_values.h"

#include <algorithm>
#include <cstring>

#include "base/half.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace millrace::trainer::cuda {
namespace {

template <typename T>
float FloatAt(std::span<const std::byte> bytes, size_t i) {
  T value;
  std::memcpy(&value, &bytes[i * sizeof(T)], sizeof(T));
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return ToFloat(value);
  }
}

template <typename T>
void Put(T value, size_t i, std::vector<std::byte>& bytes) {
  std::memcpy(&bytes[i * sizeof(T)], &value, sizeof(T));
}

}  // namespace

std::vector<float> ScalesOf(const ModelInput& input) {
  std::vector<float> scales;
  for (const double deviation : input.stddev) scales.push_back(static_cast<float>(1 / deviation));
  for (size_t c = 0; c < input.mean.size(); ++c) {
    scales.push_back(static_cast<float>(-input.mean[c] / input.stddev[c]));
  }
  return scales;
}

void WriteStep(const StepInput& step, std::byte* to) {
  const double rows = static_cast<double>(std::max<int64_t>(1, step.global_valid_rows));
  StepValues values;
  values.gradient_scale = static_cast<float>(step.loss_scale / rows);
  values.inverse_loss_scale = static_cast<float>(1 / step.loss_scale);
  values.seed = step.seed;
  values.step = step.step;
  std::memcpy(to, &values, sizeof(values));
  to += sizeof(values);
  for (size_t row = 0; row < step.valid.size(); ++row, to += sizeof(SampleId)) {
    const SampleId id = step.ids.empty() ? SampleId{0, row, 0} : step.ids[row];
    std::memcpy(to, &id, sizeof(id));
  }
  std::memcpy(to, step.valid.data(), step.valid.size());
}

StepResult ReadResult(const std::byte* from, size_t losses) {
  StepResult result;
  for (size_t i = 0; i < losses; ++i) {
    LossSums sums;
    std::memcpy(&sums, from + i * sizeof(sums), sizeof(sums));
    result.loss_sum += sums.loss;
    if (i > 0) continue;
    result.correct = sums.correct;
    result.in_top5 = sums.in_top5;
    result.error_sum = sums.error;
    result.valid = sums.valid;
  }
  return result;
}

std::vector<float> ToFloats(std::span<const std::byte> bytes, DType type,
                            const Channels& channels) {
  const size_t count = bytes.size() / SizeOf(type);
  std::vector<float> values;
  values.reserve(count / channels.in_memory * channels.used);
  for (size_t i = 0; i < count; ++i) {
    if (i % channels.in_memory >= channels.used) continue;
    if (type == DType::kF32) values.push_back(FloatAt<float>(bytes, i));
    if (type == DType::kBF16) values.push_back(FloatAt<BFloat>(bytes, i));
    if (type == DType::kF16) values.push_back(FloatAt<Half>(bytes, i));
  }
  return values;
}

std::vector<std::byte> FromFloats(std::span<const float> values, DType type) {
  std::vector<std::byte> bytes(values.size() * SizeOf(type));
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == DType::kF32) Put(values[i], i, bytes);
    if (type == DType::kBF16) Put(ToBFloat(values[i]), i, bytes);
    if (type == DType::kF16) Put(ToHalf(values[i]), i, bytes);
  }
  return bytes;
}

void MomentsToSums(std::span<double> values) {
  const double n = values[0];
  const size_t channels = values.size() / 2;
  for (size_t c = 1; c <= channels; ++c) {
    const double mean = values[c];
    values[c] = n * mean;
    values[channels + c] += n * mean * mean;
  }
}

void SumsToMoments(std::span<double> values) {
  const double n = std::max(1.0, values[0]);
  const size_t channels = values.size() / 2;
  for (size_t c = 1; c <= channels; ++c) {
    const double mean = values[c] / n;
    values[c] = mean;
    values[channels + c] = std::max(0.0, values[channels + c] - n * mean * mean);
  }
}

}  // namespace millrace::trainer::cuda
