#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/field/convert.h"
#include "augment/geometry_ops.h"
#include "augment/image/errors.h"
#include "augment/rows/copy.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

constexpr int64_t kMaxChannels = 1 << 16;

// The permuted extents and, for each, the distance of its elements in the input.
struct Permuted {
  std::vector<int64_t> extents;
  std::vector<int64_t> strides;
  int64_t together = 1;  // elements that follow each other in both: the last axes, where they stay
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

// Takes the last axes off which stay where they are.
Permuted Joined(Permuted permuted) {
  while (!permuted.extents.empty() && permuted.strides.back() == permuted.together) {
    permuted.together *= permuted.extents.back();
    permuted.extents.pop_back();
    permuted.strides.pop_back();
  }
  return permuted;
}

// Writes axes [axis, rank) of the output, `bytes` at a time, and returns the place behind them.
// kBytes 0: `bytes` at a time; all distances are in bytes.
template <size_t kBytes>
std::byte* CopyAxes(const Permuted& permuted, size_t axis, size_t bytes, const std::byte* in,
                    std::byte* out) {
  const size_t piece = kBytes > 0 ? kBytes : bytes;
  if (axis == permuted.extents.size()) {
    std::memcpy(out, in, piece);
    return out + piece;
  }
  const int64_t extent = permuted.extents[axis];
  const int64_t stride = permuted.strides[axis];
  if (axis + 1 == permuted.extents.size()) {
    for (int64_t i = 0; i < extent; ++i, in += stride, out += piece) std::memcpy(out, in, piece);
    return out;
  }
  for (int64_t i = 0; i < extent; ++i, in += stride) {
    out = CopyAxes<kBytes>(permuted, axis + 1, bytes, in, out);
  }
  return out;
}

void CopyPermuted(Permuted permuted, size_t element, const std::byte* in, std::byte* out) {
  permuted = Joined(std::move(permuted));
  for (int64_t& stride : permuted.strides) stride *= static_cast<int64_t>(element);
  const size_t bytes = static_cast<size_t>(permuted.together) * element;
  switch (bytes) {  // constant sizes become plain moves
    case 1:
      return static_cast<void>(CopyAxes<1>(permuted, 0, bytes, in, out));
    case 2:
      return static_cast<void>(CopyAxes<2>(permuted, 0, bytes, in, out));
    case 3:
      return static_cast<void>(CopyAxes<3>(permuted, 0, bytes, in, out));
    case 4:
      return static_cast<void>(CopyAxes<4>(permuted, 0, bytes, in, out));
    case 8:
      return static_cast<void>(CopyAxes<8>(permuted, 0, bytes, in, out));
    case 12:
      return static_cast<void>(CopyAxes<12>(permuted, 0, bytes, in, out));
    default:
      CopyAxes<0>(permuted, 0, bytes, in, out);
  }
}

// The effect of a permutation on an image; a loop over rows does it where pixels have three values.
enum class PlaneMove { kNone, kSplit, kJoin };

PlaneMove PlaneMoveOf(const std::vector<int64_t>& perm) {
  if (perm == std::vector<int64_t>{2, 0, 1}) return PlaneMove::kSplit;
  if (perm == std::vector<int64_t>{1, 2, 0}) return PlaneMove::kJoin;
  return PlaneMove::kNone;
}

// False: pixels are not of three values, or values not of a size that the loops take.
bool MovePlanes(PlaneMove move, const ConstTensorView& value, size_t element, void* out) {
  if (move == PlaneMove::kNone || value.shape[move == PlaneMove::kSplit ? 2 : 0] != 3) return false;
  if (element > kMostMoved) return false;
  const int64_t pixels = value.shape.num_elements() / 3;
  if (move == PlaneMove::kSplit) {
    SplitRow3(value.data, pixels, pixels, element, out);
  } else {
    JoinRow3(value.data, pixels, pixels, element, out);
  }
  return true;
}

class Transpose final : public Op {
 public:
  explicit Transpose(TransposeOptions options)
      : options_(std::move(options)), planes_(PlaneMoveOf(options_.perm)) {}

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
      const size_t element = SizeOf(in.dtype());
      if (value.shape.num_elements() == 0) continue;
      if (MovePlanes(planes_, value, element, memory)) continue;
      CopyPermuted(permuted, element, static_cast<const std::byte*>(value.data),
                   static_cast<std::byte*>(memory));
    }
  }

 private:
  const TransposeOptions options_;
  const PlaneMove planes_;
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
    std::vector<std::byte> values(static_cast<size_t>(options_.channels) * size);
    for (size_t at = 0; at < values.size(); at += size) {
      ConvertFloat(options_.value, in.dtype(), &values[at]);
    }
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const ConstTensorView image = in.at(row);
      const Shape shape{image.shape[0], image.shape[1], options_.channels};
      auto* to = static_cast<std::byte*>(run.Allocate(out, row, shape));
      const size_t pixel = static_cast<size_t>(image.shape[2]) * size;
      AppendChannels(static_cast<const std::byte*>(image.data), image.shape[0] * image.shape[1],
                     pixel, size, std::span(values).subspan(pixel), to);
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
