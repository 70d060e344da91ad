#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/field/columns.h"
#include "augment/field_ops.h"
#include "augment/image/errors.h"
#include "augment/rows/log.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

constexpr char kNumbers[] = "uint8, int32, int64, float32 or float64";

DType FloatingOf(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

// Replaces every value x of the field by f(x), which is computed in float64 and rounded once.
template <typename F>
void MapFloating(Run& run, const std::string& field, const F& f) {
  WithNumber(run.Get(field).dtype(), [&](auto number) {
    using From = decltype(number);
    using To = Floating<From>;
    MapColumn<From, To>(run, field,
                        [&f](From x) { return static_cast<To>(f(static_cast<double>(x))); });
  });
}

// An op that makes a floating point number of every number.
class FloatingOp : public FieldsOp {
 public:
  using FieldsOp::FieldsOp;

 private:
  absl::StatusOr<Field> ResolveField(size_t, Field field) final {
    if (!IsNumber(field.dtype)) return FieldError(field, op(), kNumbers);
    field.dtype = FloatingOf(field.dtype);
    return field;
  }
};

class Scale final : public FloatingOp {
 public:
  explicit Scale(ScaleOptions options)
      : FloatingOp("scale", options.fields), options_(std::move(options)) {}

 private:
  void ApplyTo(size_t i, Run& run) const override {
    const std::string& field = fields()[i];
    if (options_.min.empty()) {
      return MapFloating(
          run, field,
          [factor = OfField(options_.factor, i), offset = OfField(options_.offset, i)](double x) {
            return x * factor + offset;
          });
    }
    const double min = OfField(options_.min, i);
    MapFloating(run, field, [min, width = OfField(options_.max, i) - min](double x) {
      return (x - min) / width;
    });
  }

  const ScaleOptions options_;
};

class Log final : public FloatingOp {
 public:
  explicit Log(LogOptions options)
      : FloatingOp("log", options.fields), options_(std::move(options)) {}

 private:
  void ApplyTo(size_t i, Run& run) const override {
    const std::string& field = fields()[i];
    WithNumber(run.Get(field).dtype(), [&](auto number) {
      using From = decltype(number);
      using To = Floating<From>;
      MapRows<From, To>(run, field, [this](const From* from, int64_t count, To* to) {
        for (int64_t done = 0; done < count; done += kBlock) {
          LogBlock(from + done, std::min(kBlock, count - done), to + done);
        }
      });
    });
  }

  // At most kBlock values.
  template <typename From, typename To>
  void LogBlock(const From* from, int64_t count, To* to) const {
    double values[kBlock];
    for (int64_t i = 0; i < count; ++i) {
      const auto x = static_cast<double>(from[i]);
      values[i] = x < options_.min ? options_.min : x;  // NaN is not below min
    }
    const int64_t filled = (count + kLogStep - 1) / kLogStep * kLogStep;
    std::fill(values + count, values + filled, 1.0);
    // The sum of whole numbers is exact, and LogRow takes a part of LogOnePlusRow's time.
    const bool whole = std::is_integral_v<From> && options_.min == std::floor(options_.min);
    if (options_.offset == 1 && !whole) {
      LogOnePlusRow(values, filled);
    } else {
      for (int64_t i = 0; i < count; ++i) values[i] += options_.offset;
      LogRow(values, filled);
    }
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(values[i]);
  }

  static constexpr int64_t kBlock = 256;
  static_assert(kBlock % kLogStep == 0);
  const LogOptions options_;
};

class Bucketize final : public FieldsOp {
 public:
  explicit Bucketize(BucketizeOptions options)
      : FieldsOp("bucketize", options.fields), options_(std::move(options)) {}

 private:
  absl::StatusOr<Field> ResolveField(size_t, Field field) override {
    if (!IsNumber(field.dtype)) return FieldError(field, op(), kNumbers);
    field.dtype = DType::kI64;
    return field;
  }

  void ApplyTo(size_t i, Run& run) const override {
    const std::string& field = fields()[i];
    WithNumber(run.Get(field).dtype(), [&](auto number) {
      using From = decltype(number);
      MapColumn<From, int64_t>(run, field,
                               [this](From x) { return BucketOf(static_cast<double>(x)); });
    });
  }

  int64_t BucketOf(double x) const {
    const std::vector<double>& boundaries = options_.boundaries;
    if (std::isnan(x)) return std::ssize(boundaries);
    const auto at = options_.right ? std::ranges::upper_bound(boundaries, x)
                                   : std::ranges::lower_bound(boundaries, x);
    return at - boundaries.begin();
  }

  const BucketizeOptions options_;
};

absl::Status CheckMinMax(const ScaleOptions& options) {
  const size_t count = options.fields.size();
  MILLRACE_RETURN_IF_ERROR(CheckCount("scale", "min", options.min.size(), count));
  MILLRACE_RETURN_IF_ERROR(CheckCount("scale", "max", options.max.size(), count));
  for (size_t i = 0; i < count; ++i) {
    const double min = OfField(options.min, i);
    const double max = OfField(options.max, i);
    if (min < max && std::isfinite(max - min)) continue;
    return absl::InvalidArgumentError(absl::StrCat("scale: min is ", min, " and max is ", max,
                                                   " of field \"", options.fields[i],
                                                   "\"; expected min < max, both finite"));
  }
  return absl::OkStatus();
}

absl::Status CheckFactors(const ScaleOptions& options) {
  const size_t count = options.fields.size();
  MILLRACE_RETURN_IF_ERROR(CheckCount("scale", "factor", options.factor.size(), count));
  MILLRACE_RETURN_IF_ERROR(CheckCount("scale", "offset", options.offset.size(), count));
  const auto finite = [](double value) { return std::isfinite(value); };
  if (std::ranges::all_of(options.factor, finite) && std::ranges::all_of(options.offset, finite)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("scale: factor and offset must be finite");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeScale(ScaleOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckFields("scale", options.fields));
  const bool by_range = !options.min.empty() || !options.max.empty();
  MILLRACE_RETURN_IF_ERROR(by_range ? CheckMinMax(options) : CheckFactors(options));
  return std::make_unique<Scale>(std::move(options));
}

absl::StatusOr<std::unique_ptr<Op>> MakeLog(LogOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckFields("log", options.fields));
  const double least = options.min + options.offset;
  if (!(least > 0) || !std::isfinite(options.min) || !std::isfinite(options.offset)) {
    return absl::InvalidArgumentError(
        absl::StrCat("log: min + offset is ", least, "; expected a finite number > 0"));
  }
  return std::make_unique<Log>(std::move(options));
}

absl::StatusOr<std::unique_ptr<Op>> MakeBucketize(BucketizeOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckFields("bucketize", options.fields));
  const auto& boundaries = options.boundaries;
  for (size_t i = 0; i < boundaries.size(); ++i) {
    if (std::isfinite(boundaries[i]) && (i == 0 || boundaries[i - 1] < boundaries[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat("bucketize: boundary ", i, " is ", boundaries[i],
                                                   "; expected finite numbers that ascend"));
  }
  if (boundaries.empty()) return absl::InvalidArgumentError("bucketize: no boundary");
  return std::make_unique<Bucketize>(std::move(options));
}

}  // namespace millrace::augment
