#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_KERNEL_TENSOR_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_KERNEL_TENSOR_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/half.h"

namespace millrace::trainer::cuda {

// Values in memory as a kernel takes them: aligned as a device's are, or, to forbid vectors, one
// element off. The memory ends with the last value, so a sanitizer sees what is read behind it.
class KernelTensor {
 public:
  KernelTensor() = default;
  KernelTensor(DType type, size_t count, bool is_aligned = true)
      : type_(type),
        count_(count),
        offset_(is_aligned ? 0 : SizeOf(type)),
        memory_(offset_ + count * SizeOf(type)) {}
  KernelTensor(DType type, const std::vector<double>& values, bool is_aligned = true)
      : KernelTensor(type, values.size(), is_aligned) {
    for (size_t i = 0; i < count_; ++i) Set(i, values[i]);
  }

  DType type() const { return type_; }
  size_t count() const { return count_; }
  void* data() { return memory_.data() + offset_; }
  const void* data() const { return memory_.data() + offset_; }
  template <typename T>
  T* as() {
    return static_cast<T*>(data());
  }
  // The memory, of which the values begin at offset().
  const std::vector<std::byte>& bytes() const { return memory_; }
  std::vector<std::byte>& bytes() { return memory_; }
  size_t offset() const { return offset_; }

  // Rounds to the type.
  void Set(size_t i, double value);
  double at(size_t i) const;
  std::vector<double> values() const {
    std::vector<double> all(count_);
    for (size_t i = 0; i < count_; ++i) all[i] = at(i);
    return all;
  }

 private:
  template <typename T>
  void Write(size_t i, T value) {
    std::memcpy(memory_.data() + offset_ + i * sizeof(T), &value, sizeof(T));
  }
  template <typename T>
  T Read(size_t i) const {
    T value;
    std::memcpy(&value, memory_.data() + offset_ + i * sizeof(T), sizeof(T));
    return value;
  }

  DType type_ = DType::kF32;
  size_t count_ = 0;
  size_t offset_ = 0;
  std::vector<std::byte> memory_;
};

inline void KernelTensor::Set(size_t i, double value) {
  switch (type_) {
    case DType::kU8:
      return Write(i, static_cast<uint8_t>(value));
    case DType::kI32:
      return Write(i, static_cast<int32_t>(value));
    case DType::kI64:
      return Write(i, static_cast<int64_t>(value));
    case DType::kF16:
      return Write(i, ToHalf(static_cast<float>(value)));
    case DType::kBF16:
      return Write(i, ToBFloat(static_cast<float>(value)));
    case DType::kF64:
      return Write(i, value);
    default:
      return Write(i, static_cast<float>(value));
  }
}

inline double KernelTensor::at(size_t i) const {
  switch (type_) {
    case DType::kU8:
      return Read<uint8_t>(i);
    case DType::kI32:
      return Read<int32_t>(i);
    case DType::kI64:
      return static_cast<double>(Read<int64_t>(i));
    case DType::kF16:
      return ToFloat(Read<Half>(i));
    case DType::kBF16:
      return ToFloat(Read<BFloat>(i));
    case DType::kF64:
      return Read<double>(i);
    default:
      return Read<float>(i);
  }
}

// Numbers in [low, high), the same for a seed.
inline std::vector<double> DrawnValues(size_t count, unsigned seed, double low = -2,
                                       double high = 2) {
  std::mt19937 random(seed);
  std::vector<double> values(count);
  for (double& value : values) value = low + (high - low) * (random() / 4294967296.0);
  return values;
}

// The types of activations.
constexpr DType kFloatTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

// The most by which a number changes when it is rounded to the type, as a part of it: half of the
// last of 24, 8 or 11 bits.
inline double UnitOf(DType type) {
  return type == DType::kBF16 ? 0x1p-8 : (type == DType::kF16 ? 0x1p-11 : 0x1p-24);
}

// Results are computed in float32 and rounded once to their type. `slack` is the error of the
// computation; numbers that float16 has only few bits for are off by half of its smallest.
inline void ExpectNear(const KernelTensor& result, const std::vector<double>& expected,
                       double slack, const std::string& what) {
  ASSERT_EQ(result.count(), expected.size()) << what;
  const double smallest = result.type() == DType::kF16 ? 0x1p-25 : 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double limit = UnitOf(result.type()) * std::abs(expected[i]) + slack + smallest;
    ASSERT_NEAR(result.at(i), expected[i], limit) << what << ", element " << i;
  }
}

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_KERNEL_TENSOR_H_
