#include "augment/targets.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "augment/field/convert.h"
#include "augment/fuse/decode_crop.h"
#include "augment/fuse/mask.h"
#include "augment/image/errors.h"
#include "augment/image/options.h"
#include "augment/image/region.h"
#include "base/overloaded.h"
#include "base/status.h"

// The geometry of every op here is a window of the image that becomes the output, perhaps mirrored.
// Draws are functions of the sample, so the window is drawn a second time rather than asked of the
// op, by the op's own function.

namespace millrace::augment {
namespace {

// REQUIRES: the op takes an image of `shape`.
Placement PlacementOf(const GeometryOptions& geometry, const Shape& shape, RandomStream random) {
  const int64_t height = shape[0], width = shape[1];
  return std::visit(
      Overloaded{
          [&](const RandomResizedCropOptions& o) -> Placement {
            return {DrawCrop(height, width, o.area, o.aspect, random, o.max_attempts)};
          },
          [&](const RandomCropOptions& o) -> Placement {
            return {*DrawRandomCrop(o, shape, random)};
          },
          [&](const CenterCropOptions& o) -> Placement {
            return {{CenterOf(height, o.height), CenterOf(width, o.width), o.height, o.width}};
          },
          [&](const ResizeOptions&) -> Placement {
            return {{0, 0, height, width}};
          },
          [&](const FlipOptions& o) -> Placement {
            const bool flips = DrawFlip(o.probability, random);
            return {{0, 0, height, width}, flips && !o.vertical, flips && o.vertical};
          },
          [&](const PadOptions& o) -> Placement { return {PadRegion(o, shape)}; }},
      geometry);
}

// Two ends of a box along one axis, in pixels.
struct Span {
  double first, last;

  double length() const { return last - first; }
};

Span Place(const Span& span, int64_t begin, int64_t extent, int64_t out, bool mirrored) {
  // Multiplied first, so that the window's end becomes `out`: a quotient of the two is rounded, and
  // the end would lie beyond the image.
  const auto move = [&](double x) {
    return (x - static_cast<double>(begin)) * static_cast<double>(out) /
           static_cast<double>(extent);
  };
  const Span moved = {move(span.first), move(span.last)};
  if (!mirrored) return moved;
  return {static_cast<double>(out) - moved.last, static_cast<double>(out) - moved.first};
}

Span Clip(const Span& span, int64_t extent) {
  const auto most = static_cast<double>(extent);
  return {std::clamp(span.first, 0.0, most), std::clamp(span.last, 0.0, most)};
}

using Box = std::array<float, 4>;

class BoxMover {
 public:
  BoxMover(const BoxOptions& options, const Placement& placement, const Shape& in, const Shape& out)
      : options_(options), placement_(placement), in_(in), out_(out) {}

  // False: the box is dropped.
  bool Move(const float* box, Box& moved) const {
    const auto [x, y] = Read(box);
    const Region& window = placement_.window;
    const Span placed_x = Place(x, window.left, window.width, out_[1], placement_.mirrored);
    const Span placed_y = Place(y, window.top, window.height, out_[0], placement_.upside_down);
    const Span kept_x = Clip(placed_x, out_[1]), kept_y = Clip(placed_y, out_[0]);
    const double area = placed_x.length() * placed_y.length();
    const double kept = kept_x.length() * kept_y.length();
    if (kept < double{options_.min_area_share} * area) return false;
    moved = Write(kept_x, kept_y);
    return HasArea(moved);
  }

 private:
  std::pair<Span, Span> Read(const float* box) const {
    const double sx = options_.normalized ? static_cast<double>(in_[1]) : 1;
    const double sy = options_.normalized ? static_cast<double>(in_[0]) : 1;
    const double x = box[0] * sx, y = box[1] * sy, c = box[2] * sx, d = box[3] * sy;
    if (options_.corners) return {{x, c}, {y, d}};
    return {{x, x + c}, {y, y + d}};
  }

  Box Write(const Span& x, const Span& y) const {
    const double sx = options_.normalized ? static_cast<double>(out_[1]) : 1;
    const double sy = options_.normalized ? static_cast<double>(out_[0]) : 1;
    const double c = options_.corners ? x.last : x.length();
    const double d = options_.corners ? y.last : y.length();
    return {static_cast<float>(x.first / sx), static_cast<float>(y.first / sy),
            static_cast<float>(c / sx), static_cast<float>(d / sy)};
  }

  // Of what is written: a box may lose its area when it is rounded to float32.
  bool HasArea(const Box& box) const {
    if (!options_.corners) return box[2] > 0 && box[3] > 0;
    return box[2] > box[0] && box[3] > box[1];
  }

  const BoxOptions& options_;
  const Placement& placement_;
  const Shape& in_;
  const Shape& out_;
};

// The reason why `numbers` are no boxes; empty if they are.
std::string WhyNotBoxes(const BoxOptions& options, std::span<const float> numbers) {
  for (size_t i = 0; i + 4 <= numbers.size(); i += 4) {
    const std::span<const float> box = numbers.subspan(i, 4);
    const auto text = [&](std::string_view what) {
      return absl::StrCat(options.field, ": box ", i / 4, " ", ToAbsl(what));
    };
    if (!std::ranges::all_of(box, [](float x) { return std::isfinite(x); })) {
      return text("is not finite");
    }
    const auto values = [&] { return absl::StrCat(" (", absl::StrJoin(box, ", "), ")"); };
    if (options.corners && (box[2] < box[0] || box[3] < box[1])) {
      return text("has its second corner left of or above its first" + values());
    }
    if (!options.corners && (box[2] < 0 || box[3] < 0)) {
      return text("has a negative width or height" + values());
    }
  }
  return "";
}

class WithTargets final : public Op {
 public:
  WithTargets(TargetsOptions options, std::unique_ptr<Op> op, uint64_t stage)
      : options_(std::move(options)), op_(std::move(op)), stage_(stage) {}
  // `decode` decodes the image that it crops.
  WithTargets(TargetsOptions options, std::unique_ptr<DecodeCrop> decode, uint64_t stage)
      : options_(std::move(options)),
        decode_(decode.get()),
        op_(std::move(decode)),
        stage_(stage) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_ASSIGN_OR_RETURN(Schema output, op_->Resolve(input));
    // The boxes and the mask are looked up among the fields that a decode by itself would leave, so
    // that one op takes the same ones as two.
    Schema before = input;
    if (decode_ != nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(before, decode_->ResolveImage(input));
    }
    if (options_.boxes) MILLRACE_RETURN_IF_ERROR(ResolveBoxes(before, &output));
    if (options_.mask.empty()) return output;
    MILLRACE_ASSIGN_OR_RETURN(Field mask, FindImage(before, options_.mask, "mask", kAnyPixel));
    const Shape& image = output.Find(FieldOf(options_.geometry))->shape;
    mask.shape = Shape{image[0], image[1], mask.shape[2]};
    output.Set(std::move(mask));
    return output;
  }

  void Apply(Run& run) const override {
    std::vector<Shape> before(static_cast<size_t>(run.num_rows()));
    if (decode_ != nullptr) {
      decode_->ApplyNoting(run, &before);
    } else {
      const Column& images = run.Get(FieldOf(options_.geometry));
      for (int64_t row = 0; row < run.num_rows(); ++row) {
        if (run.ok(row)) before[static_cast<size_t>(row)] = images.at(row).shape;
      }
      op_->Apply(run);
    }
    if (options_.boxes) MoveBoxes(before, run);
    if (!options_.mask.empty()) MoveMasks(before, run);
  }

  int64_t preferred_rows() const override { return op_->preferred_rows(); }

 private:
  absl::Status ResolveBoxes(const Schema& input, Schema* output) const {
    MILLRACE_ASSIGN_OR_RETURN(Field boxes, FindField(input, options_.boxes->field, "boxes"));
    if (boxes.dtype != DType::kF32 || boxes.shape.rank() != 2 || boxes.shape[1] != 4) {
      return FieldError(boxes, "boxes", "float32 [n, 4]");
    }
    boxes.shape = Shape{Shape::kUnknown, 4};
    output->Set(std::move(boxes));
    for (const std::string& name : options_.boxes->labels) {
      MILLRACE_ASSIGN_OR_RETURN(Field label, FindField(input, name, "boxes"));
      if (label.dtype == DType::kBytes || label.shape.rank() < 1) {
        return FieldError(label, "boxes", "numbers [n, ...]");
      }
      const auto rest = label.shape.extents().subspan(1);
      label.shape = Shape(rest).Prepend(Shape::kUnknown);
      output->Set(std::move(label));
    }
    return absl::OkStatus();
  }

  // Where a row's image went. REQUIRES: the op has worked on it.
  Placement PlacementOfRow(const Run& run, int64_t row, const Shape& before) const {
    return PlacementOf(options_.geometry, before, run.Random(row, stage_));
  }

  void MoveBoxes(const std::vector<Shape>& before, Run& run) const {
    const BoxOptions& options = *options_.boxes;
    const Column in = run.Take(options.field);
    run.Add(options.field, DType::kF32);
    std::vector<std::vector<int64_t>> kept(before.size());
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const ConstTensorView boxes = in.at(row);
      const auto numbers = boxes.as<float>();
      if (const std::string why = WhyNotBoxes(options, numbers); !why.empty()) {
        run.Fail(row, RowError(RecordErrorReason::kValue, why));
        continue;
      }
      const Shape& from = before[static_cast<size_t>(row)];
      const Shape to = run.Get(FieldOf(options_.geometry)).at(row).shape;
      const Placement placement = PlacementOfRow(run, row, from);
      const BoxMover mover(options, placement, from, to);
      std::vector<Box> moved;
      auto& indices = kept[static_cast<size_t>(row)];
      for (int64_t i = 0; i < boxes.shape[0]; ++i) {
        Box box;
        if (!mover.Move(numbers.data() + 4 * i, box)) continue;
        moved.push_back(box);
        indices.push_back(i);
      }
      void* const out = run.Allocate(Writable(run, options.field), row,
                                     Shape{static_cast<int64_t>(moved.size()), 4});
      if (!moved.empty()) std::memcpy(out, moved.data(), moved.size() * sizeof(Box));
    }
    for (const std::string& label : options.labels) KeepLabels(label, in, kept, run);
  }

  void KeepLabels(const std::string& name, const Column& boxes,
                  const std::vector<std::vector<int64_t>>& kept, Run& run) const {
    const Column in = run.Take(name);
    Column& out = run.Add(name, in.dtype());
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const ConstTensorView labels = in.at(row);
      const int64_t n = boxes.at(row).shape[0];
      if (labels.shape[0] != n) {
        run.Fail(row, RowError(RecordErrorReason::kValue,
                               absl::StrCat(name, ": ", labels.shape[0], " elements for ", n,
                                            " boxes of ", options_.boxes->field)));
        continue;
      }
      const auto& indices = kept[static_cast<size_t>(row)];
      const Shape rest(labels.shape.extents().subspan(1));
      const size_t bytes = static_cast<size_t>(rest.num_elements()) * SizeOf(in.dtype());
      auto* to = static_cast<std::byte*>(
          run.Allocate(out, row, rest.Prepend(static_cast<int64_t>(indices.size()))));
      for (const int64_t i : indices) {
        std::memcpy(to, static_cast<const std::byte*>(labels.data) + static_cast<size_t>(i) * bytes,
                    bytes);
        to += bytes;
      }
    }
  }

  void MoveMasks(const std::vector<Shape>& before, Run& run) const {
    const Column in = run.Take(options_.mask);
    run.Add(options_.mask, in.dtype());
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const Shape& from = before[static_cast<size_t>(row)];
      const ConstTensorView mask = in.at(row);
      if (mask.shape[0] != from[0] || mask.shape[1] != from[1]) {
        run.Fail(row,
                 RowError(RecordErrorReason::kValue,
                          absl::StrCat(options_.mask, ": mask of shape ", mask.shape.ToString(),
                                       " of an image of shape ", from.ToString())));
        continue;
      }
      const Shape to = run.Get(FieldOf(options_.geometry)).at(row).shape;
      auto* const out = static_cast<std::byte*>(
          run.Allocate(Writable(run, options_.mask), row, Shape{to[0], to[1], mask.shape[2]}));
      MoveMask(mask, PlacementOfRow(run, row, from), to, out);
    }
  }

  static Column& Writable(Run& run, const std::string& name) {
    return *std::ranges::find(run.columns(), name, &Column::name);
  }

  const TargetsOptions options_;
  const DecodeCrop* const decode_ = nullptr;  // op_, if it is one
  const std::unique_ptr<Op> op_;
  const uint64_t stage_;
};

absl::Status Validate(const TargetsOptions& options) {
  const auto* pad = std::get_if<PadOptions>(&options.geometry);
  if (pad != nullptr && pad->mode != PadMode::kConstant) {
    return absl::InvalidArgumentError(
        "pad: only mode \"constant\" can carry boxes or a mask: the others show objects again");
  }
  if (!options.boxes) return absl::OkStatus();
  return CheckNumber("boxes", "min_area_share", options.boxes->min_area_share, 0, 1);
}

}  // namespace

const std::string& FieldOf(const GeometryOptions& geometry) {
  return std::visit([](const auto& o) -> const std::string& { return o.field; }, geometry);
}

absl::StatusOr<std::unique_ptr<Op>> MakeWithTargets(TargetsOptions options,
                                                    const std::string& stage) {
  MILLRACE_RETURN_IF_ERROR(Validate(options));
  using Made = absl::StatusOr<std::unique_ptr<Op>>;
  Made op = std::visit(
      Overloaded{[&](const RandomResizedCropOptions& o) -> Made {
                   return MakeRandomResizedCrop(o, stage);
                 },
                 [&](const RandomCropOptions& o) -> Made { return MakeRandomCrop(o, stage); },
                 [&](const CenterCropOptions& o) -> Made { return MakeCenterCrop(o); },
                 [&](const ResizeOptions& o) -> Made { return MakeResize(o); },
                 [&](const FlipOptions& o) -> Made { return MakeFlip(o, stage); },
                 [&](const PadOptions& o) -> Made { return MakePad(o); }},
      options.geometry);
  if (!op.ok()) return op.status();
  return std::make_unique<WithTargets>(std::move(options), *std::move(op), HashName(stage));
}

absl::StatusOr<std::unique_ptr<Op>> MakeDecodeWithTargets(DecodeImageOptions decode,
                                                          TargetsOptions crop,
                                                          const std::string& stage) {
  MILLRACE_RETURN_IF_ERROR(Validate(crop));
  const auto options = std::visit(
      [](const auto& o) -> std::optional<CropOptions> {
        if constexpr (std::is_constructible_v<CropOptions, decltype(o)>) return o;
        return std::nullopt;
      },
      crop.geometry);
  if (!options) {
    return absl::InvalidArgumentError("a decode goes with a crop, not with other geometry");
  }
  MILLRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<DecodeCrop> op,
      DecodeCrop::Make(std::move(decode), *options, std::nullopt, stage, PixelTail()));
  return std::make_unique<WithTargets>(std::move(crop), std::move(op), HashName(stage));
}

}  // namespace millrace::augment
