#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "augment/color_ops.h"
#include "augment/distort_ops.h"
#include "augment/fused_ops.h"
#include "augment/geometry/affine.h"
#include "augment/geometry_ops.h"
#include "augment/image_ops.h"
#include "tests/augment/fixtures.h"

// Against what torchvision.transforms.v2.functional itself made of the same images
// (scripts/make_torchvision_fixtures.py). S-LIBRARY-1 has the tolerances; other tests hold the ops
// against its formulas in NumPy, Pillow, OpenCV and TensorFlow.

namespace millrace::augment {
namespace {

using testing::ApplyTo;
using testing::CropOf;
using testing::Fixture;
using testing::LargestDifference;
using testing::MakeValue;
using testing::Value;

constexpr double kFloatBound = 1e-3;  // of values up to 255 in float32

const Value& Rgb() { return Fixture("input/rgb"); }

const Value& Torchvision(const std::string& name) { return Fixture("torchvision/" + name); }

int NumDifferent(const Value& a, const Value& b) {
  EXPECT_EQ(a.shape, b.shape);
  int different = 0;
  for (size_t i = 0; i < std::min(a.bytes.size(), b.bytes.size()); ++i) {
    different += a.bytes[i] != b.bytes[i] ? 1 : 0;
  }
  return different;
}

// --- resize ---

struct Kind {
  std::string name;
  ResizeMethod method;
  bool antialias;
};
const Kind kKinds[] = {{"bilinear", ResizeMethod::kBilinear, false},
                       {"bilinear_antialias", ResizeMethod::kBilinear, true},
                       {"bicubic", ResizeMethod::kBicubic, false},
                       {"bicubic_antialias", ResizeMethod::kBicubic, true}};

Value Resized(const Value& in, const Kind& kind, int64_t height, int64_t width) {
  return ApplyTo(
      MakeResize(
          {.height = height, .width = width, .method = kind.method, .antialias = kind.antialias}),
      in);
}

struct Size {
  int64_t height, width;
};
const Size kSizes[] = {{16, 9}, {37, 31}, {5, 19}, {40, 8}};

// torchvision rounds its weights to 15 bits and less, by what the machine can do, and we to 22; and
// without antialias it rounds and cuts off its columns before it makes rows of them, as two resizes
// do here. Of bicubic, which leaves the range of its input, that is seen.
TEST(TorchvisionResize, OfBytesIsWithinOne) {
  for (const Kind& kind : kKinds) {
    for (const auto& [height, width] : kSizes) {
      const bool twice = kind.name == "bicubic";
      const Value columns = twice ? Resized(Rgb(), kind, Rgb().shape[0], width) : Rgb();
      EXPECT_LE(LargestDifference(Resized(columns, kind, height, width),
                                  Torchvision(absl::StrCat(kind.name, "_", height, "x", width))),
                1)
          << kind.name << " " << height << "x" << width;
    }
  }
}

TEST(TorchvisionResize, BicubicOfBytesWithoutAntialiasIsRoundedOnceHere) {
  double largest = 0;
  for (const auto& [height, width] : kSizes) {
    const Value out = Resized(Rgb(), kKinds[2], height, width);
    largest = std::max(
        largest, LargestDifference(out, Torchvision(absl::StrCat("bicubic_", height, "x", width))));
  }
  EXPECT_EQ(largest, 6);
}

TEST(TorchvisionResize, OfFloatsIsTheSameButForItsRounding) {
  const Value& floats = Fixture("input/float");
  std::vector<float> plane;
  for (size_t i = 0; i < floats.as<float>().size(); i += 3) plane.push_back(floats.as<float>()[i]);
  const Value in = MakeValue(DType::kF32, Shape{floats.shape[0], floats.shape[1], 1}, plane);
  for (const Kind& kind : kKinds) {
    for (const auto& [height, width] : kSizes) {
      const std::string name = absl::StrCat(kind.name, "_float_", height, "x", width);
      EXPECT_LT(LargestDifference(Resized(in, kind, height, width), Torchvision(name)), kFloatBound)
          << name;
    }
  }
}

TEST(TorchvisionResize, OfACropIsRandomResizedCrops) {
  const Value crop = CropOf(Rgb(), 4, 3, 21, 14);
  // The whole of it is the only region of that area and aspect.
  const RandomResizedCropOptions whole{
      .height = 11, .width = 8, .area = {1, 1}, .aspect = {14.0f / 21, 14.0f / 21}};
  EXPECT_LE(LargestDifference(ApplyTo(MakeRandomResizedCrop(whole, "crop"), crop),
                              Torchvision("resized_crop")),
            1);
  const Value smooth = Resized(crop, kKinds[1], 11, 8);
  EXPECT_LE(LargestDifference(smooth, Torchvision("resized_crop_antialias")), 1);
  EXPECT_EQ(smooth, Torchvision("pil/resized_crop"));  // which always smooths
}

TEST(TorchvisionResize, OfACropOfFloatsIsRandomResizedCrops) {
  const Value crop = CropOf(Fixture("input/float"), 4, 3, 21, 14);
  const RandomResizedCropOptions whole{
      .height = 11, .width = 8, .area = {1, 1}, .aspect = {14.0f / 21, 14.0f / 21}};
  EXPECT_LT(LargestDifference(ApplyTo(MakeRandomResizedCrop(whole, "crop"), crop),
                              Torchvision("resized_crop_float")),
            kFloatBound);
  EXPECT_LT(LargestDifference(Resized(crop, kKinds[1], 11, 8),
                              Torchvision("resized_crop_antialias_float")),
            kFloatBound);
}

TEST(TorchvisionCenterCrop, IsTheSame) {
  EXPECT_EQ(ApplyTo(MakeCenterCrop({.height = 16, .width = 24}), Rgb()),
            Torchvision("center_crop"));
}

// --- colours ---

Value Colored(ColorOp op, float factor, const Value& in, int64_t kernel_size = 0) {
  return ApplyTo(
      MakeColor({.op = op, .factor = {factor, factor}, .kernel_size = kernel_size}, "color"), in);
}

// Where the machine has it torch multiplies and adds with one rounding, which moves a value that is
// next to a whole number across it (S-ROUND-1 does not allow that here).
TEST(TorchvisionColor, BlendsAreTheSameButForAFusedMultiplyAdd) {
  const std::pair<ColorOp, std::string> ops[] = {{ColorOp::kBrightness, "brightness_"},
                                                 {ColorOp::kContrast, "contrast_"},
                                                 {ColorOp::kSaturation, "saturation_"},
                                                 {ColorOp::kSharpness, "sharpness_"}};
  for (const auto& [op, name] : ops) {
    for (const std::string factor : {"0.0", "0.4", "1.7"}) {
      const Value out = Colored(op, std::stof(factor), Rgb());
      const Value& expected = Torchvision(name + factor);
      EXPECT_LE(LargestDifference(out, expected), 1) << name << factor;
      EXPECT_LE(NumDifferent(out, expected), static_cast<int>(out.bytes.size() / 100))
          << name << factor;
    }
  }
}

TEST(TorchvisionColor, HueAndGreyAreTheSameToTheBit) {
  for (const std::string turn : {"-0.5", "-0.1", "0.0", "0.3"}) {
    EXPECT_EQ(Colored(ColorOp::kHue, std::stof(turn), Rgb()), Torchvision("hue_" + turn)) << turn;
  }
  EXPECT_EQ(Colored(ColorOp::kGrayscale, 0, Rgb()), Torchvision("grayscale"));
}

TEST(TorchvisionColor, TablesAreTheSameToTheBit) {
  EXPECT_EQ(Colored(ColorOp::kInvert, 0, Rgb()), Torchvision("invert"));
  for (const int bits : {1, 3, 8}) {
    EXPECT_EQ(Colored(ColorOp::kPosterize, static_cast<float>(bits), Rgb()),
              Torchvision(absl::StrCat("posterize_", bits)));
  }
  for (const int threshold : {0, 77, 255}) {
    EXPECT_EQ(Colored(ColorOp::kSolarize, static_cast<float>(threshold), Rgb()),
              Torchvision(absl::StrCat("solarize_", threshold)));
  }
  EXPECT_EQ(Colored(ColorOp::kEqualize, 0, Rgb()), Torchvision("equalize"));
  const Value& narrow = Fixture("input/narrow");
  EXPECT_EQ(Colored(ColorOp::kEqualize, 0, narrow), Torchvision("equalize_narrow"));
  EXPECT_EQ(Colored(ColorOp::kAutocontrast, 0, narrow), Torchvision("autocontrast_narrow"));
}

// Sums are made in another order.
TEST(TorchvisionColor, BlurIsWithinOne) {
  const std::pair<int64_t, float> kernels[] = {{3, 0.5f}, {7, 2.0f}, {13, 1.1f}};
  for (const auto& [size, sigma] : kernels) {
    EXPECT_LE(LargestDifference(Colored(ColorOp::kGaussianBlur, sigma, Rgb(), size),
                                Torchvision(absl::StrCat("blur_", size))),
              1)
        << size;
  }
}

TEST(TorchvisionNormalize, IsTheSameButForItsRounding) {
  const NormalizeOptions options{.mean = {123.675f, 116.28f, 103.53f},
                                 .stddev = {58.395f, 57.12f, 57.375f}};
  EXPECT_LT(LargestDifference(ApplyTo(MakeNormalize(options), Rgb()), Torchvision("normalize")),
            1e-6);
}

// --- affine ---

Value Warped(const Value& in, const AffineParameters& parameters, bool bilinear, uint8_t fill) {
  const ColorImage view{in.as<uint8_t>().data(), in.shape[0], in.shape[1], in.shape[2]};
  std::vector<uint8_t> out(in.bytes.size());
  const AffineMatrix matrix = InverseAffine(parameters, view.height, view.width);
  bilinear ? WarpBilinear(view, matrix, fill, out.data())
           : WarpNearest(view, matrix, fill, out.data());
  return MakeValue(DType::kU8, in.shape, out);
}

TEST(TorchvisionAffine, OfPilImagesIsTheSameToTheBit) {
  for (size_t i = 0; i < std::size(testing::kAffineCases); ++i) {
    EXPECT_EQ(Warped(Rgb(), testing::kAffineCases[i], false, 9),
              Torchvision(absl::StrCat("pil/affine_nearest_", i)));
    EXPECT_EQ(Warped(Rgb(), testing::kAffineCases[i], true, 9),
              Torchvision(absl::StrCat("pil/affine_bilinear_", i)));
  }
  // rotate turns the other way round.
  for (const float degrees : {30.0f, -107.5f}) {
    const AffineOptions turn{.degrees = {-degrees, -degrees}, .fill = 9};
    EXPECT_EQ(ApplyTo(MakeAffine(turn, "turn"), Rgb()),
              Torchvision(absl::StrCat("pil/rotate_", degrees)));
    // Pillow's sines are in double there, and those of torchvision's affine in float32.
    AffineOptions smooth = turn;
    smooth.bilinear = true;
    const Value out = ApplyTo(MakeAffine(smooth, "turn"), Rgb());
    const Value& expected = Torchvision(absl::StrCat("pil/rotate_bilinear_", degrees));
    EXPECT_LE(LargestDifference(out, expected), 1) << degrees;
    EXPECT_LE(NumDifferent(out, expected), static_cast<int>(out.bytes.size() / 100)) << degrees;
  }
}

// Of tensors torchvision blends what lies at the image's edge with the fill value, and Pillow, as
// we, does not; it rounds what Pillow cuts off.
TEST(TorchvisionAffine, OfTensorsIsWithinOneAwayFromTheEdges) {
  for (const size_t i : {size_t{0}, size_t{4}}) {
    const Value out = Warped(Rgb(), testing::kAffineCases[i], true, 9);
    const Value& expected = Torchvision(absl::StrCat("affine_bilinear_", i));
    // Pixels of which a mark at every place of the edge shows nothing come from inside.
    Value marks = Rgb();
    for (int64_t k = 0; k < static_cast<int64_t>(marks.bytes.size()); ++k) {
      const int64_t y = k / 3 / marks.shape[1], x = k / 3 % marks.shape[1];
      const bool edge = y == 0 || x == 0 || y == marks.shape[0] - 1 || x == marks.shape[1] - 1;
      marks.bytes[static_cast<size_t>(k)] = static_cast<std::byte>(edge ? 255 : 0);
    }
    const Value shown = Warped(marks, testing::kAffineCases[i], true, 255);
    int inside = 0;
    for (size_t k = 0; k < out.bytes.size(); ++k) {
      if (shown.as<uint8_t>()[k] != 0) continue;
      ++inside;
      EXPECT_LE(std::abs(out.as<uint8_t>()[k] - expected.as<uint8_t>()[k]), 1) << i << ", " << k;
    }
    EXPECT_GT(inside, 300);
  }
}

// A twelfth of the columns of a turn by 30 degrees lies between two pixels, where rounding decides.
TEST(TorchvisionAffine, NearestOfTensorsIsTheSameButForTies) {
  EXPECT_LE(NumDifferent(Warped(Rgb(), testing::kAffineCases[0], false, 9),
                         Torchvision("affine_nearest_0")),
            3 * 12);
  EXPECT_EQ(Warped(Rgb(), testing::kAffineCases[4], false, 9), Torchvision("affine_nearest_4"));
}

}  // namespace
}  // namespace millrace::augment
