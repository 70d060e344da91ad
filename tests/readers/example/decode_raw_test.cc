#include "readers/decode_raw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/record_error.h"
#include "tests/messages.h"

namespace millrace::readers {
namespace {

using testing::ElementsAre;

DecodeRawOptions Options(DType dtype, Shape shape, std::string output = "") {
  DecodeRawOptions options;
  options.dtype = dtype;
  options.shape = shape;
  options.output = std::move(output);
  return options;
}

class DecodeRawTest : public testing::Test {
 protected:
  // Each value lies `shift` bytes behind an aligned address.
  void Decode(DecodeRawOptions options, const std::vector<std::string>& values, size_t shift = 0) {
    auto op = MakeDecodeRaw(std::move(options));
    ASSERT_TRUE(op.ok()) << op.status();
    const auto schema = (*op)->Resolve(Schema({{"record", DType::kBytes, {Shape::kUnknown}}}));
    ASSERT_TRUE(schema.ok()) << schema.status();
    schema_ = schema->ToString();
    run_.emplace(arena_, 1, 100, std::vector<SampleId>(values.size()));
    Column& column = run_->Add("record", DType::kBytes);
    for (size_t i = 0; i < values.size(); ++i) {
      std::byte* memory = arena_.Allocate(values[i].size() + shift) + shift;
      std::memcpy(memory, values[i].data(), values[i].size());
      places_.push_back(memory);
      column.Set(static_cast<int64_t>(i), memory, {static_cast<int64_t>(values[i].size())});
    }
    run_->Bind(slots_);
    (*op)->Apply(*run_);
  }
  ConstTensorView At(std::string_view name, int64_t row) const { return run_->Get(name).at(row); }

  RunArena arena_;
  std::vector<const std::byte*> places_;
  std::vector<FieldSlots> slots_;
  std::string schema_;
  std::optional<millrace::Run> run_;
};

TEST_F(DecodeRawTest, BytesBecomeLittleEndianNumbersInPlace) {
  Decode(Options(DType::kI32, {3}, "ids"),
         {std::string("\x01\x00\x00\x00\xFE\xFF\xFF\xFF\x00\x00\x01\x00", 12)});
  EXPECT_EQ(schema_, "ids: int32[3]");
  EXPECT_EQ(run_->Find("record"), nullptr);
  const auto values = At("ids", 0).as<int32_t>();
  EXPECT_THAT(std::vector<int32_t>(values.begin(), values.end()), ElementsAre(1, -2, 65536));
  EXPECT_EQ(At("ids", 0).data, places_[0]);
}

TEST_F(DecodeRawTest, TheFieldItselfIsReplacedWithoutAnOutput) {
  Decode(Options(DType::kU8, {2, 1}), {"ab"}, /*shift=*/3);
  EXPECT_EQ(schema_, "record: uint8[2, 1]");
  EXPECT_EQ(At("record", 0).dtype, DType::kU8);
  EXPECT_EQ(At("record", 0).shape, (Shape{2, 1}));
  EXPECT_EQ(At("record", 0).data, places_[0]);  // a byte may lie anywhere
}

TEST_F(DecodeRawTest, UnalignedNumbersAreCopiedIntoTheSlabWhenBound) {
  const double value = 2.5;
  alignas(64) double slab = 0;
  slots_ = {{"x", DType::kF64, {}, reinterpret_cast<std::byte*>(&slab)}};
  Decode(Options(DType::kF64, {}, "x"), {std::string(reinterpret_cast<const char*>(&value), 8)},
         /*shift=*/1);
  EXPECT_EQ(At("x", 0).data, &slab);
  EXPECT_EQ(slab, 2.5);
}

TEST_F(DecodeRawTest, AnUnknownFirstExtentIsWhatTheBytesHold) {
  Decode(Options(DType::kU8, {Shape::kUnknown, 3}, "rgb"), {"abcdef", "", "abc"});
  EXPECT_EQ(At("rgb", 0).shape, (Shape{2, 3}));
  EXPECT_EQ(At("rgb", 1).shape, (Shape{0, 3}));
  EXPECT_NE(At("rgb", 1).data, nullptr);
  EXPECT_EQ(At("rgb", 2).shape, (Shape{1, 3}));
}

TEST_F(DecodeRawTest, OtherLengthsAreRowErrorsThatSayBoth) {
  Decode(Options(DType::kF32, {5, 5}, "x"), {std::string(101, 'a'), std::string(100, 'a')});
  EXPECT_TRUE(run_->ok(1));
  EXPECT_EQ(run_->status(0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(run_->status(0));
  EXPECT_EQ(GetRecordError(run_->status(0))->reason, RecordErrorReason::kFeature);
  EXPECT_EQ(GetRecordError(run_->status(0))->position, 100);
}

TEST_F(DecodeRawTest, BytesThatDoNotFillARowAreAnError) {
  Decode(Options(DType::kF32, {Shape::kUnknown, 3}, "x"), {"0123456789"});
  EXPECT_MESSAGE(run_->status(0));
}

TEST(MakeDecodeRaw, RefusesOptionsThatCannotWork) {
  const auto error = [](DType dtype, Shape shape) {
    return MakeDecodeRaw(Options(dtype, shape)).status();
  };
  EXPECT_MESSAGE(error(DType::kBytes, {}));
  EXPECT_MESSAGE(error(DType::kU8, {2, Shape::kUnknown}));
  EXPECT_MESSAGE(error(DType::kU8, {-2}));
  EXPECT_MESSAGE(error(DType::kU8, {Shape::kUnknown, 0}));
  EXPECT_MESSAGE(error(DType::kU8, {1 << 30, 1 << 30, 1 << 30}));
}

TEST(DecodeRawResolve, WantsABytesField) {
  auto op = MakeDecodeRaw(Options(DType::kU8, {3}));
  EXPECT_EQ((*op)->Resolve(Schema()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_MESSAGE((*op)->Resolve(Schema({{"record", DType::kU8, {3}}})).status());
}

}  // namespace
}  // namespace millrace::readers
