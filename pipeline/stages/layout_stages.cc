#include <algorithm>
#include <cmath>

#include "base/shape.h"
#include "pipeline/stages/convert.h"
#include "pipeline/stages/row.h"

// Maps that change how the values of images and labels are written: order, channels, scale, dtype.

namespace millrace::pipeline {
namespace {

using proto::Stage;

constexpr uint64_t kMaxChannels = 1 << 16;
constexpr uint64_t kMaxDepth = 1 << 24;  // the largest depth of one_hot

void FillTranspose(proto::Transpose* transpose) {
  FillImageField(transpose);
  if (!transpose->perm().empty()) return;
  for (const uint32_t axis : {2, 0, 1}) transpose->add_perm(axis);
}

absl::Status CheckTranspose(const OptionsChecker& check, const proto::Transpose& transpose) {
  const int size = transpose.perm_size();
  if (size >= Shape::kMaxRank) {
    return check.Error("perm", absl::StrCat(" has more than ", Shape::kMaxRank - 1, " numbers"));
  }
  for (int i = 0; i < size; ++i) {
    if (std::ranges::count(transpose.perm(), static_cast<uint32_t>(i)) == 1) continue;
    return check.Error("perm",
                       absl::StrCat(" must have every number from 0 to ", size - 1, " once"));
  }
  return absl::OkStatus();
}

OpOptions ToTranspose(const proto::Transpose& transpose) {
  return augment::TransposeOptions{transpose.field(),
                                   {transpose.perm().begin(), transpose.perm().end()}};
}

void FillPadChannels(proto::PadChannels* pad) {
  FillImageField(pad);
  if (pad->channels() == 0) pad->set_channels(4);
}

absl::Status CheckPadChannels(const OptionsChecker& check, const proto::PadChannels& pad) {
  MILLRACE_RETURN_IF_ERROR(check.InRange("channels", pad.channels(), 1, kMaxChannels));
  return check.IsFinite("value", pad.value());
}

OpOptions ToPadChannels(const proto::PadChannels& pad) {
  return augment::PadChannelsOptions{pad.field(), pad.channels(), pad.value()};
}

absl::Status CheckNormalize(const OptionsChecker& check, const proto::Normalize& normalize) {
  if (normalize.mean().empty()) {
    return check.Error("mean", " is empty; give one number per channel");
  }
  if (normalize.mean_size() != normalize.stddev_size()) {
    return check.Error("stddev", absl::StrCat(" has ", normalize.stddev_size(),
                                              " numbers but mean has ", normalize.mean_size()));
  }
  for (int i = 0; i < normalize.mean_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(check.IsFinite("mean", normalize.mean(i), i));
    if (!(normalize.stddev(i) > 0) || !std::isfinite(normalize.stddev(i))) {
      return check.Error("stddev", " must be > 0 and finite", i);
    }
  }
  return absl::OkStatus();
}

OpOptions ToNormalize(const proto::Normalize& normalize) {
  augment::NormalizeOptions options;
  options.field = normalize.field();
  options.mean = ToVector(normalize.mean());
  options.stddev = ToVector(normalize.stddev());
  return options;
}

void FillCast(proto::Cast* cast) {
  if (!cast->has_scale()) cast->set_scale(1.0f);
}

absl::Status CheckCast(const OptionsChecker& check, const proto::Cast& cast) {
  MILLRACE_RETURN_IF_ERROR(check.HasName("field", cast.field()));
  MILLRACE_RETURN_IF_ERROR(check.IsNumeric("dtype", cast.dtype()));
  return check.IsFinite("scale", cast.scale());
}

OpOptions ToCast(const proto::Cast& cast) {
  return augment::CastOptions{cast.field(), ToDType(cast.dtype()), cast.scale()};
}

void FillOneHot(proto::OneHot* one_hot) { Default(one_hot->mutable_field(), "label"); }

absl::Status CheckOneHot(const OptionsChecker& check, const proto::OneHot& one_hot) {
  return check.InRange("depth", one_hot.depth(), 1, kMaxDepth);
}

OpOptions ToOneHot(const proto::OneHot& one_hot) {
  return augment::OneHotOptions{one_hot.field(), one_hot.depth()};
}

void FillSmoothing(proto::LabelSmoothing* smoothing) {
  Default(smoothing->mutable_field(), "label");
  if (!smoothing->has_smoothing()) smoothing->set_smoothing(0.1f);
}

absl::Status CheckSmoothing(const OptionsChecker& check, const proto::LabelSmoothing& smoothing) {
  return check.IsFraction("smoothing", smoothing.smoothing());
}

OpOptions ToSmoothing(const proto::LabelSmoothing& smoothing) {
  return augment::LabelSmoothingOptions{smoothing.field(), smoothing.smoothing()};
}

template <typename Options, auto kMake>
constexpr OpRow LayoutOp() {
  return {.index = IndexOf<Options>(), .fields = InPlace<Options>, .make = MakeBy<Options, kMake>};
}

constexpr OpRow kTransposeOp = LayoutOp<augment::TransposeOptions, augment::MakeTranspose>();
constexpr OpRow kPadChannelsOp = LayoutOp<augment::PadChannelsOptions, augment::MakePadChannels>();
constexpr OpRow kNormalizeOp = LayoutOp<augment::NormalizeOptions, augment::MakeNormalize>();
constexpr OpRow kCastOp = LayoutOp<augment::CastOptions, augment::MakeCast>();
constexpr OpRow kOneHotOp = LayoutOp<augment::OneHotOptions, augment::MakeOneHot>();
constexpr OpRow kSmoothingOp =
    LayoutOp<augment::LabelSmoothingOptions, augment::MakeLabelSmoothing>();

constexpr StageRow kLayoutRows[] = {
    {.op_case = Stage::kTranspose,
     .name = "transpose",
     .doc = "Extents in another order.",
     .options = {kImageField,
                 {"perm", "extent i of the output is extent perm[i] of the input",
                  "2, 0, 1: channels first"}},
     .fill = Fill<&Stage::mutable_transpose, FillTranspose>,
     .check = Check<&Stage::transpose, CheckTranspose>,
     .read = Read<&Stage::transpose, ToTranspose>,
     .op = &kTransposeOp},
    {.op_case = Stage::kPadChannels,
     .name = "pad_channels",
     .doc = "Channels of a constant behind those of the image.",
     .options = {kImageField,
                 {"channels", "of the output"},
                 {"value", "of the channels that are added"}},
     .fill = Fill<&Stage::mutable_pad_channels, FillPadChannels>,
     .check = Check<&Stage::pad_channels, CheckPadChannels>,
     .read = Read<&Stage::pad_channels, ToPadChannels>,
     .op = &kPadChannelsOp},
    {.op_case = Stage::kNormalize,
     .name = "normalize",
     .doc = "(x - mean) / stddev, as float32.",
     .options = {kImageField,
                 {"mean", "one number per channel", kRequired},
                 {"stddev", "one number per channel", kRequired}},
     .fill = Fill<&Stage::mutable_normalize, FillImageField<proto::Normalize>>,
     .check = Check<&Stage::normalize, CheckNormalize>,
     .read = Read<&Stage::normalize, ToNormalize>,
     .op = &kNormalizeOp},
    {.op_case = Stage::kCast,
     .name = "cast",
     .doc = "Numbers of another dtype, x * scale.",
     .options = {{"field", "", kRequired}, {"dtype", "", kRequired}, {"scale", ""}},
     .fill = Fill<&Stage::mutable_cast, FillCast>,
     .check = Check<&Stage::cast, CheckCast>,
     .read = Read<&Stage::cast, ToCast>,
     .op = &kCastOp},
    {.op_case = Stage::kOneHot,
     .name = "one_hot",
     .doc = "An integer as float32 [depth]: 1 at its place, 0 elsewhere.",
     .options = {{"field", ""}, {"depth", "", kRequired}},
     .fill = Fill<&Stage::mutable_one_hot, FillOneHot>,
     .check = Check<&Stage::one_hot, CheckOneHot>,
     .read = Read<&Stage::one_hot, ToOneHot>,
     .op = &kOneHotOp},
    {.op_case = Stage::kLabelSmoothing,
     .name = "label_smoothing",
     .doc = "y * (1 - smoothing) + smoothing / classes.",
     .options = {{"field", "float32 [classes], as `one_hot` makes it"}, {"smoothing", ""}},
     .fill = Fill<&Stage::mutable_label_smoothing, FillSmoothing>,
     .check = Check<&Stage::label_smoothing, CheckSmoothing>,
     .read = Read<&Stage::label_smoothing, ToSmoothing>,
     .op = &kSmoothingOp},
};

}  // namespace

constinit const StageFamily kLayoutStages = {"layout", "Layout, scale and labels", kLayoutRows};

}  // namespace millrace::pipeline
