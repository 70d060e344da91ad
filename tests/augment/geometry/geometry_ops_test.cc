#include "augment/geometry_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/record_error.h"
#include "tests/augment/fixtures.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"

namespace millrace::augment {
namespace {

using testing::ApplyTo;
using ::testing::ElementsAre;
using testing::Fixture;
using testing::MakeValue;
using testing::ResolveAndApply;
using testing::RowStatus;
using testing::TestRun;
using testing::Value;

// Pixel (y, x) of an image of one channel is 10 * y + x + 1.
Value Numbered(int64_t height, int64_t width) {
  std::vector<int32_t> values;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) values.push_back(static_cast<int32_t>(10 * y + x + 1));
  }
  return MakeValue(DType::kI32, Shape{height, width, 1}, values);
}

std::vector<int32_t> Ints(const Value& value) {
  return {value.as<int32_t>().begin(), value.as<int32_t>().end()};
}

// --- center_crop ---

// torchvision: int(round((size - crop) / 2.0)), and Python rounds a half to the even number.
TEST(CenterCrop, BeginsWhereTorchvisionsDoes) {
  const auto first = [](int64_t size, int64_t crop) {
    return Ints(ApplyTo(MakeCenterCrop({.height = 1, .width = crop}), Numbered(1, size)))[0] - 1;
  };
  EXPECT_EQ(first(8, 4), 2);
  EXPECT_EQ(first(5, 4), 0);  // 0.5
  EXPECT_EQ(first(7, 4), 2);  // 1.5
  EXPECT_EQ(first(9, 4), 2);  // 2.5
  EXPECT_EQ(first(9, 2), 4);  // 3.5
}

TEST(CenterCrop, ASmallerImageStandsInTheMiddleOfZeros) {
  EXPECT_THAT(Ints(ApplyTo(MakeCenterCrop({.height = 2, .width = 5}), Numbered(1, 2))),
              ElementsAre(0, 1, 2, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(Ints(ApplyTo(MakeCenterCrop({.height = 3, .width = 1}), Numbered(2, 3))),
              ElementsAre(2, 12, 0));
}

// --- random_crop ---

TEST(RandomCrop, EveryPlaceIsAsLikelyAndDrawnAsTold) {
  constexpr int64_t kRows = 6000;
  const Value in = Numbered(4, 5);
  auto op = MakeRandomCrop({.height = 2, .width = 3}, "place");
  ASSERT_TRUE(op.ok());
  TestRun run(kRows, 3);
  run.AddValue("image", in.dtype, in.shape, in.bytes.data());
  ResolveAndApply(**op, Schema({{"image", in.dtype, in.shape}}), *run);
  std::map<int32_t, int> seen;
  for (int64_t row = 0; row < kRows; ++row) {
    const int32_t first = run->Get("image").at(row).as<int32_t>()[0];
    RandomStream random = run->Random(row, HashName("place"));
    const auto top = static_cast<int32_t>(random.Below(3));
    ASSERT_EQ(first, 10 * top + static_cast<int32_t>(random.Below(3)) + 1);
    ++seen[first];
  }
  ASSERT_EQ(seen.size(), 9u);
  double chi = 0;
  for (const auto& [place, count] : seen) {
    chi += (count - kRows / 9.0) * (count - kRows / 9.0) / (kRows / 9.0);
  }
  EXPECT_LT(chi, 31);  // 8 degrees of freedom: above it once in 10^4 seeds
}

TEST(RandomCrop, AnImageThatIsTooSmallIsAnErrorOfItsRow) {
  const absl::Status status =
      RowStatus(MakeRandomCrop({.height = 3, .width = 3}, "a"), Numbered(2, 9));
  EXPECT_MESSAGE(status);
  EXPECT_EQ(GetRecordError(status)->reason, RecordErrorReason::kValue);
}

// --- pad ---

TEST(Pad, IsNumPysInEveryMode) {
  const Value& in = Fixture("input/rgb");
  const auto padded = [&in](PadMode mode) {
    return ApplyTo(
        MakePad({.top = 3, .bottom = 5, .left = 2, .right = 7, .mode = mode, .value = 9}), in);
  };
  EXPECT_EQ(padded(PadMode::kConstant), Fixture("numpy/pad_constant"));
  EXPECT_EQ(padded(PadMode::kEdge), Fixture("numpy/pad_edge"));
  EXPECT_EQ(padded(PadMode::kReflect), Fixture("numpy/pad_reflect"));
  EXPECT_EQ(padded(PadMode::kSymmetric), Fixture("numpy/pad_symmetric"));
}

TEST(Pad, AnImageTooSmallForItsReflectionIsAnErrorOfItsRow) {
  const auto status = [](PadMode mode, int64_t pixels) {
    return RowStatus(MakePad({.right = pixels, .mode = mode}), Numbered(1, 3));
  };
  EXPECT_TRUE(status(PadMode::kReflect, 2).ok());
  EXPECT_MESSAGE(status(PadMode::kReflect, 3));
  EXPECT_TRUE(status(PadMode::kSymmetric, 3).ok());
  EXPECT_FALSE(status(PadMode::kSymmetric, 4).ok());
  EXPECT_TRUE(status(PadMode::kEdge, 4000).ok());
  const Value empty = MakeValue(DType::kU8, Shape{0, 3, 1}, std::vector<uint8_t>());
  EXPECT_FALSE(RowStatus(MakePad({.top = 1, .mode = PadMode::kEdge}), empty).ok());
}

TEST(Pad, PixelsOutOfRangeAreRefused) {
  EXPECT_FALSE(MakePad({.top = -1}).ok());
  EXPECT_FALSE(MakePad({.left = 4097}).ok());
  EXPECT_FALSE(MakePad({.value = NAN}).ok());
}

// --- transpose ---

TEST(Transpose, PutsChannelsFirstOfAnyType) {
  const Value& in = Fixture("input/rgb");
  const Value out = ApplyTo(MakeTranspose({}), in);
  const Value& expected = Fixture("numpy/transpose");
  EXPECT_EQ(out, expected);
  EXPECT_EQ(ApplyTo(MakeTranspose({.perm = {1, 2, 0}}), out), in);
  const auto check = [&]<typename T>(DType dtype, T) {
    const auto bytes = in.as<uint8_t>();
    const Value wide = ApplyTo(
        MakeTranspose({}), MakeValue(dtype, in.shape, std::vector<T>(bytes.begin(), bytes.end())));
    EXPECT_TRUE(std::ranges::equal(wide.as<T>(), expected.as<uint8_t>()));
  };
  check(DType::kF16, uint16_t{});
  check(DType::kI32, int32_t{});
  check(DType::kF64, double{});
}

TEST(Transpose, WrongPermutationsAreRefused) {
  EXPECT_FALSE(MakeTranspose({.perm = {0, 0, 1}}).ok());
  EXPECT_FALSE(MakeTranspose({.perm = {1, 2, 3}}).ok());
  EXPECT_FALSE(MakeTranspose({.perm = {}}).ok());
  EXPECT_FALSE(MakeTranspose({.perm = {5, 4, 3, 2, 1, 0}}).ok());
  auto op = MakeTranspose({.perm = {1, 0}});
  ASSERT_TRUE(op.ok());
  EXPECT_MESSAGE((*op)->Resolve(Schema({{"image", DType::kU8, Shape{2, 2, 3}}})).status());
}

// --- pad_channels ---

TEST(PadChannels, AppendsTheValue) {
  const Value in = MakeValue(DType::kF32, Shape{1, 2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const Value out = ApplyTo(MakePadChannels({.channels = 4, .value = 0.5f}), in);
  EXPECT_THAT(out.as<float>(), ElementsAre(1, 2, 3, 0.5f, 4, 5, 6, 0.5f));
  EXPECT_EQ(ApplyTo(MakePadChannels({.channels = 3}), in), in);
  auto op = MakePadChannels({.channels = 2});
  ASSERT_TRUE(op.ok());
  EXPECT_FALSE((*op)->Resolve(Schema({{"image", DType::kF32, in.shape}})).ok());
}

// --- flip ---

TEST(VerticalFlip, TurnsRowsUpsideDown) {
  EXPECT_THAT(Ints(ApplyTo(MakeFlip({.probability = 1, .vertical = true}, "flip"), Numbered(3, 2))),
              ElementsAre(21, 22, 11, 12, 1, 2));
}

}  // namespace
}  // namespace millrace::augment
