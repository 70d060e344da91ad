#include <limits>
#include <set>
#include <string>
#include <utility>

#include "pipeline/plan/limits.h"
#include "pipeline/stages/convert.h"
#include "pipeline/stages/row.h"

// Maps that move the pixels of an image, and its targets: the boxes and the mask that go along with
// it.

namespace millrace::pipeline {
namespace {

using proto::Stage;

constexpr uint64_t kMaxPad = 4096;

// True: boxes are given by two corners.
constexpr Words<bool, 2> kBoxFormats = {{{"xyxy", true}, {"xywh", false}}};

// Two numbers, 0 < first <= second (<= high).
template <typename Numbers>
absl::Status IsPair(const OptionsChecker& check, std::string_view field, const Numbers& numbers,
                    float high) {
  if (numbers.size() == 2 && numbers[0] > 0 && numbers[0] <= numbers[1] && numbers[1] <= high) {
    return absl::OkStatus();
  }
  return check.Error(field, absl::StrCat(" must be two numbers, 0 < low <= high",
                                         high < 2 ? " <= 1" : ", finite"));
}

void FillCrop(proto::RandomResizedCrop* crop) {
  FillImageField(crop);
  if (crop->area().empty()) {
    crop->add_area(0.08f);
    crop->add_area(1.0f);
  }
  if (crop->aspect().empty()) {
    crop->add_aspect(3.0f / 4);
    crop->add_aspect(4.0f / 3);
  }
  Default(crop->mutable_interpolation(), "bilinear");
  const augment::RandomResizedCropOptions defaults;
  if (crop->max_attempts() == 0) {
    crop->set_max_attempts(static_cast<uint32_t>(defaults.max_attempts));
  }
}

absl::Status CheckCrop(const OptionsChecker& check, const proto::RandomResizedCrop& crop) {
  MILLRACE_RETURN_IF_ERROR(check.Size(crop.field(), crop.height(), crop.width()));
  MILLRACE_RETURN_IF_ERROR(IsPair(check, "area", crop.area(), 1));
  MILLRACE_RETURN_IF_ERROR(
      IsPair(check, "aspect", crop.aspect(), std::numeric_limits<float>::max()));
  MILLRACE_RETURN_IF_ERROR(
      check.Interpolation("interpolation", crop.interpolation(), crop.antialias()));
  return check.InRange("max_attempts", crop.max_attempts(), 1, augment::kMaxCropAttempts);
}

augment::RandomResizedCropOptions ToCrop(const proto::RandomResizedCrop& crop) {
  augment::RandomResizedCropOptions options;
  options.field = crop.field();
  options.height = crop.height();
  options.width = crop.width();
  options.area = {crop.area(0), crop.area(1)};
  options.aspect = {crop.aspect(0), crop.aspect(1)};
  options.interpolation = *Find(kResizeMethods, crop.interpolation());
  options.antialias = crop.antialias();
  options.max_attempts = static_cast<int>(crop.max_attempts());
  return options;
}

void FillResize(proto::Resize* resize) {
  FillImageField(resize);
  Default(resize->mutable_method(), "bilinear");
}

absl::Status CheckResize(const OptionsChecker& check, const proto::Resize& resize) {
  if (resize.shorter() == 0) {
    MILLRACE_RETURN_IF_ERROR(check.Size(resize.field(), resize.height(), resize.width()));
  } else if (resize.height() != 0 || resize.width() != 0) {
    return check.Error("shorter", " stands instead of height and width");
  } else {
    MILLRACE_RETURN_IF_ERROR(check.InRange("shorter", resize.shorter(), 1, kMaxExtent));
  }
  MILLRACE_RETURN_IF_ERROR(check.Interpolation("method", resize.method(), resize.antialias()));
  const proto::DataType dtype = resize.dtype();
  if (dtype == proto::DATA_TYPE_UNSPECIFIED || dtype == proto::UINT8 || dtype == proto::FLOAT32) {
    return absl::OkStatus();
  }
  return check.Error("dtype", " must be UINT8 or FLOAT32");
}

augment::ResizeOptions ToResize(const proto::Resize& resize) {
  augment::ResizeOptions options;
  options.field = resize.field();
  options.height = resize.height();
  options.width = resize.width();
  options.shorter = resize.shorter();
  options.method = *Find(kResizeMethods, resize.method());
  options.antialias = resize.antialias();
  if (resize.dtype() != proto::DATA_TYPE_UNSPECIFIED) options.dtype = ToDType(resize.dtype());
  return options;
}

augment::CenterCropOptions ToCenterCrop(const proto::CenterCrop& crop) {
  return {crop.field(), crop.height(), crop.width()};
}

augment::RandomCropOptions ToRandomCrop(const proto::RandomCrop& crop) {
  return {crop.field(), crop.height(), crop.width()};
}

void FillFlip(proto::Flip* flip) {
  FillImageField(flip);
  if (!flip->has_probability()) flip->set_probability(0.5f);
}

augment::FlipOptions ToFlip(const proto::Flip& flip) {
  return {flip.field(), flip.probability(), flip.vertical()};
}

void FillPad(proto::Pad* pad) {
  FillImageField(pad);
  Default(pad->mutable_mode(), "constant");
}

bool HasTargets(const proto::Pad& pad) { return pad.has_boxes() || !pad.mask().empty(); }

absl::Status CheckPad(const OptionsChecker& check, const proto::Pad& pad) {
  if (HasTargets(pad) && pad.mode() != "constant") {
    return check.Error("mode",
                       " must be \"constant\" where boxes or a mask go along: the others show "
                       "objects again, which have no box");
  }
  MILLRACE_RETURN_IF_ERROR(check.InRange("top", pad.top(), 0, kMaxPad));
  MILLRACE_RETURN_IF_ERROR(check.InRange("bottom", pad.bottom(), 0, kMaxPad));
  MILLRACE_RETURN_IF_ERROR(check.InRange("left", pad.left(), 0, kMaxPad));
  MILLRACE_RETURN_IF_ERROR(check.InRange("right", pad.right(), 0, kMaxPad));
  MILLRACE_RETURN_IF_ERROR(check.IsOneOf("mode", kPadModes, pad.mode()));
  return check.IsFinite("value", pad.value());
}

augment::PadOptions ToPad(const proto::Pad& pad) {
  augment::PadOptions options;
  options.field = pad.field();
  options.top = pad.top();
  options.bottom = pad.bottom();
  options.left = pad.left();
  options.right = pad.right();
  options.mode = *Find(kPadModes, pad.mode());
  options.value = pad.value();
  return options;
}

// Checks `boxes` and `mask` of a stage on the image `image`.
class TargetsChecker {
 public:
  TargetsChecker(const OptionsChecker& check, const std::string& image)
      : check_(check), fields_({image}) {}

  absl::Status Boxes(const proto::Boxes& boxes);
  absl::Status Mask(const std::string& mask) const {
    if (!fields_.contains(mask)) return absl::OkStatus();
    return check_.Error("mask", absl::StrCat(" \"", mask, "\" is there twice"));
  }

 private:
  absl::Status Error(std::string_view field, const std::string& what, int index = -1) const {
    return check_.ErrorBelow({{check_.op_name()}, {"boxes"}, {field, index}},
                             absl::StrCat(ToAbsl(field), what));
  }

  const OptionsChecker& check_;
  std::set<std::string> fields_;  // so far
};

absl::Status TargetsChecker::Boxes(const proto::Boxes& boxes) {
  if (!Find(kBoxFormats, boxes.format())) {
    return Error("format",
                 absl::StrCat(" is \"", boxes.format(), "\" but must be ", ListOf(kBoxFormats)));
  }
  if (!(boxes.min_area_share() >= 0 && boxes.min_area_share() <= 1)) {
    return Error("min_area_share",
                 absl::StrCat(" is ", boxes.min_area_share(), " but must be in [0, 1]"));
  }
  if (!fields_.insert(boxes.field()).second) {
    return Error("field", absl::StrCat(" \"", boxes.field(), "\" is there twice"));
  }
  for (int i = 0; i < boxes.label_size(); ++i) {
    if (boxes.label(i).empty()) return Error("label", " must name a field", i);
    if (!fields_.insert(boxes.label(i)).second) {
      return Error("label", absl::StrCat(" \"", boxes.label(i), "\" is there twice"), i);
    }
  }
  return absl::OkStatus();
}

augment::BoxOptions ToBoxes(const proto::Boxes& boxes) {
  return {boxes.field(), *Find(kBoxFormats, boxes.format()), boxes.normalized(),
          ToVector(boxes.label()), boxes.min_area_share()};
}

// The columns of a stage that moves targets too: those of the stage alone, and then of the targets.

template <auto kMutable, auto kFill>
void FillGeometry(Stage* stage) {
  auto* message = (stage->*kMutable)();
  kFill(message);
  if (!message->has_boxes()) return;
  Default(message->mutable_boxes()->mutable_field(), "boxes");
  Default(message->mutable_boxes()->mutable_format(), "xyxy");
}

template <auto kGet, auto kCheck>
absl::Status CheckGeometry(const OptionsChecker& check, const Stage& stage) {
  const auto& message = (stage.*kGet)();
  TargetsChecker targets(check, message.field());
  if (message.has_boxes()) MILLRACE_RETURN_IF_ERROR(targets.Boxes(message.boxes()));
  MILLRACE_RETURN_IF_ERROR(targets.Mask(message.mask()));
  return kCheck(check, message);
}

template <auto kGet, auto kTo>
OpOptions ReadGeometry(const Stage& stage) {
  const auto& message = (stage.*kGet)();
  if (!message.has_boxes() && message.mask().empty()) return kTo(message);
  augment::TargetsOptions targets;
  targets.geometry = kTo(message);
  if (message.has_boxes()) targets.boxes = ToBoxes(message.boxes());
  targets.mask = message.mask();
  return targets;
}

template <typename Options, auto kMake>
constexpr OpRow GeometryOp(bool draws) {
  return {.index = IndexOf<Options>(),
          .fields = InPlace<Options>,
          .draws = draws,
          .make = MakeBy<Options, kMake>};
}

constexpr OpRow kCropOp =
    GeometryOp<augment::RandomResizedCropOptions, augment::MakeRandomResizedCrop>(true);
constexpr OpRow kResizeOp = GeometryOp<augment::ResizeOptions, augment::MakeResize>(false);
constexpr OpRow kCenterCropOp =
    GeometryOp<augment::CenterCropOptions, augment::MakeCenterCrop>(false);
constexpr OpRow kRandomCropOp =
    GeometryOp<augment::RandomCropOptions, augment::MakeRandomCrop>(true);
constexpr OpRow kFlipOp = GeometryOp<augment::FlipOptions, augment::MakeFlip>(true);
constexpr OpRow kPadOp = GeometryOp<augment::PadOptions, augment::MakePad>(false);

constexpr Option kHeight = {"height", "", kRequired};
constexpr Option kWidth = {"width", "", kRequired};
constexpr Option kAntialias = {
    "antialias",
    "of bilinear and bicubic: every input pixel has its share of a smaller image, as in Pillow's "
    "resize, which is torchvision's of PIL images"};
constexpr Option kBoxes = {"boxes", "boxes that go along ([below](#boxes-and-masks))"};
constexpr Option kMask = {"mask", "the field of a mask that goes along", "none"};
constexpr char kMethods[] = R"(`"bilinear"`, `"nearest"`, `"bicubic"` or `"area"`)";

constexpr StageRow kGeometryRows[] = {
    {.op_case = Stage::kRandomResizedCrop,
     .name = "random_resized_crop",
     .doc = "A part of the image of random area and aspect, resized.",
     .options = {kImageField,
                 kHeight,
                 kWidth,
                 {"area", "low and high, shares of the image's"},
                 {"aspect", "low and high, width / height", "3/4, 4/3"},
                 {"interpolation", kMethods},
                 kAntialias,
                 {"max_attempts",
                  "parts that are drawn before the central one is taken, 1 to 1000 (torchvision: "
                  "10, tf.image: 100)"},
                 kBoxes,
                 kMask},
     .fill = FillGeometry<&Stage::mutable_random_resized_crop, FillCrop>,
     .check = CheckGeometry<&Stage::random_resized_crop, CheckCrop>,
     .read = ReadGeometry<&Stage::random_resized_crop, ToCrop>,
     .op = &kCropOp,
     .keeps_values = true},
    {.op_case = Stage::kResize,
     .name = "resize",
     .doc = "The image in another size.",
     .options = {kImageField,
                 kHeight,
                 kWidth,
                 {"shorter", "instead of both, the shorter side's extent; the aspect is kept",
                  "none"},
                 {"method", kMethods},
                 kAntialias,
                 {"dtype", "UINT8 or FLOAT32", "the input's"},
                 kBoxes,
                 kMask},
     .fill = FillGeometry<&Stage::mutable_resize, FillResize>,
     .check = CheckGeometry<&Stage::resize, CheckResize>,
     .read = ReadGeometry<&Stage::resize, ToResize>,
     .op = &kResizeOp,
     .keeps_values = true},
    {.op_case = Stage::kCenterCrop,
     .name = "center_crop",
     .doc = "The middle of the image; a smaller image is put in the middle of zeros.",
     .options = {kImageField, kHeight, kWidth, kBoxes, kMask},
     .fill = FillGeometry<&Stage::mutable_center_crop, FillImageField<proto::CenterCrop>>,
     .check = CheckGeometry<&Stage::center_crop, CheckSize<proto::CenterCrop>>,
     .read = ReadGeometry<&Stage::center_crop, ToCenterCrop>,
     .op = &kCenterCropOp,
     .keeps_values = true},
    {.op_case = Stage::kRandomCrop,
     .name = "random_crop",
     .doc = "A part of the image, any place as likely.",
     .options = {kImageField, kHeight, kWidth, kBoxes, kMask},
     .fill = FillGeometry<&Stage::mutable_random_crop, FillImageField<proto::RandomCrop>>,
     .check = CheckGeometry<&Stage::random_crop, CheckSize<proto::RandomCrop>>,
     .read = ReadGeometry<&Stage::random_crop, ToRandomCrop>,
     .op = &kRandomCropOp,
     .keeps_values = true},
    {.op_case = Stage::kPad,
     .name = "pad",
     .doc = "The image with pixels added at its sides.",
     .options = {kImageField,
                 {"top", "pixels, at most 4096; so are the next three"},
                 {"bottom", ""},
                 {"left", ""},
                 {"right", ""},
                 {"mode", R"(`"constant"`, `"edge"`, `"reflect"` or `"symmetric"`)"},
                 {"value", R"(of mode `"constant"`)"},
                 {"boxes", R"(as above, with mode `"constant"`)"},
                 {"mask", "as `boxes`", "none"}},
     .fill = FillGeometry<&Stage::mutable_pad, FillPad>,
     .check = CheckGeometry<&Stage::pad, CheckPad>,
     .read = ReadGeometry<&Stage::pad, ToPad>,
     .op = &kPadOp,
     .keeps_values = true},
    {.op_case = Stage::kFlip,
     .name = "flip",
     .doc = "The image mirrored.",
     .options = {kImageField,
                 kProbability,
                 {"vertical", "top and bottom change places instead of left and right"},
                 kBoxes,
                 kMask},
     .fill = FillGeometry<&Stage::mutable_flip, FillFlip>,
     .check = CheckGeometry<&Stage::flip, CheckProbability<proto::Flip>>,
     .read = ReadGeometry<&Stage::flip, ToFlip>,
     .op = &kFlipOp,
     .keeps_values = true},
};

}  // namespace

constinit const StageFamily kGeometryStages = {"geometry", "Geometry of images", kGeometryRows};

}  // namespace millrace::pipeline
