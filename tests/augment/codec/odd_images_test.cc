#include "tests/odd_images.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>

#include "augment/image_recoder.h"
#include "readers/exif.h"
#include "readers/image_header.h"
#include "tests/augment/image_testing.h"
#include "tests/augment/jpeg/jpeg_testing.h"

// Images that are odd and not damaged, as Pillow has them; and how a conversion keeps or applies
// their orientation.

namespace millrace::augment {
namespace {

using testing::DecodeResult;
using testing::Image;

PillowImage SumsOf(const Image& image) {
  const std::vector<uint8_t>& pixels = image.pixels;
  return {image.width, image.height,
          static_cast<uint32_t>(crc32(0, pixels.data(), static_cast<uInt>(pixels.size())))};
}

PillowImage PillowOf(std::string_view encoded, DecodeImageOptions options) {
  const DecodeResult result = testing::Decode(std::string(encoded), options);
  EXPECT_TRUE(result.status.ok()) << result.status;
  return SumsOf(result.image);
}

// Files that libjpeg-turbo warns of.
bool IsWarnedOf(std::string_view name) {
  return name.starts_with("se0") || name.starts_with("jfif2") || name.starts_with("adobe9") ||
         name.starts_with("junk");
}

// S-IMAGE-1, S-IMAGE-2.
TEST(OddImages, HavePillowsPixels) {
  for (const OddImage& odd : ReadOddImages().images) {
    SCOPED_TRACE(odd.name);
    EXPECT_EQ(PillowOf(odd.encoded, {}), odd.stored);
    EXPECT_EQ(PillowOf(odd.encoded, {.allow_truncated = true}), odd.stored);
    EXPECT_EQ(PillowOf(odd.encoded, {.apply_exif_orientation = true}), odd.upright);
    const auto header = readers::ReadImageHeader(odd.encoded);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->width, odd.stored.width);
    EXPECT_EQ(readers::SwapsSides(header->orientation), odd.upright.width != odd.stored.width);
  }
}

// S-IMAGE-2: what libjpeg-turbo warns of is refused where the whole file has to be good.
TEST(OddImages, VerifyFullRefusesWhatIsWarnedOf) {
  for (const OddImage& odd : ReadOddImages().images) {
    const absl::Status status = testing::Decode(odd.encoded, {.verify_full = true}).status;
    EXPECT_EQ(status.code(),
              IsWarnedOf(odd.name) ? absl::StatusCode::kDataLoss : absl::StatusCode::kOk)
        << odd.name << ": " << status;
  }
}

TEST(OddImages, BothJpegDecodersTakeThemToTheSameBits) {
  std::mt19937 random(1);
  int taken = 0;
  for (const OddImage& odd : ReadOddImages().images) {
    if (!odd.name.ends_with(".jpg")) continue;
    SCOPED_TRACE(odd.name);
    jpeg::RegionDecoder decoder;
    const bool is_progressive = odd.name.find("progressive") != std::string::npos;
    ASSERT_EQ(decoder.Open(odd.encoded), !is_progressive);
    if (is_progressive) continue;
    ++taken;
    const Region all{0, 0, odd.stored.height, odd.stored.width};
    for (const int channels : {1, 3}) {
      EXPECT_EQ(testing::Compare(odd.encoded, all, channels, decoder), testing::Agreement::kEqual);
      const Region part = testing::RandomRegion(random, all.height, all.width);
      EXPECT_EQ(testing::Compare(odd.encoded, part, channels, decoder), testing::Agreement::kEqual);
    }
  }
  EXPECT_EQ(taken, 17);
}

// Behind a scan, bytes in front of a marker may be what is left of codes that were misread.
TEST(OddImages, JunkBehindTheFirstScanIsDamage) {
  std::string jpeg =
      testing::EncodeJpeg(testing::MakeImage(40, 50, 3, 1), {.separate_scans = true});
  const size_t second = jpeg.find("\xFF\xDA", jpeg.find("\xFF\xDA") + 2);
  ASSERT_NE(second, std::string::npos);
  ASSERT_TRUE(testing::Decode(jpeg, {}).status.ok());
  jpeg.insert(second, "junk");
  testing::ExpectError(testing::Decode(jpeg, {}), absl::StatusCode::kDataLoss, "extraneous");
}

// A palette that is too long in other ways stays damage, and so does one with a wrong checksum.
TEST(OddImages, OtherPalettesAreDamage) {
  for (const OddImage& odd : ReadOddImages().images) {
    if (!odd.name.starts_with("long_palette")) continue;
    std::string changed = odd.encoded;
    const size_t palette = changed.find("PLTE") + 4;
    changed[palette + 700] ^= 1;  // of a colour that no pixel has
    testing::ExpectError(testing::Decode(changed, {}), absl::StatusCode::kDataLoss, "PNG");
  }
}

std::shared_ptr<const readers::ImageCodec> OddRecoder(const ImageRecoderOptions& options) {
  const auto recoder = MakeImageRecoder(options);
  EXPECT_TRUE(recoder.ok()) << recoder.status();
  return *recoder;
}

std::optional<readers::RecodedImage> OddRecoded(const OddImage& odd,
                                                const ImageRecoderOptions& options) {
  auto recoded = OddRecoder(options)->Recode(odd.encoded);
  EXPECT_TRUE(recoded.ok()) << recoded.status();
  return recoded.ok() ? *std::move(recoded) : std::nullopt;
}

bool IsTurned(const OddImage& odd) { return !(odd.stored == odd.upright); }

// S-CONVERT-1. Without loss, so that Pillow's pixels come back: as they are stored, and upright.
TEST(RecodedOrientation, IsKeptInAPng) {
  for (const OddImage& odd : ReadOddImages().images) {
    SCOPED_TRACE(odd.name);
    const auto png = OddRecoded(odd, {.encoding = ImageEncoding::kStored});
    ASSERT_TRUE(png.has_value());
    if (odd.name.ends_with("grey.jpg")) continue;  // its pixels have one channel, as below
    EXPECT_EQ(PillowOf(png->encoded, {}), odd.stored);
    EXPECT_EQ(PillowOf(png->encoded, {.apply_exif_orientation = true}), odd.upright);
    EXPECT_EQ(png->height, odd.stored.height);
  }
}

// The same bytes that Pillow writes.
TEST(RecodedOrientation, IsSaidAsPillowSaysIt) {
  const OddImages all = ReadOddImages();
  int turned = 0;
  for (const OddImage& odd : all.images) {
    SCOPED_TRACE(odd.name);
    const int orientation = readers::ReadOrientation(odd.encoded);
    const auto jpeg = OddRecoded(odd, {.max_resolution = 20, .encoding = ImageEncoding::kJpeg});
    const auto png = OddRecoded(odd, {.max_resolution = 20, .encoding = ImageEncoding::kStored});
    ASSERT_TRUE(jpeg.has_value() && png.has_value());
    EXPECT_EQ(readers::ReadOrientation(jpeg->encoded), orientation);
    EXPECT_EQ(readers::ReadOrientation(png->encoded), orientation);
    EXPECT_EQ(IsTurned(odd), orientation != 1);
    if (!IsTurned(odd)) {
      EXPECT_EQ(jpeg->encoded.find("Exif"), std::string::npos);
      continue;
    }
    ++turned;
    const std::string& exif = all.exif.at(orientation);
    EXPECT_NE(jpeg->encoded.find(exif), std::string::npos);
    EXPECT_NE(png->encoded.find("eXIf" + exif.substr(readers::kExifHeader.size())),
              std::string::npos);
  }
  EXPECT_EQ(turned, 12);
}

// S-CONVERT-1.
TEST(RecodedOrientation, OfRawPixelsIsApplied) {
  for (const OddImage& odd : ReadOddImages().images) {
    SCOPED_TRACE(odd.name);
    const auto raw = OddRecoded(odd, {.encoding = ImageEncoding::kRaw});
    ASSERT_TRUE(raw.has_value());
    EXPECT_EQ(raw->height, odd.upright.height);
    EXPECT_EQ(raw->width, odd.upright.width);
    std::vector<uint8_t> pixels;
    const bool is_grey = raw->encoded.size() == static_cast<size_t>(raw->height * raw->width);
    for (const char value : raw->encoded) pixels.insert(pixels.end(), is_grey ? 3 : 1, value);
    EXPECT_EQ(SumsOf({raw->height, raw->width, 3, pixels}), odd.upright);
    const auto grey = OddRecoder({})->DecodeGrey(odd.encoded);
    ASSERT_EQ(grey.ok(), is_grey) << grey.status();
    if (!is_grey) continue;
    EXPECT_EQ(grey->pixels, raw->encoded);
    EXPECT_EQ(grey->height, odd.upright.height);
  }
}

// S-CONVERT-1.
TEST(RecodedOrientation, IsAppliedToAllWhereAskedFor) {
  for (const OddImage& odd : ReadOddImages().images) {
    SCOPED_TRACE(odd.name);
    // An image that stands upright stays as it is, byte for byte.
    const auto same = OddRecoded(odd, {.upright = true});
    ASSERT_EQ(same.has_value(), IsTurned(odd));
    if (same.has_value()) {
      EXPECT_EQ(same->format, odd.name.ends_with(".png") ? "png" : "jpeg");
      EXPECT_EQ(same->height, odd.upright.height);
      EXPECT_EQ(readers::ReadOrientation(same->encoded), 1);
    }
    const auto png = OddRecoded(odd, {.upright = true, .encoding = ImageEncoding::kStored});
    ASSERT_TRUE(png.has_value());
    for (const bool apply : {false, true}) {
      const DecodeResult pixels = testing::Decode(png->encoded, {.apply_exif_orientation = apply});
      EXPECT_EQ(SumsOf(pixels.image), odd.upright);
    }
  }
}

// S-CONVERT-1.
TEST(RecodedOrientation, TheLimitedSideIsThatOfTheImageAsItIsWritten) {
  for (const OddImage& odd : ReadOddImages().images) {
    for (const bool upright : {false, true}) {
      const auto small = OddRecoded(
          odd, {.max_resolution = 20, .upright = upright, .encoding = ImageEncoding::kJpeg});
      ASSERT_TRUE(small.has_value()) << odd.name;
      const bool is_wide = upright ? odd.upright.width == 37 : true;
      EXPECT_EQ(small->width, is_wide ? 20 : 14) << odd.name;
      EXPECT_EQ(small->height, is_wide ? 14 : 20) << odd.name;
    }
  }
}

// A conversion that was killed goes on only with the same.
TEST(RecodedOrientation, IsPartOfWhatARecodingIs) {
  EXPECT_EQ(OddRecoder({})->recoding(), "");
  EXPECT_NE(OddRecoder({.upright = true})->recoding(), "");
  EXPECT_NE(OddRecoder({.max_resolution = 5, .upright = true})->recoding(),
            OddRecoder({.max_resolution = 5})->recoding());
}

}  // namespace
}  // namespace millrace::augment
