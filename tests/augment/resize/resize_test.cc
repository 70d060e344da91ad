#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "augment/image/options.h"
#include "augment/image/region.h"
#include "augment/image_ops.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"

namespace millrace::augment {
namespace {

using testing::Image;
using testing::MakeImage;
using testing::ResolveAndApply;
using testing::TestRun;

Schema ImageSchema(DType dtype, int64_t channels) {
  return Schema({{"image", dtype, Shape{Shape::kUnknown, Shape::kUnknown, channels}}});
}

// Bilinear from its definition, in doubles: the weight of an input pixel is the product of two hats
// around the output pixel's centre.
double Reference(const Image& in, const Region& region, int64_t out_height, int64_t out_width,
                 int64_t y, int64_t x, int c) {
  const auto axis = [](int64_t i, int64_t size, int64_t out) {
    return (static_cast<double>(i) + 0.5) * static_cast<double>(size) / static_cast<double>(out) -
           0.5;
  };
  const auto pixel = [&](int64_t row, int64_t column) {
    row = region.top + std::clamp<int64_t>(row, 0, region.height - 1);
    column = region.left + std::clamp<int64_t>(column, 0, region.width - 1);
    return static_cast<double>(in.pixels[(row * in.width + column) * in.channels + c]);
  };
  const double fy = axis(y, region.height, out_height);
  const double fx = axis(x, region.width, out_width);
  const auto y0 = static_cast<int64_t>(std::floor(fy));
  const auto x0 = static_cast<int64_t>(std::floor(fx));
  double sum = 0;
  for (int64_t row : {y0, y0 + 1}) {
    for (int64_t column : {x0, x0 + 1}) {
      sum += pixel(row, column) * (1 - std::abs(fy - static_cast<double>(row))) *
             (1 - std::abs(fx - static_cast<double>(column)));
    }
  }
  return sum;
}

struct Extents {
  int64_t in_height, in_width, out_height, out_width;
};

class ResizeExtents : public ::testing::TestWithParam<std::tuple<Extents, int>> {};

// S-ROUND-1.
TEST_P(ResizeExtents, MatchesTheDefinition) {
  const auto& [extents, channels] = GetParam();
  const Image in = MakeImage(extents.in_height, extents.in_width, channels, 3);
  const std::vector<float> floats(in.pixels.begin(), in.pixels.end());
  const Shape shape{in.height, in.width, channels};
  auto op = MakeResize({.height = extents.out_height, .width = extents.out_width});
  ASSERT_TRUE(op.ok()) << op.status();
  TestRun bytes(1), real(1);
  bytes.AddValue("image", DType::kU8, shape, in.pixels.data());
  real.AddValue("image", DType::kF32, shape, floats.data());
  ResolveAndApply(**op, ImageSchema(DType::kU8, channels), *bytes);
  ResolveAndApply(**op, ImageSchema(DType::kF32, channels), *real);
  const auto out_bytes = bytes->Get("image").at(0).as<uint8_t>();
  const auto out_real = real->Get("image").at(0).as<float>();
  const Region all{0, 0, in.height, in.width};
  size_t i = 0;
  for (int64_t y = 0; y < extents.out_height; ++y) {
    for (int64_t x = 0; x < extents.out_width; ++x) {
      for (int c = 0; c < channels; ++c, ++i) {
        const double expected = Reference(in, all, extents.out_height, extents.out_width, y, x, c);
        ASSERT_NEAR(out_real[i], expected, 0.05) << y << ", " << x << ", " << c;
        // One arithmetic: the bytes are the floats, rounded.
        ASSERT_EQ(out_bytes[i], static_cast<uint8_t>(std::nearbyint(out_real[i])));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ResizeExtents,
    ::testing::Combine(::testing::Values(Extents{1, 1, 1, 1}, Extents{1, 1, 5, 7},
                                         Extents{2, 3, 9, 8}, Extents{37, 53, 11, 13},
                                         Extents{300, 200, 64, 64}, Extents{20, 400, 33, 5},
                                         Extents{16, 16, 16, 16}),
                       ::testing::Values(1, 2, 3, 4)));

TEST(Resize, SameSizeIsIdentity) {
  const Image in = MakeImage(13, 9, 3, 1);
  TestRun run(1);
  run.AddValue("image", DType::kU8, Shape{13, 9, 3}, in.pixels.data());
  auto op = MakeResize({.height = 13, .width = 9});
  ASSERT_TRUE(op.ok());
  ResolveAndApply(**op, ImageSchema(DType::kU8, 3), *run);
  EXPECT_EQ(run.ImageAt("image", 0), in);
}

// S-ROUND-1.
TEST(Resize, HalvesRoundToEven) {
  // The middle of {0, 1} is 0.5, of {1, 2} is 1.5, of {2, 3} is 2.5.
  for (const auto& [left, right, middle] :
       {std::tuple{0, 1, 0}, std::tuple{1, 2, 2}, std::tuple{2, 3, 2}, std::tuple{254, 255, 254}}) {
    const uint8_t pixels[] = {static_cast<uint8_t>(left), static_cast<uint8_t>(right)};
    TestRun run(1);
    run.AddValue("image", DType::kU8, Shape{1, 2, 1}, pixels);
    auto op = MakeResize({.height = 1, .width = 1});
    ASSERT_TRUE(op.ok());
    ResolveAndApply(**op, ImageSchema(DType::kU8, 1), *run);
    EXPECT_EQ(run.ImageAt("image", 0).pixels[0], middle);
  }
}

TEST(Resize, AnEmptyImageFailsItsRow) {
  const uint8_t pixel = 0;
  TestRun run(1);
  run.AddValue("image", DType::kU8, Shape{0, 4, 3}, &pixel);
  auto op = MakeResize({.height = 2, .width = 2});
  ASSERT_TRUE(op.ok());
  ResolveAndApply(**op, ImageSchema(DType::kU8, 3), *run);
  EXPECT_EQ(run->status(0).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Resize, ResolveNamesWhatItExpects) {
  auto op = MakeResize({.height = 2, .width = 2});
  ASSERT_TRUE(op.ok());
  const auto schema = (*op)->Resolve(ImageSchema(DType::kF64, 3));
  EXPECT_MESSAGE(schema.status());
  EXPECT_EQ((*op)->Resolve(Schema()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(MakeResize({.height = 0, .width = 2}).ok());
}

TEST(RandomResizedCrop, ResizesTheRegionThatIsDrawn) {
  const Image in = MakeImage(90, 70, 3, 4);
  const RandomResizedCropOptions options{.height = 20, .width = 24};
  auto op = MakeRandomResizedCrop(options, "crop");
  ASSERT_TRUE(op.ok());
  TestRun run(30, 9);
  run.AddValue("image", DType::kU8, Shape{90, 70, 3}, in.pixels.data());
  ResolveAndApply(**op, ImageSchema(DType::kU8, 3), *run);
  for (int64_t row = 0; row < 30; ++row) {
    RandomStream random = run->Random(row, HashName("crop"));
    const Region region = DrawCrop(90, 70, options.area, options.aspect, random);
    const Image out = run.ImageAt("image", row);
    for (int64_t y = 0; y < 20; ++y) {
      for (int64_t x = 0; x < 24; ++x) {
        ASSERT_NEAR(out.pixels[(y * 24 + x) * 3], Reference(in, region, 20, 24, y, x, 0), 0.51);
      }
    }
  }
}

// Every interpolation is MakeResize's of the region alone: pixels around it have no part.
TEST(RandomResizedCrop, ItsInterpolationIsThatOfResize) {
  const Image in = MakeImage(90, 70, 3, 4);
  for (const auto& [method, antialias] : {std::pair{ResizeMethod::kBilinear, false},
                                          {ResizeMethod::kBilinear, true},
                                          {ResizeMethod::kBicubic, false},
                                          {ResizeMethod::kBicubic, true},
                                          {ResizeMethod::kNearest, false},
                                          {ResizeMethod::kArea, false}}) {
    const RandomResizedCropOptions options{
        .height = 20, .width = 24, .interpolation = method, .antialias = antialias};
    auto op = MakeRandomResizedCrop(options, "crop");
    auto resize = MakeResize({.height = 20, .width = 24, .method = method, .antialias = antialias});
    ASSERT_TRUE(op.ok() && resize.ok());
    TestRun run(20, 9);
    run.AddValue("image", DType::kU8, Shape{90, 70, 3}, in.pixels.data());
    ResolveAndApply(**op, ImageSchema(DType::kU8, 3), *run);
    for (int64_t row = 0; row < 20; ++row) {
      RandomStream random = run->Random(row, HashName("crop"));
      const Region region = DrawCrop(90, 70, options.area, options.aspect, random);
      const Image part = testing::Crop(in, region.top, region.left, region.height, region.width);
      TestRun alone(1);
      alone.AddValue("image", DType::kU8, Shape{region.height, region.width, 3},
                     part.pixels.data());
      ResolveAndApply(**resize, ImageSchema(DType::kU8, 3), *alone);
      ASSERT_EQ(run.ImageAt("image", row), alone.ImageAt("image", 0))
          << "method " << static_cast<int>(method) << ", antialias " << antialias;
    }
  }
}

TEST(RandomResizedCrop, ARegionThatIsTooLongForAKernelIsAnErrorOfTheRow) {
  auto op = MakeRandomResizedCrop(
      {.height = 1, .width = 9, .area = {1, 1}, .aspect = {1000, 1000}, .antialias = true}, "crop");
  const std::vector<uint8_t> long_image(size_t{70} * 70000);
  TestRun run(1);
  run.AddValue("image", DType::kU8, Shape{70, 70000, 1}, long_image.data());
  ResolveAndApply(**op, ImageSchema(DType::kU8, 1), *run);
  EXPECT_EQ(run->status(0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(run->status(0));
}

// A place in a row is an int32. No pixel is looked at.
TEST(Resize, ARowOfTooManyValuesIsAnErrorOfTheRow) {
  constexpr int64_t kWidth = 1 << 24, kChannels = 128;
  const Shape shape{2, kWidth, kChannels};
  EXPECT_TRUE(CheckResizable({2, kWidth, kChannels - 1}).ok());
  EXPECT_FALSE(ResizedShape({.height = 2, .width = 2}, shape).ok());
  const uint8_t pixel = 0;
  for (const bool crops : {false, true}) {
    auto op = crops ? MakeRandomResizedCrop({.height = 2, .width = 2}, "crop")
                    : MakeResize({.height = 2, .width = 2});
    ASSERT_TRUE(op.ok()) << op.status();
    TestRun run(1);
    run.AddValue("image", DType::kU8, shape, &pixel);
    ResolveAndApply(**op, ImageSchema(DType::kU8, kChannels), *run);
    EXPECT_MESSAGE(run->status(0), "values");
  }
}

TEST(RandomResizedCrop, OptionsAreChecked) {
  const auto error = [](const RandomResizedCropOptions& options) {
    return MakeRandomResizedCrop(options, "crop").status();
  };
  for (const int attempts : {0, -1, 1001}) {
    EXPECT_MESSAGE(error({.max_attempts = attempts}));
  }
  EXPECT_TRUE(MakeRandomResizedCrop({.max_attempts = 1000}, "crop").ok());
  for (const ResizeMethod method : {ResizeMethod::kNearest, ResizeMethod::kArea}) {
    EXPECT_MESSAGE(error({.interpolation = method, .antialias = true}), "antialias");
  }
}

}  // namespace
}  // namespace millrace::augment
