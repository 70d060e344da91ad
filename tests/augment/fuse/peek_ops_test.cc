#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "augment/image_ops.h"
#include "base/record_error.h"
#include "readers/image_header.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"

namespace millrace::augment {
namespace {

using ::testing::ElementsAre;
using testing::EncodeJpeg;
using testing::EncodePng;
using testing::MakeImage;
using testing::WithExif;

std::vector<int64_t> ShapeAt(const Run& run, int64_t row) {
  const auto shape = run.Get("image/shape").at(row).as<int64_t>();
  return {shape.begin(), shape.end()};
}

// S-IMAGE-6.
TEST(PeekImageShape, TellsTheShapeAndKeepsTheBytes) {
  const std::string jpeg = EncodeJpeg(MakeImage(20, 30, 3, 1));
  const std::vector<std::string> values = {
      jpeg,
      EncodeJpeg(MakeImage(5, 6, 1, 1)),
      EncodePng(3, 4, 4, 8, std::vector<uint8_t>(24)),
      WithExif(jpeg, 6),
      EncodeJpeg(MakeImage(8, 9, 4, 1), {.cmyk = true}),
      jpeg.substr(0, jpeg.find("\xFF\xDA") + 14),  // no pixel is needed
  };
  for (const bool upright : {false, true}) {
    testing::TestRun run(static_cast<int64_t>(values.size()));
    run.AddBytes("image/encoded", values);
    auto op = MakePeekImageShape({.apply_exif_orientation = upright});
    ASSERT_TRUE(op.ok());
    const Schema schema = testing::ResolveAndApply(**op, testing::EncodedSchema(), *run);
    EXPECT_TRUE(schema.Find("image/encoded") != nullptr);
    EXPECT_EQ(schema.Find("image/shape")->shape, Shape{3});
    EXPECT_THAT(ShapeAt(*run, 0), ElementsAre(20, 30, 3));
    EXPECT_THAT(ShapeAt(*run, 1), ElementsAre(5, 6, 1));
    EXPECT_THAT(ShapeAt(*run, 2), ElementsAre(3, 4, 2));
    EXPECT_THAT(ShapeAt(*run, 3), upright ? ElementsAre(30, 20, 3) : ElementsAre(20, 30, 3));
    EXPECT_THAT(ShapeAt(*run, 4), ElementsAre(8, 9, 4));
    EXPECT_THAT(ShapeAt(*run, 5), ElementsAre(20, 30, 3));
    EXPECT_EQ(run->Get("image/encoded").bytes(0), jpeg);
  }
}

TEST(PeekImageShape, ErrorsAreRowErrorsOfImages) {
  const std::vector<std::string> values = {"GIF89a",
                                           EncodeJpeg(MakeImage(9, 9, 3, 1)).substr(0, 30)};
  testing::TestRun run(2);
  run.AddBytes("image/encoded", values);
  auto op = MakePeekImageShape({});
  ASSERT_TRUE(op.ok());
  testing::ResolveAndApply(**op, testing::EncodedSchema(), *run);
  EXPECT_EQ(run->status(0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(run->status(1).code(), absl::StatusCode::kDataLoss);
  for (int row = 0; row < 2; ++row) {
    EXPECT_EQ(GetRecordError(run->status(row))->reason, RecordErrorReason::kImage);
  }
}

// S-IMAGE-2, S-IMAGE-6: bytes between the segments change neither the pixels nor the kind of JPEG.
TEST(PeekImageShape, BytesBetweenSegmentsHideNoKind) {
  const std::string jpeg = EncodeJpeg(MakeImage(16, 16, 3, 2));
  const size_t frame = jpeg.find("\xFF\xC0");
  std::string stray = jpeg;
  stray.insert(frame, "xy");
  std::string lossless = stray;
  lossless[frame + 3] = '\xC3';
  EXPECT_TRUE(readers::ReadImageHeader(stray).ok());
  EXPECT_EQ(testing::Decode(stray, {}).image.pixels, testing::Decode(jpeg, {}).image.pixels);
  testing::ExpectError(testing::Decode(stray, {.verify_full = true}), absl::StatusCode::kDataLoss,
                       "2 extraneous bytes");
  const absl::Status header = readers::ReadImageHeader(lossless).status();
  EXPECT_EQ(header.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(header);
  for (const bool truncated : {false, true}) {
    testing::ExpectError(testing::Decode(lossless, {.allow_truncated = truncated}),
                         absl::StatusCode::kInvalidArgument, "SOF type");
  }
}

TEST(PeekImageShape, OptionsAreChecked) {
  EXPECT_FALSE(MakePeekImageShape({.field = ""}).ok());
  EXPECT_FALSE(MakePeekImageShape({.field = "a", .output = "a"}).ok());
  auto op = MakePeekImageShape({.field = "x"});
  EXPECT_FALSE((*op)->Resolve(testing::EncodedSchema()).ok());
}

}  // namespace
}  // namespace millrace::augment
