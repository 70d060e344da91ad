#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/convert_internal.h"
#include "augment/errors_internal.h"
#include "augment/geometry_ops.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

constexpr int64_t kMaxChannels = 1 << 16;

// The permuted extents and, for each, the distance of its elements in the input.
struct Permuted {
  std::vector<int64_t> extents;
  std::vector<int64_t> strides;
};

Permuted Permute(const Shape& shape, const std::vector<int64_t>& perm) {
  std::vector<int64_t> strides(perm.size(), 1);
  for (size_t i = perm.size() - 1; i > 0; --i) {
    strides[i - 1] = strides[i] * shape[static_cast<int>(i)];
  }
  Permuted permuted;
  for (int64_t axis : perm) {
    permuted.extents.push_back(shape[static_cast<int>(axis)]);
    permuted.strides.push_back(strides[static_cast<size_t>(axis)]);
  }
  return permuted;
}

// Writes axes [axis, rank) of the output and returns the place behind them.
template <typename T>
T* CopyAxes(const Permuted& permuted, size_t axis, const T* in, T* out) {
  const int64_t extent = permuted.extents[axis];
  const int64_t stride = permuted.strides[axis];
  if (axis + 1 == permuted.extents.size()) {
    for (int64_t i = 0; i < extent; ++i) out[i] = in[i * stride];
    return out + extent;
  }
  for (int64_t i = 0; i < extent; ++i) out = CopyAxes(permuted, axis + 1, in + i * stride, out);
  return out;
}

void CopyPermuted(const Permuted& permuted, size_t element, const void* in, void* out) {
  switch (element) {
    case 1:
      CopyAxes(permuted, 0, static_cast<const uint8_t*>(in), static_cast<uint8_t*>(out));
      break;
    case 2:
      CopyAxes(permuted, 0, static_cast<const uint16_t*>(in), static_cast<uint16_t*>(out));
      break;
    case 4:
      CopyAxes(permuted, 0, static_cast<const uint32_t*>(in), static_cast<uint32_t*>(out));
      break;
    default:
      CopyAxes(permuted, 0, static_cast<const uint64_t*>(in), static_cast<uint64_t*>(out));
      break;
  }
}

class Transpose final : public Op {
 public:
  explicit Transpose(TransposeOptions options) : options_(std::move(options)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_ASSIGN_OR_RETURN(Field field, FindField(input, options_.field, "transpose"));
    const auto rank = static_cast<int>(options_.perm.size());
    if (field.dtype == DType::kBytes || field.shape.rank() != rank) {
      return FieldError(field, "transpose", absl::StrCat("a numeric dtype and ", rank, " extents"));
    }
    field.shape = Shape(std::span<const int64_t>(Permute(field.shape, options_.perm).extents));
    Schema output = input;
    output.Set(std::move(field));
    return output;
  }

  void Apply(Run& run) const override {
    const Column in = run.Take(options_.field);
    Column& out = run.Add(options_.field, in.dtype());
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const ConstTensorView value = in.at(row);
      const Permuted permuted = Permute(value.shape, options_.perm);
      void* memory = run.Allocate(out, row, Shape(std::span<const int64_t>(permuted.extents)));
      CopyPermuted(permuted, SizeOf(in.dtype()), value.data, memory);
    }
  }

 private:
  const TransposeOptions options_;
};

class PadChannels final : public Op {
 public:
  explicit PadChannels(PadChannelsOptions options) : options_(std::move(options)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_ASSIGN_OR_RETURN(Field field,
                              FindImage(input, options_.field, "pad_channels", kAnyPixel));
    if (field.shape[2] > options_.channels) {
      return FieldError(field, "pad_channels",
                        absl::StrCat("at most ", options_.channels, " channels"));
    }
    field.shape = Shape{field.shape[0], field.shape[1], options_.channels};
    Schema output = input;
    output.Set(std::move(field));
    return output;
  }

  void Apply(Run& run) const override {
    const Column in = run.Take(options_.field);
    Column& out = run.Add(options_.field, in.dtype());
    const size_t size = SizeOf(in.dtype());
    std::vector<std::byte> pixel(static_cast<size_t>(options_.channels) * size);
    for (size_t at = 0; at < pixel.size(); at += size) {
      ConvertFloat(options_.value, in.dtype(), &pixel[at]);
    }
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const ConstTensorView image = in.at(row);
      const Shape shape{image.shape[0], image.shape[1], options_.channels};
      auto* to = static_cast<std::byte*>(run.Allocate(out, row, shape));
      const auto* from = static_cast<const std::byte*>(image.data);
      const size_t old = static_cast<size_t>(image.shape[2]) * size;
      for (int64_t i = image.shape[0] * image.shape[1]; i > 0; --i) {
        std::memcpy(to, from, old);
        std::memcpy(to + old, pixel.data(), pixel.size() - old);
        from += old;
        to += pixel.size();
      }
    }
  }

 private:
  const PadChannelsOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeTranspose(TransposeOptions options) {
  std::vector<int64_t> sorted = options.perm;
  std::ranges::sort(sorted);
  bool valid = !sorted.empty() && sorted.size() <= static_cast<size_t>(Shape::kMaxRank - 1);
  for (size_t i = 0; i < sorted.size(); ++i) valid = valid && sorted[i] == static_cast<int64_t>(i);
  if (!valid) {
    return absl::InvalidArgumentError(
        "transpose: perm must have every number from 0 to one less than its length once");
  }
  return std::make_unique<Transpose>(std::move(options));
}

absl::StatusOr<std::unique_ptr<Op>> MakePadChannels(PadChannelsOptions options) {
  if (options.channels < 1 || options.channels > kMaxChannels) {
    return absl::InvalidArgumentError(absl::StrCat("pad_channels: channels is ", options.channels,
                                                   "; expected 1 to ", kMaxChannels));
  }
  if (!std::isfinite(options.value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("pad_channels: value is ", options.value, "; expected a finite number"));
  }
  return std::make_unique<PadChannels>(std::move(options));
}

}  // namespace millrace::augment
