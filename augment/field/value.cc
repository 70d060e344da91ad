#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/field/convert.h"
#include "augment/image/errors.h"
#include "augment/image/options.h"
#include "augment/image_ops.h"
#include "augment/rows/kernels.h"
#include "base/half.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

template <typename From>
constexpr bool kIsHalf = std::is_same_v<From, Half> || std::is_same_v<From, BFloat>;

template <typename To>
To FromFloating(double value) {
  using Limits = std::numeric_limits<To>;
  if (std::isnan(value)) return 0;
  const double rounded = std::nearbyint(value);
  // int64's largest value becomes 2^63 as a double, which saturates too.
  if (rounded >= static_cast<double>(Limits::max())) return Limits::max();
  if (rounded <= static_cast<double>(Limits::min())) return Limits::min();
  return static_cast<To>(rounded);
}

template <typename To, typename From>
To Convert(From value) {
  if constexpr (kIsHalf<From>) {
    return Convert<To>(ToFloat(value));
  } else if constexpr (std::is_same_v<To, Half>) {
    return ToHalf(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, BFloat>) {
    return ToBFloat(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else if constexpr (std::is_floating_point_v<From>) {
    return FromFloating<To>(static_cast<double>(value));
  } else {
    return static_cast<To>(
        std::clamp<int64_t>(value, std::numeric_limits<To>::min(), std::numeric_limits<To>::max()));
  }
}

static_assert(sizeof(Half) == sizeof(uint16_t) && sizeof(BFloat) == sizeof(uint16_t));
void ToHalves(const float* in, int64_t count, Half* out) { ToHalfRow(in, count, &out->bits); }
void ToHalves(const float* in, int64_t count, BFloat* out) { ToBFloatRow(in, count, &out->bits); }

template <typename From, typename To>
void ConvertAll(const void* in, int64_t count, float scale, void* out) {
  const auto* from = static_cast<const From*>(in);
  auto* to = static_cast<To*>(out);
  if constexpr (std::is_same_v<From, float> && (kIsHalf<To>)) {
    if (scale == 1.0f) return ToHalves(from, count, to);
  }
  if (scale == 1.0f) {
    for (int64_t i = 0; i < count; ++i) to[i] = Convert<To>(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = Convert<To>(Convert<float>(from[i]) * scale);
  }
}

// Calls `f` with a value of the element type. REQUIRES: not kBytes.
template <typename F>
auto WithType(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kF16:
      return f(Half{});
    case DType::kBF16:
      return f(BFloat{});
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kU8:
    case DType::kBytes:
      break;
  }
  return f(uint8_t{});
}

}  // namespace

ConvertFunction FindConvert(DType from, DType to) {
  return WithType(from, [to](auto source) {
    return WithType(to, [](auto target) -> ConvertFunction {
      return &ConvertAll<decltype(source), decltype(target)>;
    });
  });
}

namespace {

class Cast final : public Op {
 public:
  explicit Cast(CastOptions options) : options_(std::move(options)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_ASSIGN_OR_RETURN(Field field, FindField(input, options_.field, "cast"));
    if (field.dtype == DType::kBytes) return FieldError(field, "cast", "a numeric dtype");
    convert_ = FindConvert(field.dtype, options_.dtype);
    field.dtype = options_.dtype;
    Schema output = input;
    output.Set(std::move(field));
    return output;
  }

  void Apply(Run& run) const override {
    const Column in = run.Take(options_.field);
    Column& out = run.Add(options_.field, options_.dtype);
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const ConstTensorView value = in.at(row);
      convert_(value.data, value.shape.num_elements(), options_.scale,
               run.Allocate(out, row, value.shape));
    }
  }

 private:
  const CastOptions options_;
  ConvertFunction convert_ = nullptr;  // set by Resolve
};

class OneHot final : public Op {
 public:
  explicit OneHot(OneHotOptions options) : options_(std::move(options)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_ASSIGN_OR_RETURN(const Field field, FindField(input, options_.field, "one_hot"));
    const bool is_integer = field.dtype == DType::kI64 || field.dtype == DType::kI32;
    if (!is_integer || field.shape.rank() != 0) {
      return FieldError(field, "one_hot", "an int64 or int32 scalar");
    }
    Schema output = input;
    output.Set({options_.field, DType::kF32, Shape{options_.depth}});
    return output;
  }

  void Apply(Run& run) const override {
    const Column in = run.Take(options_.field);
    Column& out = run.Add(options_.field, DType::kF32);
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const void* data = in.at(row).data;
      const int64_t label = in.dtype() == DType::kI64 ? *static_cast<const int64_t*>(data)
                                                      : *static_cast<const int32_t*>(data);
      if (label < 0 || label >= options_.depth) {
        run.Fail(row, RowError(RecordErrorReason::kValue,
                               absl::StrCat(options_.field, ": label ", label, " is outside [0, ",
                                            options_.depth, ")")));
        continue;
      }
      auto* values = static_cast<float*>(run.Allocate(out, row, Shape{options_.depth}));
      std::fill_n(values, options_.depth, 0.0f);
      values[label] = 1.0f;
    }
  }

 private:
  const OneHotOptions options_;
};

class LabelSmoothing final : public Op {
 public:
  explicit LabelSmoothing(LabelSmoothingOptions options) : options_(std::move(options)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_ASSIGN_OR_RETURN(const Field field,
                              FindField(input, options_.field, "label_smoothing"));
    if (field.dtype == DType::kF32 && field.shape.rank() == 1) return input;
    return FieldError(field, "label_smoothing", "float32 [classes]; one_hot makes it");
  }

  void Apply(Run& run) const override {
    const Column in = run.Take(options_.field);
    Column& out = run.Add(options_.field, DType::kF32);
    const float kept = 1.0f - options_.smoothing;
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const ConstTensorView label = in.at(row);
      const float added = options_.smoothing / static_cast<float>(label.shape[0]);
      auto* to = static_cast<float*>(run.Allocate(out, row, label.shape));
      for (const float y : label.as<float>()) *to++ = y * kept + added;
    }
  }

 private:
  const LabelSmoothingOptions options_;
};

}  // namespace

void ConvertFloat(float value, DType dtype, void* out) {
  FindConvert(DType::kF32, dtype)(&value, 1, 1.0f, out);
}

absl::StatusOr<std::unique_ptr<Op>> MakeCast(CastOptions options) {
  if (options.dtype == DType::kBytes) {
    return absl::InvalidArgumentError("cast: dtype is bytes; expected a numeric dtype");
  }
  if (!std::isfinite(options.scale)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cast: scale is ", options.scale, "; expected a finite number"));
  }
  return std::make_unique<Cast>(std::move(options));
}

absl::StatusOr<std::unique_ptr<Op>> MakeOneHot(OneHotOptions options) {
  constexpr int64_t kMaxDepth = 1 << 24;
  if (options.depth < 1 || options.depth > kMaxDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("one_hot: depth is ", options.depth, "; expected 1 to ", kMaxDepth));
  }
  return std::make_unique<OneHot>(std::move(options));
}

absl::StatusOr<std::unique_ptr<Op>> MakeLabelSmoothing(LabelSmoothingOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckNumber("label_smoothing", "smoothing", options.smoothing, 0, 1));
  return std::make_unique<LabelSmoothing>(std::move(options));
}

}  // namespace millrace::augment
