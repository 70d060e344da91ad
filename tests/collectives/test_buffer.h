#ifndef MILLRACE_TESTS_COLLECTIVES_TEST_BUFFER_H_
#define MILLRACE_TESTS_COLLECTIVES_TEST_BUFFER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/tensor.h"
#include "collectives/communicator.h"

namespace millrace::collectives {

using RankBody = std::function<absl::Status(Communicator&)>;

inline absl::Status Fail(std::string_view what) { return absl::InternalError(ToAbsl(what)); }

// Elements of one type as doubles, which hold all test values exactly.
inline void Store(DType dtype, void* data, size_t i, double value) {
  switch (dtype) {
    case DType::kU8:
      static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value);
      break;
    case DType::kI32:
      static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
      break;
    case DType::kI64:
      static_cast<int64_t*>(data)[i] = static_cast<int64_t>(value);
      break;
    case DType::kF32:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      break;
    default:
      static_cast<double*>(data)[i] = value;
      break;
  }
}

inline double Load(DType dtype, const void* data, size_t i) {
  switch (dtype) {
    case DType::kU8:
      return static_cast<const uint8_t*>(data)[i];
    case DType::kI32:
      return static_cast<const int32_t*>(data)[i];
    case DType::kI64:
      return static_cast<double>(static_cast<const int64_t*>(data)[i]);
    case DType::kF32:
      return static_cast<const float*>(data)[i];
    default:
      return static_cast<const double*>(data)[i];
  }
}

// What rank `rank` brings as element `i`: sums over eight ranks fit in uint8.
inline double Value(int rank, size_t i) { return static_cast<double>((i * 7 + rank * 5) % 31); }

inline double Expected(ReduceOp op, int size, size_t i) {
  double result = Value(0, i);
  for (int r = 1; r < size; ++r) {
    const double value = Value(r, i);
    if (op == ReduceOp::kSum) result += value;
    if (op == ReduceOp::kMin) result = value < result ? value : result;
    if (op == ReduceOp::kMax) result = value > result ? value : result;
  }
  return result;
}

// A tensor with memory of its own.
class Buffer {
 public:
  Buffer(DType dtype, size_t count) : dtype_(dtype), count_(count), bytes_(count * SizeOf(dtype)) {}
  Buffer(DType dtype, size_t count, int rank) : Buffer(dtype, count) {
    for (size_t i = 0; i < count; ++i) Set(i, Value(rank, i));
  }
  TensorView view() { return {bytes_.data(), dtype_, Shape{static_cast<int64_t>(count_)}}; }
  void Set(size_t i, double value) { Store(dtype_, bytes_.data(), i, value); }
  double Get(size_t i) const { return Load(dtype_, bytes_.data(), i); }
  std::string Label() const { return absl::StrCat(count_, " x ", ToAbsl(Name(dtype_))); }

 private:
  DType dtype_;
  size_t count_;
  std::vector<std::byte> bytes_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_TEST_BUFFER_H_
