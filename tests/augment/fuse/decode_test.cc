#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "augment/image_ops.h"
#include "base/record_error.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"

namespace millrace::augment {
namespace {

using testing::DecodeResult;
using testing::Djpeg;
using testing::EncodeJpeg;
using testing::EncodePng;
using testing::Image;
using testing::JpegShape;
using testing::MakeImage;

void ExpectAsDjpeg(const std::string& jpeg, int channels) {
  const std::optional<Image> expected = Djpeg(jpeg, channels);
  if (!expected.has_value()) GTEST_SKIP() << "djpeg is not installed";
  const DecodeResult got = testing::Decode(jpeg, {.channels = channels});
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.image, *expected);
}

struct NamedShape {
  const char* name;
  JpegShape shape;
};

class JpegSampling : public ::testing::TestWithParam<NamedShape> {};

TEST_P(JpegSampling, PixelsAreDjpegs) {
  for (const auto& [height, width] : {std::pair(1, 1), {17, 33}, {64, 48}, {101, 67}}) {
    const std::string jpeg = EncodeJpeg(MakeImage(height, width, 3, 7), GetParam().shape);
    ExpectAsDjpeg(jpeg, 3);
    ExpectAsDjpeg(jpeg, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(All, JpegSampling,
                         ::testing::Values(NamedShape{"s444", {1, 1}}, NamedShape{"s420", {2, 2}},
                                           NamedShape{"s422", {2, 1}}, NamedShape{"s440", {1, 2}},
                                           NamedShape{"s411", {4, 1}},
                                           NamedShape{"progressive", {2, 2, true}},
                                           NamedShape{"restarts", {2, 2, false, 1}}),
                         [](const auto& test) { return test.param.name; });

TEST(DecodeJpeg, GreyPixelsAreDjpegs) {
  const std::string jpeg = EncodeJpeg(MakeImage(31, 45, 1, 3));
  ExpectAsDjpeg(jpeg, 1);
  ExpectAsDjpeg(jpeg, 3);
}

TEST(DecodeJpeg, AdobeCmykBecomesRgb) {
  // Flat inks survive the transform: 255 means none of it.
  Image inks{16, 16, 4, {}};
  for (int i = 0; i < 256; ++i) inks.pixels.insert(inks.pixels.end(), {200, 100, 50, 128});
  const std::string jpeg = EncodeJpeg(inks, {.cmyk = true, .quality = 100});
  const DecodeResult got = testing::Decode(jpeg, {});
  ASSERT_TRUE(got.status.ok()) << got.status;
  ASSERT_EQ(got.image.channels, 3);
  for (size_t i = 0; i < got.image.pixels.size(); i += 3) {
    EXPECT_NEAR(got.image.pixels[i], 200 * 128 / 255, 2);
    EXPECT_NEAR(got.image.pixels[i + 1], 100 * 128 / 255, 2);
    EXPECT_NEAR(got.image.pixels[i + 2], 50 * 128 / 255, 2);
  }
}

// Cuts the scans behind the first, whose header and data end where the next marker stands.
std::string KeepFirstScan(const std::string& jpeg) {
  size_t at = jpeg.find("\xFF\xDA");
  for (at += 2; at + 1 < jpeg.size(); ++at) {
    const auto next = static_cast<uint8_t>(jpeg[at + 1]);
    if (jpeg[at] == '\xFF' && next != 0 && next != 0xFF) break;
  }
  return jpeg.substr(0, at) + "\xFF\xD9";
}

TEST(DecodeJpeg, AComponentWithoutAScanIsAnErrorNotGrey) {
  const Image image = MakeImage(32, 32, 3, 1);
  const DecodeResult result =
      testing::Decode(KeepFirstScan(EncodeJpeg(image, {.separate_scans = true})), {});
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_MESSAGE(result.status);
  EXPECT_TRUE(testing::Decode(EncodeJpeg(image, {.separate_scans = true}), {}).status.ok());
}

TEST(DecodePng, EveryColourTypeFollowsTheRules) {
  const std::vector<uint8_t> rgb = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  EXPECT_EQ(testing::Decode(EncodePng(2, 2, 2, 8, rgb), {}).image.pixels, rgb);
  // Alpha is dropped, without being multiplied in.
  EXPECT_EQ(testing::Decode(EncodePng(1, 2, 6, 8, {9, 8, 7, 0, 6, 5, 4, 128}), {}).image.pixels,
            (std::vector<uint8_t>{9, 8, 7, 6, 5, 4}));
  EXPECT_EQ(testing::Decode(EncodePng(1, 2, 4, 8, {9, 0, 6, 128}), {}).image.pixels,
            (std::vector<uint8_t>{9, 9, 9, 6, 6, 6}));
  // 16-bit samples keep the high byte.
  EXPECT_EQ(testing::Decode(EncodePng(1, 1, 2, 16, {1, 255, 2, 128, 3, 0}), {}).image.pixels,
            (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(testing::Decode(EncodePng(1, 1, 0, 16, {200, 255}), {.channels = 1}).image.pixels,
            (std::vector<uint8_t>{200}));
  EXPECT_EQ(testing::Decode(EncodePng(1, 2, 3, 8, {10, 250}), {}).image.pixels,
            (std::vector<uint8_t>{10, 245, 5, 250, 5, 125}));
  // One bit of grey is black or white.
  EXPECT_EQ(testing::Decode(EncodePng(1, 3, 0, 1, {0b01000000}), {.channels = 1}).image.pixels,
            (std::vector<uint8_t>{0, 255, 0}));
  EXPECT_EQ(testing::Decode(EncodePng(1, 1, 2, 8, {100, 200, 50}), {.channels = 1}).image.pixels,
            (std::vector<uint8_t>{(19595 * 100 + 38470 * 200 + 7471 * 50 + 32768) >> 16}));
}

TEST(DecodePng, InterlacedIsTheSameImage) {
  const Image image = MakeImage(13, 21, 3, 5);
  EXPECT_EQ(testing::Decode(EncodePng(13, 21, 2, 8, image.pixels, true), {}).image, image);
}

// --- hostile inputs ---

// DATA_LOSS, or INVALID_ARGUMENT where no byte need be damaged.
void ExpectImageError(const DecodeResult& result,
                      absl::StatusCode code = absl::StatusCode::kDataLoss) {
  ASSERT_EQ(result.status.code(), code) << result.status;
  const auto error = GetRecordError(result.status);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->reason, RecordErrorReason::kImage);
}

void ExpectSomeImageError(const DecodeResult& result) {
  const bool refused = result.status.code() == absl::StatusCode::kInvalidArgument;
  ExpectImageError(result,
                   refused ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kDataLoss);
}

std::vector<std::string> SmallImages() {
  const Image image = MakeImage(40, 24, 3, 9);
  return {EncodeJpeg(image, {2, 2}), EncodeJpeg(image, {.progressive = true}),
          EncodePng(40, 24, 2, 8, image.pixels), EncodePng(40, 24, 2, 8, image.pixels, true)};
}

TEST(Hostile, EveryTruncationIsAnErrorOrTheWholeImage) {
  for (const std::string& encoded : SmallImages()) {
    const Image whole = testing::Decode(encoded, {}).image;
    for (size_t size = 0; size < encoded.size(); ++size) {
      const DecodeResult result = testing::Decode(encoded.substr(0, size), {});
      if (result.status.ok()) {
        EXPECT_EQ(result.image, whole) << "cut to " << size << " of " << encoded.size();
        EXPECT_GT(size + 32, encoded.size());
      } else {
        ExpectSomeImageError(result);
      }
    }
  }
}

// All pixels of a small image are there before its checksum is read.
TEST(DecodePng, AFlippedBitAnywhereIsAnError) {
  const std::string png = EncodePng(3, 2, 2, 8, MakeImage(3, 2, 3, 9).pixels);
  for (size_t bit = 0; bit < png.size() * 8; ++bit) {
    std::string damaged = png;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_FALSE(testing::Decode(damaged, {.max_pixels = 1 << 16}).status.ok()) << bit;
  }
}

TEST(Hostile, FlippedBytesNeverCrash) {
  std::mt19937 random(11);
  for (const std::string& encoded : SmallImages()) {
    for (int i = 0; i < 600; ++i) {
      std::string damaged = encoded;
      for (uint32_t n = 0; n <= i % 4u; ++n) {
        damaged[random() % damaged.size()] = static_cast<char>(random());
      }
      const DecodeResult full = testing::Decode(damaged, {.max_pixels = 1 << 16});
      if (!full.status.ok()) ExpectSomeImageError(full);
      const DecodeResult region = testing::DecodeCrop(damaged, {.max_pixels = 1 << 16}, {}, i);
      if (!region.status.ok()) ExpectSomeImageError(region);
    }
  }
}

TEST(Hostile, AbsurdSizesAreErrorsBeforeAllocation) {
  std::string jpeg = EncodeJpeg(MakeImage(16, 16, 3, 2));
  const size_t frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  for (size_t i = 5; i < 9; ++i) jpeg[frame + i] = '\xFD';
  // 65,021 x 65,021
  ExpectImageError(testing::Decode(jpeg, {}), absl::StatusCode::kInvalidArgument);
  const DecodeResult few = testing::Decode(jpeg, {.max_pixels = int64_t{1} << 40});
  ExpectImageError(few);
  EXPECT_MESSAGE(few.status);

  const std::string big(1 << 16, '\0');  // 512 kpixel of zeros deflate to a few hundred bytes
  const std::string png =
      EncodePng(1 << 9, 1 << 10, 0, 1, std::vector<uint8_t>(big.begin(), big.end()));
  EXPECT_TRUE(testing::Decode(png, {}).status.ok());
  const DecodeResult over = testing::Decode(png, {.max_pixels = (1 << 19) - 1});
  ExpectImageError(over, absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(over.status);
}

TEST(Hostile, OtherBytesAreNamedAsSuch) {
  for (const std::string& bytes : {std::string(), std::string("GIF89a"), std::string(100, 'x')}) {
    const DecodeResult result = testing::Decode(bytes, {});
    ExpectImageError(result, absl::StatusCode::kInvalidArgument);
    EXPECT_MESSAGE(result.status);
  }
}

TEST(Hostile, ABadRowLeavesTheOthersAlone) {
  const Image image = MakeImage(8, 8, 3, 1);
  const std::vector<std::string> encoded = {EncodePng(8, 8, 2, 8, image.pixels), "junk",
                                            EncodePng(8, 8, 2, 8, image.pixels)};
  testing::TestRun run(3);
  run.AddBytes("image/encoded", encoded);
  auto op = MakeDecodeImage({});
  ASSERT_TRUE(op.ok());
  testing::ResolveAndApply(**op, testing::EncodedSchema(), *run);
  EXPECT_TRUE(run->ok(0));
  EXPECT_FALSE(run->ok(1));
  EXPECT_TRUE(run->ok(2));
  EXPECT_EQ(run.ImageAt("image", 2), image);
  EXPECT_EQ(run->Find("image/encoded"), nullptr);
}

}  // namespace
}  // namespace millrace::augment
