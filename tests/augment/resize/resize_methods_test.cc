#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "augment/geometry_ops.h"
#include "augment/image_ops.h"
#include "base/record_error.h"
#include "tests/augment/fixtures.h"
#include "tests/messages.h"

// Against what Pillow, OpenCV and TensorFlow made of the same image
// (scripts/make_augment_fixtures.py).

namespace millrace::augment {
namespace {

using testing::ApplyTo;
using testing::Fixture;
using testing::LargestDifference;
using testing::MakeValue;
using testing::RowStatus;
using testing::Value;

struct Size {
  int64_t height, width;
};

class ResizeMethods : public ::testing::TestWithParam<Size> {
 protected:
  Value Resized(const Value& in, ResizeMethod method, bool antialias = false,
                std::optional<DType> dtype = std::nullopt) const {
    return ApplyTo(MakeResize({.height = GetParam().height,
                               .width = GetParam().width,
                               .method = method,
                               .antialias = antialias,
                               .dtype = dtype}),
                   in);
  }
  const Value& Expected(const std::string& what) const {
    return Fixture(absl::StrCat(what, "_", GetParam().height, "x", GetParam().width));
  }
  // One plane of the float image.
  static Value Plane() {
    const Value& in = Fixture("input/float");
    std::vector<float> plane;
    for (size_t i = 0; i < in.as<float>().size(); i += 3) plane.push_back(in.as<float>()[i]);
    return MakeValue(DType::kF32, Shape{in.shape[0], in.shape[1], 1}, plane);
  }
  const Value& rgb_ = Fixture("input/rgb");
};

// S-ROUND-1.
TEST_P(ResizeMethods, AntialiasIsPillowsToTheBit) {
  EXPECT_EQ(Resized(rgb_, ResizeMethod::kBilinear, true), Expected("pillow/bilinear"));
  EXPECT_EQ(Resized(rgb_, ResizeMethod::kBicubic, true), Expected("pillow/bicubic"));
  EXPECT_EQ(Resized(Plane(), ResizeMethod::kBilinear, true), Expected("pillow/bilinear_float"));
  EXPECT_EQ(Resized(Plane(), ResizeMethod::kBicubic, true), Expected("pillow/bicubic_float"));
}

TEST_P(ResizeMethods, AntialiasIsTensorFlowsButForItsRounding) {
  const Value floats = Resized(rgb_, ResizeMethod::kBilinear, true, DType::kF32);
  EXPECT_LT(LargestDifference(floats, Expected("tensorflow/bilinear_antialias")), 1e-3);
}

// With antialias TensorFlow's bicubic is ours; without, it looks Keys' kernel with a = -0.5 up in a
// table of 1024 places, which is our antialias where it enlarges and nothing of ours elsewhere.
TEST_P(ResizeMethods, BicubicWithAntialiasIsTensorFlows) {
  const Value floats = Resized(Plane(), ResizeMethod::kBicubic, true);
  EXPECT_LT(LargestDifference(floats, Expected("tensorflow/bicubic_antialias")), 1e-3);
  if (GetParam().height > rgb_.shape[0] && GetParam().width > rgb_.shape[1]) {
    EXPECT_LT(LargestDifference(floats, Expected("tensorflow/bicubic")), 0.05);
  } else {
    EXPECT_GT(LargestDifference(floats, Expected("tensorflow/bicubic")), 5);
  }
}

TEST_P(ResizeMethods, NearestIsPillowsAndTensorFlowsOfAnyType) {
  EXPECT_EQ(Resized(rgb_, ResizeMethod::kNearest), Expected("pillow/nearest"));
  EXPECT_EQ(Resized(Plane(), ResizeMethod::kNearest), Expected("pillow/nearest_float"));
  EXPECT_EQ(Resized(rgb_, ResizeMethod::kNearest), Expected("tensorflow/nearest"));
  const Value floats = Resized(rgb_, ResizeMethod::kNearest, false, DType::kF32);
  EXPECT_EQ(LargestDifference(floats, Expected("tensorflow/nearest")), 0);
  const auto bytes = rgb_.as<uint8_t>();
  const Value wide =
      MakeValue(DType::kI64, rgb_.shape, std::vector<int64_t>(bytes.begin(), bytes.end()));
  const Value out = Resized(wide, ResizeMethod::kNearest);
  const auto expected = Expected("pillow/nearest").as<uint8_t>();
  EXPECT_TRUE(std::ranges::equal(out.as<int64_t>(), expected));
}

TEST_P(ResizeMethods, BilinearIsTensorFlows) {
  const Value floats = Resized(rgb_, ResizeMethod::kBilinear, false, DType::kF32);
  EXPECT_LT(LargestDifference(floats, Expected("tensorflow/bilinear")), 1e-3);
  EXPECT_LE(LargestDifference(Resized(rgb_, ResizeMethod::kBilinear), floats), 0.5);
}

TEST_P(ResizeMethods, AreaIsTensorFlowsWhereItShrinksAndWhereItEnlarges) {
  const Value floats = Resized(rgb_, ResizeMethod::kArea, false, DType::kF32);
  EXPECT_LT(LargestDifference(floats, Expected("tensorflow/area")), 1e-3);
  EXPECT_LE(LargestDifference(Resized(rgb_, ResizeMethod::kArea), floats), 0.5001);
}

TEST_P(ResizeMethods, BicubicIsOpenCvs) {
  const Value floats = Resized(rgb_, ResizeMethod::kBicubic, false, DType::kF32);
  EXPECT_LT(LargestDifference(floats, Expected("opencv/bicubic")), 1e-3);
  // One arithmetic: the bytes are the floats, rounded and cut off.
  const Value bytes = Resized(rgb_, ResizeMethod::kBicubic);
  for (size_t i = 0; i < bytes.bytes.size(); ++i) {
    const float cut = std::clamp(floats.as<float>()[i], 0.0f, 255.0f);
    ASSERT_EQ(bytes.as<uint8_t>()[i], std::nearbyint(cut)) << i;
  }
}

TEST_P(ResizeMethods, BytesOfAFloatImageAreItsRoundedFloats) {
  const Value& in = Fixture("input/float");  // has values below 0
  const Value floats = Resized(in, ResizeMethod::kBilinear);
  const Value bytes = Resized(in, ResizeMethod::kBilinear, false, DType::kU8);
  for (size_t i = 0; i < bytes.bytes.size(); ++i) {
    const float cut = std::clamp(floats.as<float>()[i], 0.0f, 255.0f);
    ASSERT_EQ(bytes.as<uint8_t>()[i], std::nearbyint(cut)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ResizeMethods,
                         ::testing::Values(Size{16, 9}, Size{37, 31}, Size{5, 19}, Size{40, 8}),
                         [](const auto& size) {
                           return absl::StrCat(size.param.height, "x", size.param.width);
                         });

TEST(ResizeShorter, KeepsTheAspectRoundedDown) {
  const Value& in = Fixture("input/rgb");  // 29 x 19
  EXPECT_EQ(ApplyTo(MakeResize({.shorter = 11}), in).shape, (Shape{16, 11, 3}));
  const Value wide = ApplyTo(MakeTranspose({.perm = {1, 0, 2}}), in);
  EXPECT_EQ(ApplyTo(MakeResize({.shorter = 11}), wide).shape, (Shape{11, 16, 3}));
  EXPECT_EQ(ApplyTo(MakeResize({.shorter = 17, .antialias = true}), in),
            ApplyTo(MakeResize({.height = 25, .width = 17, .antialias = true}), in));
}

TEST(ResizeShorter, AnImageThatWouldBecomeTooLongIsAnErrorOfItsRow) {
  const Value line = MakeValue(DType::kU8, Shape{1, 1000, 1}, std::vector<uint8_t>(1000));
  const absl::Status status = RowStatus(MakeResize({.shorter = 100}), line);
  EXPECT_MESSAGE(status);
  EXPECT_EQ(GetRecordError(status)->reason, RecordErrorReason::kValue);
  const Value longer = MakeValue(DType::kU8, Shape{1, 70000, 1}, std::vector<uint8_t>(70000));
  EXPECT_FALSE(RowStatus(MakeResize({.height = 2, .width = 2, .antialias = true}), longer).ok());
  EXPECT_FALSE(
      RowStatus(MakeResize({.height = 2, .width = 2, .method = ResizeMethod::kArea}), longer).ok());
  EXPECT_TRUE(RowStatus(MakeResize({.height = 2, .width = 2}), longer).ok());
}

TEST(ResizeOptions, WhatDoesNotGoTogetherIsRefused) {
  const auto error = [](ResizeOptions options) { return MakeResize(options).status(); };
  EXPECT_MESSAGE(error({.height = 1, .shorter = 2}));
  EXPECT_MESSAGE(error({.shorter = 70000}));
  EXPECT_MESSAGE(
      error({.height = 1, .width = 1, .method = ResizeMethod::kArea, .antialias = true}));
  EXPECT_MESSAGE(error({.height = 1, .width = 1, .dtype = DType::kI32}));
}

}  // namespace
}  // namespace millrace::augment
