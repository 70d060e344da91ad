#ifndef MILLRACE_AUGMENT_FIELD_COLUMNS_H_
#define MILLRACE_AUGMENT_FIELD_COLUMNS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/op.h"

// Helpers of ops over many fields of numbers. A column whose rows lie at equal distances, as
// parsing makes of a field of one shape, is worked on in one loop, so that a row costs no more than
// its values.

namespace millrace::augment {

template <typename T>
constexpr DType DTypeOf() {
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kU8;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kI32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kI64;
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  return DType::kF64;
}

// The type of results computed from a T: float64 for float64, else float32.
template <typename T>
using Floating = std::conditional_t<std::is_same_v<T, double>, double, float>;

inline bool IsInteger(DType dtype) {
  return dtype == DType::kU8 || dtype == DType::kI32 || dtype == DType::kI64;
}
inline bool IsNumber(DType dtype) {
  return IsInteger(dtype) || dtype == DType::kF32 || dtype == DType::kF64;
}

// Calls `f` with a value of the element type. REQUIRES: IsNumber.
template <typename F>
auto WithNumber(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kU8:
      return f(uint8_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kF32:
      return f(float{});
    default:
      return f(double{});
  }
}

// True if T can hold the number: an integer type exactly, a floating type rounded.
template <typename T>
bool HasNumber(double value) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    return std::abs(value) <= static_cast<double>(Limits::max());
  } else {
    // As a double int64's largest value would be 2^63, which is out of its range.
    return value == std::floor(value) && value < std::ldexp(1.0, Limits::digits) &&
           value >= static_cast<double>(Limits::min());
  }
}

// Replaces every value of the field, a From, by a To; f(from, count, to) converts `count` at once.
template <typename From, typename To, typename F>
void MapRows(Run& run, const std::string& field, const F& f) {
  Column* out = nullptr;
  const Column in = run.Renew(field, DTypeOf<To>(), &out);
  const auto map = [&f](const void* from, int64_t count, void* to) {
    f(static_cast<const From*>(from), count, static_cast<To*>(to));
  };
  if (!run.all_ok() || !in.is_dense()) {
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const ConstTensorView value = in.at(row);
      map(value.data, value.shape.num_elements(), run.Allocate(*out, row, value.shape));
    }
    return;
  }
  const int64_t count = in.row_shape().num_elements();
  const int64_t to_bytes = count * static_cast<int64_t>(sizeof(To));
  std::byte* const to = run.AllocateAll(*out, in.row_shape());
  out->SetAll(to, to_bytes, in.row_shape());
  if (in.stride_bytes() == count * static_cast<int64_t>(sizeof(From))) {
    map(in.first(), count * run.num_rows(), to);
    return;
  }
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    map(in.first() + row * in.stride_bytes(), count, to + row * to_bytes);
  }
}

// Replaces every value x of the field, a From, by f(x), a To.
template <typename From, typename To, typename F>
void MapColumn(Run& run, const std::string& field, const F& f) {
  MapRows<From, To>(run, field, [&f](const From* from, int64_t count, To* to) {
    for (int64_t i = 0; i < count; ++i) to[i] = f(from[i]);
  });
}

// An op that works on one field after the other, each by itself. `op` is its name.
class FieldsOp : public Op {
 public:
  FieldsOp(const char* op, std::vector<std::string> fields) : op_(op), fields_(std::move(fields)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) final;
  void Apply(Run& run) const final;

 protected:
  const char* op() const { return op_; }
  const std::vector<std::string>& fields() const { return fields_; }

 private:
  // Checks field i and returns what it becomes.
  virtual absl::StatusOr<Field> ResolveField(size_t i, Field field) = 0;
  virtual void ApplyTo(size_t i, Run& run) const = 0;

  const char* const op_;
  const std::vector<std::string> fields_;
};

// Returns the number for field i of an option that has one number, or one per field.
template <typename T>
const T& OfField(const std::vector<T>& values, size_t i) {
  return values[values.size() == 1 ? 0 : i];
}

// INVALID_ARGUMENT unless `fields` are some names, all different.
absl::Status CheckFields(std::string_view op, const std::vector<std::string>& fields);
// INVALID_ARGUMENT unless there is one value, or one per field.
absl::Status CheckCount(std::string_view op, std::string_view option, size_t count,
                        size_t num_fields);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FIELD_COLUMNS_H_
