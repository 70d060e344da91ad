#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/plan/message.h"
#include "pipeline/stages/specs.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"
#include "tests/pipeline/stages/stage_specs.h"

// Stages that change images become ops with the options of the text, or their defaults.

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;

// The op of a stage that changes the image in place.
OpSpec ImageSpecOf(const std::string& stage) {
  const OpSpec spec = SpecOf(stage);
  EXPECT_THAT(FieldsOf(spec.options).reads, ElementsAre("image"));
  EXPECT_THAT(FieldsOf(spec.options).writes, ElementsAre("image"));
  EXPECT_TRUE(MakeBuiltinOp(spec).ok()) << stage;
  return spec;
}

template <typename Options>
Options OptionsOf(const std::string& stage) {
  return OptionsIn<Options>(ImageSpecOf(stage));
}

TEST(ImageStagesTest, DecodesTakeTheirOptions) {
  const auto plain = OptionsIn<augment::DecodeImageOptions>(SpecOf("decode_image {}"));
  EXPECT_EQ(plain.max_scans, 100);
  EXPECT_EQ(plain.max_memory_bytes, int64_t{1} << 31);
  EXPECT_TRUE(plain.fancy_upsampling);
  EXPECT_FALSE(plain.fast_dct || plain.dct_downscale || plain.verify_full);
  EXPECT_FALSE(plain.allow_truncated || plain.apply_exif_orientation);
  const auto full = OptionsIn<augment::DecodeImageOptions>(
      SpecOf("decode_image { max_scans: 7 max_memory_bytes: 8 fancy_upsampling: false fast_dct: "
             "true dct_downscale: true allow_truncated: true apply_exif_orientation: true }"));
  EXPECT_EQ(full.max_scans, 7);
  EXPECT_EQ(full.max_memory_bytes, 8);
  EXPECT_FALSE(full.fancy_upsampling);
  EXPECT_TRUE(full.fast_dct && full.dct_downscale);
  EXPECT_TRUE(full.allow_truncated && full.apply_exif_orientation);
  const OpSpec verified = SpecOf("decode_image { verify_full: true }");
  EXPECT_TRUE(OptionsIn<augment::DecodeImageOptions>(verified).verify_full);

  const OpSpec peek = SpecOf("peek_image_shape { apply_exif_orientation: true }");
  EXPECT_THAT(FieldsOf(peek.options).reads, ElementsAre("image/encoded"));
  EXPECT_THAT(FieldsOf(peek.options).writes, ElementsAre("image/shape"));
  EXPECT_THAT(FieldsOf(peek.options).removes, ::testing::IsEmpty());
  EXPECT_TRUE(std::get<augment::PeekImageShapeOptions>(peek.options).apply_exif_orientation);
  EXPECT_TRUE(MakeBuiltinOp(peek).ok());
}

TEST(ImageStagesTest, ResizeTakesMethodAntialiasAndDtype) {
  const auto plain = OptionsOf<augment::ResizeOptions>("resize { height: 2 width: 3 }");
  EXPECT_EQ(plain.height, 2);
  EXPECT_EQ(plain.width, 3);
  EXPECT_EQ(plain.method, augment::ResizeMethod::kBilinear);
  EXPECT_FALSE(plain.antialias || plain.dtype.has_value());
  const auto full = OptionsOf<augment::ResizeOptions>(
      "resize { shorter: 5 method: \"bicubic\" antialias: true dtype: FLOAT32 }");
  EXPECT_EQ(full.shorter, 5);
  EXPECT_EQ(full.method, augment::ResizeMethod::kBicubic);
  EXPECT_TRUE(full.antialias);
  EXPECT_EQ(full.dtype, DType::kF32);
  EXPECT_EQ(OptionsOf<augment::ResizeOptions>("resize { shorter: 5 method: \"nearest\" }").method,
            augment::ResizeMethod::kNearest);
  EXPECT_EQ(OptionsOf<augment::ResizeOptions>("resize { shorter: 5 method: \"area\" }").method,
            augment::ResizeMethod::kArea);
}

TEST(ImageStagesTest, ResizedCropsTakeInterpolationAntialiasAndAttempts) {
  const auto plain =
      OptionsOf<augment::RandomResizedCropOptions>("random_resized_crop { height: 2 width: 3 }");
  EXPECT_EQ(plain.interpolation, augment::ResizeMethod::kBilinear);
  EXPECT_FALSE(plain.antialias);
  EXPECT_EQ(plain.max_attempts, 10);
  const auto full = OptionsOf<augment::RandomResizedCropOptions>(
      "random_resized_crop { height: 2 width: 3 interpolation: \"bicubic\" antialias: true "
      "max_attempts: 100 }");
  EXPECT_EQ(full.interpolation, augment::ResizeMethod::kBicubic);
  EXPECT_TRUE(full.antialias);
  EXPECT_EQ(full.max_attempts, 100);
}

TEST(ImageStagesTest, CropsTakeTheirExtents) {
  const auto center = OptionsOf<augment::CenterCropOptions>("center_crop { height: 2 width: 3 }");
  EXPECT_EQ(center.height, 2);
  EXPECT_EQ(center.width, 3);
  const auto random = OptionsOf<augment::RandomCropOptions>("random_crop { height: 4 width: 5 }");
  EXPECT_EQ(random.height, 4);
  EXPECT_EQ(random.width, 5);
}

TEST(ImageStagesTest, PadTakesSidesModeAndValue) {
  const auto pad = OptionsOf<augment::PadOptions>(
      "pad { top: 1 bottom: 2 left: 3 right: 4 mode: \"symmetric\" value: 7 }");
  EXPECT_EQ(pad.top, 1);
  EXPECT_EQ(pad.bottom, 2);
  EXPECT_EQ(pad.left, 3);
  EXPECT_EQ(pad.right, 4);
  EXPECT_EQ(pad.mode, augment::PadMode::kSymmetric);
  EXPECT_EQ(pad.value, 7);
  EXPECT_EQ(OptionsOf<augment::PadOptions>("pad { top: 1 }").mode, augment::PadMode::kConstant);
  EXPECT_EQ(OptionsOf<augment::PadOptions>("pad { mode: \"edge\" }").mode, augment::PadMode::kEdge);
  EXPECT_EQ(OptionsOf<augment::PadOptions>("pad { mode: \"reflect\" }").mode,
            augment::PadMode::kReflect);
}

TEST(ImageStagesTest, LayoutsTakeTheirOptions) {
  EXPECT_THAT(OptionsOf<augment::TransposeOptions>("transpose {}").perm, ElementsAre(2, 0, 1));
  EXPECT_THAT(OptionsOf<augment::TransposeOptions>("transpose { perm: [1, 0] }").perm,
              ElementsAre(1, 0));
  EXPECT_EQ(OptionsOf<augment::PadChannelsOptions>("pad_channels {}").channels, 4);
  const auto pad = OptionsOf<augment::PadChannelsOptions>("pad_channels { channels: 8 value: 2 }");
  EXPECT_EQ(pad.channels, 8);
  EXPECT_EQ(pad.value, 2);
  EXPECT_TRUE(OptionsOf<augment::FlipOptions>("flip { vertical: true }").vertical);
  EXPECT_FALSE(OptionsOf<augment::FlipOptions>("flip {}").vertical);
}

TEST(ImageStagesTest, ColorsTakeTheirFactors) {
  using augment::ColorOp;
  const auto check = [](const std::string& stage, ColorOp op, float low, float high) {
    const auto color = OptionsOf<augment::ColorOptions>(stage);
    EXPECT_EQ(color.op, op) << stage;
    EXPECT_EQ(color.probability, 1) << stage;
    if (low == high && low == -1) return;
    EXPECT_THAT(color.factor, ElementsAre(low, high)) << stage;
  };
  check("brightness { factor: 0.5 }", ColorOp::kBrightness, 0.5f, 0.5f);
  check("contrast { factor: [0.5, 2] }", ColorOp::kContrast, 0.5f, 2);
  check("saturation { factor: 2 }", ColorOp::kSaturation, 2, 2);
  check("hue { factor: [-0.5, 0] }", ColorOp::kHue, -0.5f, 0);
  check("sharpness { factor: 0 }", ColorOp::kSharpness, 0, 0);
  check("grayscale {}", ColorOp::kGrayscale, -1, -1);
  check("invert {}", ColorOp::kInvert, -1, -1);
  check("equalize {}", ColorOp::kEqualize, -1, -1);
  check("autocontrast {}", ColorOp::kAutocontrast, -1, -1);
  check("posterize { bits: 3 }", ColorOp::kPosterize, 3, 3);
  check("solarize {}", ColorOp::kSolarize, 128, 128);
  check("solarize { threshold: 0 }", ColorOp::kSolarize, 0, 0);
  check("gaussian_blur { kernel_size: 5 }", ColorOp::kGaussianBlur, 0.1f, 2);
  check("gaussian_blur { kernel_size: 5 sigma: 3 }", ColorOp::kGaussianBlur, 3, 3);
  EXPECT_EQ(OptionsOf<augment::ColorOptions>("invert { probability: 0 }").probability, 0);
  EXPECT_EQ(OptionsOf<augment::ColorOptions>("gaussian_blur { kernel_size: 5 }").kernel_size, 5);
}

TEST(ImageStagesTest, ColorJitterTakesItsFour) {
  const auto jitter = OptionsOf<augment::ColorJitterOptions>(
      "color_jitter { brightness: 0.1 contrast: 0.2 saturation: 0.3 hue: 0.4 }");
  EXPECT_EQ(jitter.brightness, 0.1f);
  EXPECT_EQ(jitter.contrast, 0.2f);
  EXPECT_EQ(jitter.saturation, 0.3f);
  EXPECT_EQ(jitter.hue, 0.4f);
  EXPECT_EQ(jitter.probability, 1);
}

TEST(ImageStagesTest, DistortionsTakeTheirOptions) {
  const auto plain = OptionsOf<augment::AffineOptions>("affine {}");
  EXPECT_THAT(plain.degrees, ElementsAre(0, 0));
  EXPECT_THAT(plain.scale, ElementsAre(1, 1));
  EXPECT_FALSE(plain.bilinear);
  const auto affine = OptionsOf<augment::AffineOptions>(
      "affine { degrees: [-9, 8] translate: [0.1, 0.2] scale: 2 shear_x: [3, 4] shear_y: 5 "
      "method: \"bilinear\" fill: 6 probability: 0.5 }");
  EXPECT_THAT(affine.degrees, ElementsAre(-9, 8));
  EXPECT_THAT(affine.translate, ElementsAre(0.1f, 0.2f));
  EXPECT_THAT(affine.scale, ElementsAre(2, 2));
  EXPECT_THAT(affine.shear_x, ElementsAre(3, 4));
  EXPECT_THAT(affine.shear_y, ElementsAre(5, 5));
  EXPECT_TRUE(affine.bilinear);
  EXPECT_EQ(affine.fill, 6);
  EXPECT_EQ(affine.probability, 0.5f);
  const auto erasing = OptionsOf<augment::RandomErasingOptions>("random_erasing { value: 3 }");
  EXPECT_THAT(erasing.area, ElementsAre(0.02f, 0.33f));
  EXPECT_THAT(erasing.aspect, ElementsAre(0.3f, 3.3f));
  EXPECT_EQ(erasing.probability, 0.5f);
  EXPECT_EQ(erasing.value, 3);
  const auto cutout = OptionsOf<augment::CutoutOptions>("cutout { size: 7 value: 8 }");
  EXPECT_EQ(cutout.size, 7);
  EXPECT_EQ(cutout.value, 8);
  EXPECT_EQ(cutout.probability, 1);
}

TEST(ImageStagesTest, AutoAugmentTakesItsPolicy) {
  using augment::AugmentPolicy;
  const auto plain = OptionsOf<augment::AutoAugmentOptions>("auto_augment {}");
  EXPECT_EQ(plain.policy, AugmentPolicy::kRandAugment);
  EXPECT_EQ(plain.num_ops, 2);
  EXPECT_EQ(plain.magnitude, 9);
  EXPECT_EQ(plain.num_magnitude_bins, 31);
  const auto full = OptionsOf<augment::AutoAugmentOptions>(
      "auto_augment { policy: \"trivial_augment\" num_ops: 3 magnitude: 0 num_magnitude_bins: 5 "
      "method: \"bilinear\" fill: 7 }");
  EXPECT_EQ(full.policy, AugmentPolicy::kTrivialAugment);
  EXPECT_EQ(full.num_ops, 3);
  EXPECT_EQ(full.magnitude, 0);
  EXPECT_EQ(full.num_magnitude_bins, 5);
  EXPECT_TRUE(full.bilinear);
  EXPECT_EQ(full.fill, 7);
  EXPECT_EQ(OptionsOf<augment::AutoAugmentOptions>("auto_augment { policy: \"imagenet\" }").policy,
            AugmentPolicy::kImageNet);
}

TEST(ImageStagesTest, GeometryCarriesBoxesAndMask) {
  for (const std::string op :
       {"random_resized_crop { height: 4 width: 5", "random_crop { height: 4 width: 5",
        "center_crop { height: 4 width: 5", "resize { height: 4 width: 5", "flip {", "pad {"}) {
    const OpSpec spec = SpecOf(op + " mask: \"m\" boxes { label: [\"a\", \"b\"] } }");
    EXPECT_THAT(FieldsOf(spec.options).reads, ElementsAre("image", "boxes", "a", "b", "m"));
    EXPECT_THAT(FieldsOf(spec.options).writes, ElementsAre("image", "boxes", "a", "b", "m"));
    EXPECT_EQ(DrawsAtRandom(spec.options), op.starts_with("random") || op.starts_with("flip"));
    EXPECT_TRUE(MakeBuiltinOp(spec).ok()) << op;
    const auto targets = OptionsIn<augment::TargetsOptions>(spec);
    EXPECT_TRUE(targets.boxes->corners && !targets.boxes->normalized);
    EXPECT_EQ(targets.boxes->min_area_share, 0);
  }
  const auto flip = OptionsIn<augment::TargetsOptions>(SpecOf(
      "flip { boxes { field: \"x\" format: \"xywh\" normalized: true min_area_share: 0.5 } }"));
  const augment::BoxOptions& boxes = *flip.boxes;
  EXPECT_EQ(boxes.field, "x");
  EXPECT_FALSE(boxes.corners);
  EXPECT_TRUE(boxes.normalized);
  EXPECT_EQ(boxes.min_area_share, 0.5f);
}

TEST(ImageStagesTest, WrongBoxesAreToldByPlace) {
  EXPECT_MESSAGE(StageError("flip { boxes { format: \"yxyx\" } }"));
  EXPECT_MESSAGE(StageError("flip { boxes { min_area_share: 2 } }"));
  EXPECT_MESSAGE(StageError("flip { boxes { field: \"image\" } }"));
  EXPECT_MESSAGE(StageError("flip { boxes { label: [\"a\", \"a\"] } }"));
  EXPECT_MESSAGE(StageError("flip { mask: \"image\" }"));
  EXPECT_MESSAGE(StageError("pad { mode: \"edge\" mask: \"m\" }"));
}

TEST(ImageStagesTest, AugMixTakesItsOptions) {
  const auto plain = OptionsOf<augment::AugMixOptions>("aug_mix {}");
  EXPECT_EQ(plain.severity, 3);
  EXPECT_EQ(plain.mixture_width, 3);
  EXPECT_EQ(plain.chain_depth, 0);
  EXPECT_EQ(plain.alpha, 1);
  EXPECT_TRUE(plain.all_ops && plain.bilinear);
  const auto full = OptionsOf<augment::AugMixOptions>(
      "aug_mix { severity: 7 mixture_width: 2 chain_depth: 5 alpha: 0.5 all_ops: false "
      "method: \"nearest\" fill: 6 }");
  EXPECT_EQ(full.severity, 7);
  EXPECT_EQ(full.mixture_width, 2);
  EXPECT_EQ(full.chain_depth, 5);
  EXPECT_EQ(full.alpha, 0.5);
  EXPECT_FALSE(full.all_ops || full.bilinear);
  EXPECT_EQ(full.fill, 6);
  const auto error = [](const std::string& options) {
    return StageError("aug_mix { " + options + " }");
  };
  EXPECT_MESSAGE(error("severity: 11"));
  EXPECT_MESSAGE(error("mixture_width: 17"));
  EXPECT_MESSAGE(error("chain_depth: 17"));
  EXPECT_MESSAGE(error("alpha: 0"));
  EXPECT_MESSAGE(error("method: \"cubic\""));
  EXPECT_MESSAGE(error("fill: 256"));
}

TEST(ImageStagesTest, LabelSmoothingWorksOnTheLabel) {
  const OpSpec spec = SpecOf("label_smoothing {}");
  EXPECT_THAT(FieldsOf(spec.options).reads, ElementsAre("label"));
  EXPECT_EQ(OptionsIn<augment::LabelSmoothingOptions>(spec).smoothing, 0.1f);
  EXPECT_TRUE(MakeBuiltinOp(spec).ok());
}

// S-PLAN-11: a stage that draws is known as one to the checks and to the optimizer.
TEST(ImageStagesTest, StagesThatDrawAreKnown) {
  for (const std::string stage :
       {"flip {}", "random_crop { height: 4 width: 5 }", "hue { factor: 0 }", "color_jitter {}",
        "affine {}", "auto_augment {}", "aug_mix {}", "random_erasing {}", "cutout { size: 3 }",
        "invert { probability: 0.5 }"}) {
    EXPECT_TRUE(DrawsAtRandom(ImageSpecOf(stage).options)) << stage;
    EXPECT_MESSAGE(
        ErrorOf(absl::StrCat(kSource, "stage { ", stage, " } stage { unbatch {} }", kBatch)));
  }
  for (const std::string stage : {"center_crop { height: 4 width: 5 }", "pad {}", "transpose {}"}) {
    EXPECT_FALSE(DrawsAtRandom(ImageSpecOf(stage).options)) << stage;
  }
}

}  // namespace
}  // namespace millrace::pipeline
