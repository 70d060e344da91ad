// Shape, DType, Schema and TensorView.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/schema.h"
#include "base/shape.h"
#include "base/tensor.h"
#include "tests/messages.h"

namespace millrace {
namespace {

TEST(Shape, AScalarHasOneElement) {
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ(Shape().ToString(), "[]");
  EXPECT_EQ(Shape(), Shape{});
}

TEST(Shape, CountsElements) {
  EXPECT_EQ((Shape{4, 5, 3}).num_elements(), 60);
  EXPECT_EQ((Shape{4, 0, 3}).num_elements(), 0);
}

TEST(Shape, ComparesRankAndExtents) {
  EXPECT_NE((Shape{0}), Shape());
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_EQ(Shape(std::vector<int64_t>{2, 3}), (Shape{2, 3}));
}

TEST(Shape, AdmitsWhatItsUnknownExtentsLeaveOpen) {
  const Shape image{Shape::kUnknown, Shape::kUnknown, 3};
  EXPECT_FALSE(image.IsKnown());
  EXPECT_TRUE(image.Admits(Shape{480, 640, 3}));
  EXPECT_FALSE(image.Admits(Shape{480, 640, 1}));
  EXPECT_FALSE(image.Admits(Shape{480, 640}));
  EXPECT_TRUE((Shape{2}).Admits(Shape{2}));
  EXPECT_TRUE((Shape{2}).IsKnown());
}

TEST(Shape, PrependPutsTheBatchFirst) {
  EXPECT_EQ((Shape{28, 28}).Prepend(64), (Shape{64, 28, 28}));
  EXPECT_EQ((Shape{1, 2, 3, 4, 5}).Prepend(0).rank(), Shape::kMaxRank);
}

TEST(Shape, UnknownExtentsPrintAsQuestionMarks) {
  EXPECT_EQ((Shape{64, Shape::kUnknown, 3}).ToString(), "[64, ?, 3]");
}

TEST(DType, EveryTypeHasANameOfItsOwn) {
  const std::vector<std::string_view> names = {"bytes",   "uint8",    "int32",   "int64",
                                               "float16", "bfloat16", "float32", "float64"};
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(Name(static_cast<DType>(i)), names[i]);
}

// They are hashed into digests and written to files.
TEST(DType, NumbersAndSizesAreStable) {
  EXPECT_EQ(static_cast<int>(DType::kBytes), 0);
  EXPECT_EQ(static_cast<int>(DType::kBF16), 5);
  EXPECT_EQ(static_cast<int>(DType::kF64), 7);
  EXPECT_EQ(SizeOf(DType::kBytes), 1u);
  EXPECT_EQ(SizeOf(DType::kU8), sizeof(uint8_t));
  EXPECT_EQ(SizeOf(DType::kI32), sizeof(int32_t));
  EXPECT_EQ(SizeOf(DType::kI64), sizeof(int64_t));
  EXPECT_EQ(SizeOf(DType::kF16), 2u);
  EXPECT_EQ(SizeOf(DType::kBF16), 2u);
  EXPECT_EQ(SizeOf(DType::kF32), sizeof(float));
  EXPECT_EQ(SizeOf(DType::kF64), sizeof(double));
}

TEST(Schema, SetReplacesInPlaceAndAppends) {
  Schema schema({{"image", DType::kU8, {Shape::kUnknown, Shape::kUnknown, 3}}});
  schema.Set({"label", DType::kI64, {}});
  schema.Set({"image", DType::kF32, {224, 224, 3}});
  EXPECT_EQ(schema.ToString(), "image: float32[224, 224, 3], label: int64[]");
  schema.Remove("image");
  schema.Remove("no such field");
  EXPECT_EQ(schema.ToString(), "label: int64[]");
}

TEST(Schema, AMissingFieldIsNamedBesideThoseThatExist) {
  const Schema schema({{"image", DType::kU8, {28, 28, 1}}});
  EXPECT_TRUE(schema.CheckHas("image").ok());
  ASSERT_NE(schema.Find("image"), nullptr);
  EXPECT_EQ(schema.Find("label"), nullptr);
  const absl::Status status = schema.CheckHas("label");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_MESSAGE(status);
  EXPECT_MESSAGE(Schema().CheckHas("x"));
  EXPECT_MESSAGE(schema.CheckHas("imagee"));
}

TEST(TensorView, SpansItsElements) {
  std::vector<float> memory = {1, 2, 3, 4, 5, 6};
  const TensorView view{memory.data(), DType::kF32, Shape{2, 3}};
  EXPECT_EQ(view.size_bytes(), 24u);
  view.as<float>()[5] = 60;
  const ConstTensorView read_only = view;
  EXPECT_EQ(read_only.as<float>().back(), 60);
  EXPECT_EQ(read_only.size_bytes(), 24u);
}

}  // namespace
}  // namespace millrace
