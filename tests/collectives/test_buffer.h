#ifndef MILLRACE_TESTS_COLLECTIVES_TEST_BUFFER_H_
#define MILLRACE_TESTS_COLLECTIVES_TEST_BUFFER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/half.h"
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
    case DType::kF16:
      static_cast<Half*>(data)[i] = ToHalf(static_cast<float>(value));
      break;
    case DType::kBF16:
      static_cast<BFloat*>(data)[i] = ToBFloat(static_cast<float>(value));
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
    case DType::kF16:
      return ToFloat(static_cast<const Half*>(data)[i]);
    case DType::kBF16:
      return ToFloat(static_cast<const BFloat*>(data)[i]);
    case DType::kF32:
      return static_cast<const float*>(data)[i];
    default:
      return static_cast<const double*>(data)[i];
  }
}

// What rank `rank` brings as element `i`: sums over eight ranks fit in uint8 and bfloat16.
inline double Value(int rank, size_t i) { return static_cast<double>((i * 7 + rank * 5) % 31); }

// The same for one reduction: products of eight ranks fit too.
inline double Value(ReduceOp op, int rank, size_t i) {
  if (op == ReduceOp::kProduct) return (i + rank) % 4 == 0 ? 2 : 1;
  return Value(rank, i);
}

// Before it is rounded to the element type.
inline double Expected(ReduceOp op, int size, size_t i) {
  double result = Value(op, 0, i);
  for (int r = 1; r < size; ++r) {
    const double value = Value(op, r, i);
    if (op == ReduceOp::kSum || op == ReduceOp::kAverage) result += value;
    if (op == ReduceOp::kProduct) result *= value;
    if (op == ReduceOp::kMin) result = value < result ? value : result;
    if (op == ReduceOp::kMax) result = value > result ? value : result;
  }
  return op == ReduceOp::kAverage ? result / size : result;
}

inline double Rounded(DType dtype, double value) {
  double memory = 0;
  Store(dtype, &memory, 0, value);
  return Load(dtype, &memory, 0);
}

inline bool IsWhole(DType dtype) {
  return dtype == DType::kU8 || dtype == DType::kI32 || dtype == DType::kI64;
}

// A tensor with memory of its own.
class Buffer {
 public:
  Buffer(DType dtype, size_t count) : dtype_(dtype), count_(count), bytes_(count * SizeOf(dtype)) {}
  Buffer(DType dtype, size_t count, int rank) : Buffer(dtype, count) {
    for (size_t i = 0; i < count; ++i) Set(i, Value(rank, i));
  }
  Buffer(DType dtype, size_t count, int rank, ReduceOp op) : Buffer(dtype, count) {
    for (size_t i = 0; i < count; ++i) Set(i, Value(op, rank, i));
  }
  TensorView view() { return {bytes_.data(), dtype_, Shape{static_cast<int64_t>(count_)}}; }
  void Set(size_t i, double value) { Store(dtype_, bytes_.data(), i, value); }
  double Get(size_t i) const { return Load(dtype_, bytes_.data(), i); }
  // Elements [begin, end) must be the reduction over `size` ranks of elements from `source` on.
  absl::Status Check(ReduceOp op, int size, size_t begin, size_t end, size_t source) const {
    for (size_t i = begin; i < end; ++i) {
      const double expected = Rounded(dtype_, Expected(op, size, i - begin + source));
      if (Get(i) == expected) continue;
      return Fail(absl::StrCat(Label(), " op ", static_cast<int>(op), " element ", i, " is ",
                               Get(i), ", not ", expected));
    }
    return absl::OkStatus();
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::string Label() const { return absl::StrCat(count_, " x ", ToAbsl(Name(dtype_))); }

 private:
  DType dtype_;
  size_t count_;
  std::vector<std::byte> bytes_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_TEST_BUFFER_H_
