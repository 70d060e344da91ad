#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "augment/image_ops.h"
#include "base/record_error.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"

namespace millrace::augment {
namespace {

using ::testing::ElementsAre;
using testing::OneField;
using testing::ResolveAndApply;
using testing::TestRun;

// --- cast ---

template <typename To, typename From>
std::vector<To> CastAll(DType from, const std::vector<From>& values, DType to, float scale = 1) {
  auto op = MakeCast({.field = "x", .dtype = to, .scale = scale});
  EXPECT_TRUE(op.ok());
  const Shape shape{static_cast<int64_t>(values.size())};
  TestRun run(1);
  run.AddValue("x", from, shape, values.data());
  ResolveAndApply(**op, OneField("x", from, shape), *run);
  const auto out = run->Get("x").at(0).template as<To>();
  return {out.begin(), out.end()};
}

TEST(Cast, FloatToIntegerRoundsToEvenAndSaturates) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 300, -300, nan, inf, -inf};
  EXPECT_THAT(CastAll<uint8_t>(DType::kF32, values, DType::kU8),
              ElementsAre(0, 2, 2, 0, 0, 255, 0, 0, 255, 0));
  EXPECT_THAT(CastAll<int32_t>(DType::kF32, values, DType::kI32),
              ElementsAre(0, 2, 2, 0, -2, 300, -300, 0, INT32_MAX, INT32_MIN));
  EXPECT_THAT(
      CastAll<int64_t>(DType::kF32, std::vector<float>{9.3e18f, -9.3e18f, 3.7f, inf}, DType::kI64),
      ElementsAre(INT64_MAX, INT64_MIN, 4, INT64_MAX));
}

TEST(Cast, IntegersSaturateExactly) {
  const std::vector<int64_t> values = {16777217, -5, INT64_MAX, 200};
  EXPECT_THAT(CastAll<int32_t>(DType::kI64, values, DType::kI32),
              ElementsAre(16777217, -5, INT32_MAX, 200));
  EXPECT_THAT(CastAll<uint8_t>(DType::kI64, values, DType::kU8), ElementsAre(255, 0, 255, 200));
  EXPECT_THAT(CastAll<double>(DType::kI64, values, DType::kF64)[0], 16777217.0);
}

TEST(Cast, ScaleMultipliesInFloat) {
  const std::vector<uint8_t> values = {0, 1, 255};
  EXPECT_THAT(CastAll<float>(DType::kU8, values, DType::kF32, 1.0f / 255),
              ElementsAre(0.0f, 1 * (1.0f / 255), 255 * (1.0f / 255)));
}

TEST(Cast, HalfTypesRoundToEven) {
  const float inf = std::numeric_limits<float>::infinity();
  // Known codes of IEEE binary16 and of bfloat16.
  EXPECT_THAT(CastAll<uint16_t>(
                  DType::kF32,
                  std::vector<float>{1, -2, 65504, 65519.99f, 65520, 0x1p-24f, 0x1p-25f, 0x1.8p-24f,
                                     0x1p-14f, 1 + 0x1p-11f, 1 + 0x1.8p-10f, inf, -0.0f},
                  DType::kF16),
              ElementsAre(0x3C00, 0xC000, 0x7BFF, 0x7BFF, 0x7C00, 0x0001, 0x0000, 0x0002, 0x0400,
                          0x3C00, 0x3C02, 0x7C00, 0x8000));
  EXPECT_THAT(CastAll<uint16_t>(DType::kF32,
                                std::vector<float>{1, 1 + 0x1p-8f, 1 + 0x1.8p-7f, -inf, 3.4e38f},
                                DType::kBF16),
              ElementsAre(0x3F80, 0x3F80, 0x3F82, 0xFF80, 0x7F80));
}

TEST(Cast, EveryHalfSurvivesTheWayThroughFloat) {
  std::vector<uint16_t> codes;
  for (uint32_t code = 0; code < 65536; ++code) {
    if ((code & 0x7C00) != 0x7C00 || (code & 0x3FF) == 0) codes.push_back(code);  // no NaN
  }
  const auto floats = CastAll<float>(DType::kF16, codes, DType::kF32);
  EXPECT_EQ(CastAll<uint16_t>(DType::kF32, floats, DType::kF16), codes);
}

TEST(Cast, BytesAreRefused) {
  EXPECT_FALSE(MakeCast({.field = "x", .dtype = DType::kBytes}).ok());
  auto op = MakeCast({.field = "x"});
  ASSERT_TRUE(op.ok());
  EXPECT_MESSAGE((*op)->Resolve(OneField("x", DType::kBytes, Shape{Shape::kUnknown})).status());
}

// --- one_hot ---

TEST(OneHot, SetsOneAndNamesALabelOutOfRange) {
  auto op = MakeOneHot({.depth = 3});
  ASSERT_TRUE(op.ok());
  const int64_t labels[] = {2, 3, -1, 0};
  TestRun run(4);
  Column& column = run->Add("label", DType::kI64);
  for (int64_t row = 0; row < 4; ++row) column.Set(row, &labels[row], Shape{});
  const Schema out = ResolveAndApply(**op, OneField("label", DType::kI64, Shape{}), *run);
  EXPECT_EQ(out.ToString(), "label: float32[3]");
  const auto values = run->Get("label").at(0).as<float>();
  EXPECT_THAT(std::vector<float>(values.begin(), values.end()), ElementsAre(0, 0, 1));
  EXPECT_MESSAGE(run->status(1));
  EXPECT_MESSAGE(run->status(2));
  EXPECT_EQ(GetRecordError(run->status(1))->reason, RecordErrorReason::kValue);
  EXPECT_TRUE(run->ok(3));
}

TEST(OneHot, OtherTypesAndDepthsAreRefused) {
  EXPECT_FALSE(MakeOneHot({.depth = 0}).ok());
  auto op = MakeOneHot({.depth = 3});
  ASSERT_TRUE(op.ok());
  EXPECT_MESSAGE((*op)->Resolve(OneField("label", DType::kF32, Shape{})).status());
  EXPECT_FALSE((*op)->Resolve(OneField("label", DType::kI64, Shape{2})).ok());
}

// --- label_smoothing ---

TEST(LabelSmoothing, KeepsTheSumAndNamesOtherFields) {
  auto op = MakeLabelSmoothing({.field = "label", .smoothing = 0.25f});
  ASSERT_TRUE(op.ok());
  const float label[] = {0, 1, 0, 0};
  TestRun run(1);
  run.AddValue("label", DType::kF32, Shape{4}, label);
  ResolveAndApply(**op, OneField("label", DType::kF32, Shape{4}), *run);
  const auto values = run->Get("label").at(0).as<float>();
  EXPECT_THAT(std::vector<float>(values.begin(), values.end()),
              ElementsAre(0.0625f, 0.8125f, 0.0625f, 0.0625f));
  EXPECT_MESSAGE((*op)->Resolve(OneField("label", DType::kI64, Shape{})).status());
  EXPECT_FALSE(MakeLabelSmoothing({.smoothing = -0.1f}).ok());
  EXPECT_FALSE(MakeLabelSmoothing({.smoothing = 1.1f}).ok());
}

}  // namespace
}  // namespace millrace::augment
