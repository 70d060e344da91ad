#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "augment/image_ops.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"

namespace millrace::augment {
namespace {

using testing::Image;
using testing::MakeImage;
using testing::OneField;
using testing::ResolveAndApply;
using testing::TestRun;

// S-ROUND-1.
TEST(Normalize, IsTheStatedArithmeticForBothInputs) {
  const Image in = MakeImage(7, 9, 3, 2);
  const std::vector<float> floats(in.pixels.begin(), in.pixels.end());
  const std::vector<float> mean = {123.675f, 116.28f, 103.53f};
  const std::vector<float> stddev = {58.395f, 57.12f, 57.375f};
  auto op = MakeNormalize({.mean = mean, .stddev = stddev});
  ASSERT_TRUE(op.ok());
  TestRun bytes(1), real(1);
  bytes.AddValue("image", DType::kU8, Shape{7, 9, 3}, in.pixels.data());
  real.AddValue("image", DType::kF32, Shape{7, 9, 3}, floats.data());
  const Schema out = ResolveAndApply(**op, OneField("image", DType::kU8, Shape{7, 9, 3}), *bytes);
  ResolveAndApply(**op, OneField("image", DType::kF32, Shape{7, 9, 3}), *real);
  EXPECT_EQ(out.ToString(), "image: float32[7, 9, 3]");
  const auto from_bytes = bytes->Get("image").at(0).as<float>();
  const auto from_real = real->Get("image").at(0).as<float>();
  for (size_t i = 0; i < floats.size(); ++i) {
    const float scale = 1.0f / stddev[i % 3];
    const float offset = mean[i % 3] * scale;
    const float product = floats[i] * scale;
    ASSERT_EQ(from_bytes[i], product - offset);
    ASSERT_EQ(from_real[i], from_bytes[i]);
    ASSERT_NEAR(from_bytes[i], (double{floats[i]} - double{mean[i % 3]}) / double{stddev[i % 3]},
                1e-5);
  }
}

TEST(Normalize, WrongChannelsAndFactorsAreNamed) {
  auto op = MakeNormalize({.mean = {1, 2, 3}, .stddev = {1, 1, 1}});
  ASSERT_TRUE(op.ok());
  EXPECT_MESSAGE((*op)->Resolve(OneField("image", DType::kU8, Shape{4, 4, 1})).status());
  EXPECT_FALSE(MakeNormalize({.mean = {1}, .stddev = {0}}).ok());
  EXPECT_FALSE(MakeNormalize({.mean = {1}, .stddev = {}}).ok());
  EXPECT_FALSE(MakeNormalize({.mean = {NAN}, .stddev = {1}}).ok());
}

}  // namespace
}  // namespace millrace::augment
