#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "augment/image_ops.h"
#include "tests/augment/image_testing.h"

namespace millrace::augment {
namespace {

using testing::Image;
using testing::MakeImage;
using testing::OneField;
using testing::ResolveAndApply;
using testing::TestRun;

TEST(Flip, MirrorsEveryPixelOfAnyType) {
  const Image in = MakeImage(3, 5, 3, 1);
  auto op = MakeFlip({.probability = 1}, "flip");
  ASSERT_TRUE(op.ok());
  const std::vector<float> floats(in.pixels.begin(), in.pixels.end());
  const std::vector<double> doubles(in.pixels.begin(), in.pixels.end());
  const auto check = [&]<typename T>(DType dtype, const std::vector<T>& values) {
    TestRun run(1);
    run.AddValue("image", dtype, Shape{3, 5, 3}, values.data());
    ResolveAndApply(**op, OneField("image", dtype, Shape{3, 5, 3}), *run);
    const auto out = run->Get("image").at(0).template as<T>();
    for (int y = 0; y < 3; ++y) {
      for (int x = 0; x < 5; ++x) {
        for (int c = 0; c < 3; ++c) {
          ASSERT_EQ(out[(y * 5 + x) * 3 + c], values[(y * 5 + 4 - x) * 3 + c]);
        }
      }
    }
  };
  check(DType::kU8, in.pixels);
  check(DType::kF32, floats);
  check(DType::kF64, doubles);
}

TEST(Flip, FlipsAsOftenAsAskedByOneFloatPerRow) {
  constexpr int64_t kRows = 4000;
  const uint8_t pixels[] = {1, 2};
  for (float probability : {0.0f, 0.25f, 0.5f, 1.0f}) {
    auto op = MakeFlip({.probability = probability}, "mirror");
    ASSERT_TRUE(op.ok());
    TestRun run(kRows, 5);
    run.AddValue("image", DType::kU8, Shape{1, 2, 1}, pixels);
    ResolveAndApply(**op, OneField("image", DType::kU8, Shape{1, 2, 1}), *run);
    int64_t flips = 0;
    for (int64_t row = 0; row < kRows; ++row) {
      const bool flipped = run.ImageAt("image", row).pixels[0] == 2;
      ASSERT_EQ(flipped, run->Random(row, HashName("mirror")).NextFloat() < probability);
      flips += flipped;
    }
    const double sigma = std::sqrt(probability * (1 - probability) / kRows);
    EXPECT_NEAR(static_cast<double>(flips) / kRows, probability, 5 * sigma);
  }
}

TEST(Flip, WritesIntoTheBoundSlab) {
  const Image in = MakeImage(2, 2, 1, 1);
  std::vector<std::byte> slab(8);
  const std::vector<FieldSlots> slots = {{"image", DType::kU8, Shape{2, 2, 1}, slab.data()}};
  auto op = MakeFlip({.probability = 0}, "flip");
  ASSERT_TRUE(op.ok());
  TestRun run(2);
  run.AddValue("image", DType::kU8, Shape{2, 2, 1}, in.pixels.data());
  run->Bind(slots);
  ResolveAndApply(**op, OneField("image", DType::kU8, Shape{2, 2, 1}), *run);
  EXPECT_EQ(std::memcmp(slab.data(), in.pixels.data(), 4), 0);
  EXPECT_EQ(std::memcmp(slab.data() + 4, in.pixels.data(), 4), 0);
}

}  // namespace
}  // namespace millrace::augment
