#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/field/columns.h"
#include "augment/field_ops.h"
#include "augment/image/errors.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

constexpr char kNumbers[] = "uint8, int32, int64, float32 or float64";

// The nearest T; beyond all of them, an infinity.
template <typename T>
T NearestBound(double bound) {
  if (HasNumber<T>(bound)) return static_cast<T>(bound);
  return std::copysign(std::numeric_limits<T>::infinity(), static_cast<T>(bound < 0 ? -1 : 1));
}

// The least T that is not below `bound`, or the type's own least; of a floating type the nearest.
template <typename T>
T LowBound(double bound) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) return NearestBound<T>(bound);
  if (bound <= static_cast<double>(Limits::min())) return Limits::min();
  return HasNumber<T>(std::ceil(bound)) ? static_cast<T>(std::ceil(bound)) : Limits::max();
}

// And the greatest that is not above it.
template <typename T>
T HighBound(double bound) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) return NearestBound<T>(bound);
  if (bound < static_cast<double>(Limits::min())) return Limits::min();
  return HasNumber<T>(std::floor(bound)) ? static_cast<T>(std::floor(bound)) : Limits::max();
}

class Clip final : public FieldsOp {
 public:
  explicit Clip(ClipOptions options)
      : FieldsOp("clip", options.fields), options_(std::move(options)) {}

 private:
  absl::StatusOr<Field> ResolveField(size_t, Field field) override {
    if (!IsNumber(field.dtype)) return FieldError(field, op(), kNumbers);
    const bool holds_some = WithNumber(field.dtype, [&](auto number) {
      using Limits = std::numeric_limits<decltype(number)>;
      const double min = options_.min.value_or(-HUGE_VAL);
      const double max = options_.max.value_or(HUGE_VAL);
      if (!Limits::is_integer) return min <= Limits::max() && max >= Limits::lowest();
      const double low = std::ceil(min);
      const double high = std::floor(max);
      return low <= high && low < std::ldexp(1.0, Limits::digits) &&
             high >= static_cast<double>(Limits::min());
    });
    if (holds_some) return field;
    return FieldError(field, op(), "a dtype that has a number from min to max");
  }

  void ApplyTo(size_t i, Run& run) const override {
    const std::string& field = fields()[i];
    WithNumber(run.Get(field).dtype(), [&](auto number) {
      using T = decltype(number);
      const T low = LowBound<T>(options_.min.value_or(-HUGE_VAL));
      const T high = HighBound<T>(options_.max.value_or(HUGE_VAL));
      MapColumn<T, T>(run, field,
                      [low, high](T x) { return x < low ? low : (x > high ? high : x); });
    });
  }

  const ClipOptions options_;
};

class FillMissing final : public FieldsOp {
 public:
  explicit FillMissing(FillMissingOptions options)
      : FieldsOp("fill_missing", options.fields), options_(std::move(options)) {}

 private:
  absl::StatusOr<Field> ResolveField(size_t, Field field) override {
    if (!IsNumber(field.dtype)) return FieldError(field, op(), kNumbers);
    if (IsInteger(field.dtype) && !options_.missing) {
      return FieldError(field, op(), "float32 or float64; an integer is never NaN, give `missing`");
    }
    const bool fits = WithNumber(field.dtype, [&](auto number) {
      using T = decltype(number);
      return HasNumber<T>(options_.value) && HasNumber<T>(options_.missing.value_or(0));
    });
    if (fits) return field;
    return FieldError(field, op(), "a dtype that has the numbers `value` and `missing`");
  }

  void ApplyTo(size_t i, Run& run) const override {
    const std::string& field = fields()[i];
    WithNumber(run.Get(field).dtype(), [&](auto number) {
      using T = decltype(number);
      const T value = static_cast<T>(options_.value);
      // Where there is none, NaN: it equals nothing. Integers have one.
      const T missing = options_.missing ? static_cast<T>(*options_.missing)
                                         : std::numeric_limits<T>::quiet_NaN();
      MapColumn<T, T>(run, field, [value, missing](T x) {
        // Only NaN differs from itself.
        return x == missing || x != x ? value : x;
      });
    });
  }

  const FillMissingOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeClip(ClipOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckFields("clip", options.fields));
  if (!options.min && !options.max) return absl::InvalidArgumentError("clip: no min and no max");
  const double min = options.min.value_or(-HUGE_VAL);
  const double max = options.max.value_or(HUGE_VAL);
  if (min <= max) return std::make_unique<Clip>(std::move(options));
  return absl::InvalidArgumentError(
      absl::StrCat("clip: min is ", min, " and max is ", max, "; expected min <= max"));
}

absl::StatusOr<std::unique_ptr<Op>> MakeFillMissing(FillMissingOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckFields("fill_missing", options.fields));
  if (std::isfinite(options.value) && std::isfinite(options.missing.value_or(0))) {
    return std::make_unique<FillMissing>(std::move(options));
  }
  return absl::InvalidArgumentError("fill_missing: value and missing must be finite");
}

}  // namespace millrace::augment
