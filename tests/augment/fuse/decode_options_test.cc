#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "augment/codec/decoder.h"
#include "tests/augment/image_testing.h"

// Options of decode_image: verdicts, and the inexact ways to decode a JPEG.

namespace millrace::augment {
namespace {

using testing::Crop;
using testing::DecodeResult;
using testing::Djpeg;
using testing::EncodeJpeg;
using testing::EncodePng;
using testing::ExpectError;
using testing::Image;
using testing::JpegShape;
using testing::MakeImage;

// Every pixel of `region`, or of the image at 1/denominator.
Image DecodeDense(const std::string& encoded, const DecodeImageOptions& options,
                  const Region& region, int denominator = 1) {
  RunArena arena;
  auto decoder = OpenImage(encoded, options);
  EXPECT_TRUE(decoder.ok()) << decoder.status();
  Region scaled = region;
  const auto pixels = denominator == 1 ? (*decoder)->DecodeRegion(region, options.channels, arena)
                                       : (*decoder)->DecodeScaled(region, denominator,
                                                                  options.channels, arena, &scaled);
  EXPECT_TRUE(pixels.ok()) << pixels.status();
  Image image{scaled.height, scaled.width, options.channels, {}};
  for (int64_t y = 0; y < scaled.height; ++y) {
    const uint8_t* row = pixels->data + y * pixels->stride;
    image.pixels.insert(image.pixels.end(), row, row + scaled.width * options.channels);
  }
  return image;
}

struct NamedShape {
  const char* name;
  JpegShape shape;
};
const NamedShape kShapes[] = {{"s444", {1, 1}},
                              {"s420", {2, 2}},
                              {"s422", {2, 1}},
                              {"s440", {1, 2}},
                              {"progressive", {2, 2, true}},
                              {"restarts", {2, 1, false, 1}},
                              {"s411", {4, 1}},
                              {"s42", {4, 2}},
                              {"s24", {2, 4}}};

class InexactJpeg : public ::testing::TestWithParam<NamedShape> {};

// S-IMAGE-5.
TEST_P(InexactJpeg, PixelsAreDjpegsOfTheSameOptions) {
  const std::string jpeg = EncodeJpeg(MakeImage(101, 67, 3, 7), GetParam().shape);
  const std::pair<DecodeImageOptions, const char*> kinds[] = {
      {{.fast_dct = true}, "-dct fast"},
      {{.fancy_upsampling = false}, "-nosmooth"},
      {{.fast_dct = true, .fancy_upsampling = false}, "-dct fast -nosmooth"}};
  for (const auto& [options, words] : kinds) {
    const auto expected = Djpeg(jpeg, 3, words);
    if (!expected.has_value()) GTEST_SKIP() << "djpeg is not installed";
    EXPECT_EQ(testing::Decode(jpeg, options).image, *expected) << words;
  }
}

// S-ROUND-2.
TEST_P(InexactJpeg, CropsAreThoseOfTheWholeImage) {
  std::mt19937 random(3);
  for (const DecodeImageOptions& options :
       {DecodeImageOptions{.fast_dct = true}, DecodeImageOptions{.fancy_upsampling = false},
        DecodeImageOptions{.verify_full = true}, DecodeImageOptions{.allow_truncated = true}}) {
    const std::string jpeg = EncodeJpeg(MakeImage(90, 110, 3, random()), GetParam().shape);
    const Image whole = testing::Decode(jpeg, options).image;
    for (int i = 0; i < 40; ++i) {
      const auto height = static_cast<int64_t>(1 + random() % 60);
      const auto width = static_cast<int64_t>(1 + random() % 60);
      const Region region{static_cast<int64_t>(random() % 30), static_cast<int64_t>(random() % 50),
                          height, width};
      ASSERT_EQ(DecodeDense(jpeg, options, region),
                Crop(whole, region.top, region.left, height, width))
          << options.fast_dct << options.fancy_upsampling << options.verify_full << ": top "
          << region.top << ", left " << region.left << ", " << height << " x " << width;
    }
  }
}

// S-IMAGE-5.
TEST_P(InexactJpeg, ScaledRegionsAreThoseOfDjpegsScaledImage) {
  std::mt19937 random(4);
  const std::string jpeg = EncodeJpeg(MakeImage(173, 211, 3, 7), GetParam().shape);
  for (const int denominator : {2, 4, 8}) {
    const auto whole = Djpeg(jpeg, 3, "-scale 1/" + std::to_string(denominator));
    if (!whole.has_value()) GTEST_SKIP() << "djpeg is not installed";
    for (const bool verify_full : {false, true}) {
      for (int i = 0; i < 20; ++i) {
        const Region region{
            static_cast<int64_t>(random() % 70), static_cast<int64_t>(random() % 90),
            static_cast<int64_t>(1 + random() % 100), static_cast<int64_t>(1 + random() % 120)};
        const Image got = DecodeDense(jpeg, {.verify_full = verify_full}, region, denominator);
        // Rounded outwards.
        const int64_t top = region.top / denominator, left = region.left / denominator;
        EXPECT_EQ(got.height, (region.top + region.height + denominator - 1) / denominator - top);
        ASSERT_EQ(got, Crop(*whole, top, left, got.height, got.width))
            << "1/" << denominator << ": top " << region.top << ", left " << region.left << ", "
            << region.height << " x " << region.width;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, InexactJpeg, ::testing::ValuesIn(kShapes),
                         [](const auto& test) { return test.param.name; });

// S-IMAGE-5.
TEST(DctDownscale, OnlyCropsOfTwiceTheOutputChange) {
  const std::string jpeg = EncodeJpeg(MakeImage(160, 160, 3, 2), {2, 2});
  for (const auto& [side, changes] : {std::pair(20, true), {80, true}, {81, false}, {160, false}}) {
    const RandomResizedCropOptions crop{
        .height = side, .width = side, .area = {1, 1}, .aspect = {1, 1}};
    const Image exact = testing::DecodeCrop(jpeg, {}, crop, 0).image;
    const DecodeResult scaled = testing::DecodeCrop(jpeg, {.dct_downscale = true}, crop, 0);
    ASSERT_TRUE(scaled.status.ok()) << scaled.status;
    EXPECT_EQ(scaled.image != exact, changes) << side;
    EXPECT_EQ(scaled.image.height, side);
  }
  // Of PNGs there is no such thing.
  const Image image = MakeImage(64, 64, 3, 1);
  const std::string png = EncodePng(64, 64, 2, 8, image.pixels);
  const RandomResizedCropOptions crop{.height = 8, .width = 8};
  EXPECT_EQ(testing::DecodeCrop(png, {.dct_downscale = true}, crop, 0).image,
            testing::DecodeCrop(png, {}, crop, 0).image);
}

TEST(DctDownscale, TheUprightImageIsScaledAsTheStoredOne) {
  // A slope of brightness tells which way up a small image is.
  Image slope{128, 128, 3, {}};
  for (int y = 0; y < 128; ++y) {
    for (int x = 0; x < 128; ++x) {
      slope.pixels.insert(slope.pixels.end(),
                          {static_cast<uint8_t>(2 * y), static_cast<uint8_t>(2 * x), 0});
    }
  }
  const RandomResizedCropOptions crop{
      .height = 16, .width = 16, .area = {0.5f, 1}, .aspect = {1, 1}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string jpeg = testing::WithExif(EncodeJpeg(slope), orientation);
    const Image exact = testing::DecodeCrop(jpeg, {.apply_exif_orientation = true}, crop, 5).image;
    const Image scaled =
        testing::DecodeCrop(jpeg, {.apply_exif_orientation = true, .dct_downscale = true}, crop, 5)
            .image;
    ASSERT_EQ(scaled.pixels.size(), exact.pixels.size());
    for (size_t i = 0; i < exact.pixels.size(); ++i) {
      ASSERT_NEAR(scaled.pixels[i], exact.pixels[i], 24) << orientation << ", " << i;
    }
  }
}

// --- verdicts ---

// S-ROUND-2: with the optimizer's rule on or off.
TEST(Verdicts, OfAPairAreTheSameInOneOpAndInTwo) {
  const Image image = MakeImage(96, 128, 3, 3);
  const std::string images[] = {
      EncodeJpeg(image), EncodeJpeg(image, {2, 2}), EncodeJpeg(image, {2, 2, true}),
      EncodeJpeg(image, {2, 2, false, 1}), EncodePng(96, 128, 2, 8, image.pixels)};
  const RandomResizedCropOptions crop{.height = 8, .width = 8, .area = {0.05f, 0.5f}};
  std::mt19937 random(1);
  int unseen = 0, seen = 0;
  for (const std::string& encoded : images) {
    for (const DecodeImageOptions& options :
         {DecodeImageOptions{}, DecodeImageOptions{.allow_truncated = true},
          DecodeImageOptions{.verify_full = true},
          DecodeImageOptions{.apply_exif_orientation = true}}) {
      for (uint64_t record = 0; record < 40; ++record) {
        std::string damaged = testing::WithExif(encoded, 6);
        if (record % 2 == 0) damaged.resize(1 + random() % damaged.size());
        if (record % 2 == 1) damaged[random() % damaged.size()] ^= static_cast<char>(random());
        const auto one = testing::DecodeCrop(damaged, options, crop, record);
        const auto two = testing::DecodeToCropThenCrop(damaged, options, crop, record);
        ASSERT_EQ(one.status, two.status);
        if (!one.status.ok()) {
          ++seen;
          continue;
        }
        ASSERT_EQ(one.image, two.image) << "record " << record;
        unseen += testing::Decode(damaged, options).status.ok() ? 0 : 1;
      }
    }
  }
  EXPECT_GT(seen, 100);
  EXPECT_GT(unseen, 8);  // damage that the crop does not need
}

// S-IMAGE-2.
TEST(VerifyFull, DamageThatTheCropDoesNotNeedIsFound) {
  const RandomResizedCropOptions crop{
      .height = 8, .width = 8, .area = {0.05f, 0.1f}, .aspect = {1, 1}};
  for (const NamedShape& shape : kShapes) {
    const std::string whole = EncodeJpeg(MakeImage(128, 128, 3, 3), shape.shape);
    const std::string cut = whole.substr(0, whole.size() - whole.size() / 8);
    int unseen = 0;
    for (uint64_t record = 0; record < 20; ++record) {
      unseen += testing::DecodeCrop(cut, {}, crop, record).status.ok() ? 1 : 0;
      ExpectError(testing::DecodeCrop(cut, {.verify_full = true}, crop, record),
                  absl::StatusCode::kDataLoss, "JPEG: ");
      const auto good = testing::DecodeCrop(whole, {.verify_full = true}, crop, record);
      ASSERT_TRUE(good.status.ok()) << good.status;
      EXPECT_EQ(good.image, testing::DecodeCrop(whole, {}, crop, record).image);
    }
    EXPECT_EQ(unseen > 0, !shape.shape.progressive) << shape.name;
  }
}

// S-IMAGE-2.
TEST(VerifyFull, AMissingEndMarkIsFound) {
  for (const NamedShape& shape : kShapes) {
    const std::string whole = EncodeJpeg(MakeImage(33, 47, 3, 3), shape.shape);
    const std::string cut = whole.substr(0, whole.size() - 2);
    EXPECT_TRUE(testing::Decode(whole, {.verify_full = true}).status.ok()) << shape.name;
    ExpectError(testing::Decode(cut, {.verify_full = true}), absl::StatusCode::kDataLoss,
                "Premature end");
  }
}

// S-IMAGE-2: libspng does without the last checksum.
TEST(VerifyFull, ACutEndOfAPngIsFound) {
  const Image image = MakeImage(9, 9, 3, 1);
  const std::string png = EncodePng(9, 9, 2, 8, image.pixels);
  EXPECT_EQ(testing::Decode(png, {.verify_full = true}).image, image);
  EXPECT_EQ(testing::Decode(png + "more", {.verify_full = true}).image, image);
  for (size_t missing = 1; missing <= 4; ++missing) {
    const std::string cut = png.substr(0, png.size() - missing);
    EXPECT_EQ(testing::Decode(cut, {}).image, image);
    ExpectError(testing::Decode(cut, {.verify_full = true}), absl::StatusCode::kDataLoss, "IEND");
    std::string other = png;
    other[png.size() - missing] ^= 1;
    ExpectError(testing::Decode(other, {}), absl::StatusCode::kDataLoss, "checksum");
  }
}

// All of it, over memory full of `fill`.
Image DecodeOver(uint8_t fill, const std::string& encoded, const DecodeImageOptions& options) {
  auto decoder = OpenImage(encoded, options);
  EXPECT_TRUE(decoder.ok()) << decoder.status();
  Image image{(*decoder)->info().height, (*decoder)->info().width, options.channels, {}};
  image.pixels.assign(static_cast<size_t>(image.height * image.width * image.channels), fill);
  RunArena arena;
  std::memset(arena.Allocate(200 << 10), fill, 200 << 10);
  arena.Reset();
  const absl::Status status = (*decoder)->DecodeAll(image.channels, arena, image.pixels.data());
  EXPECT_TRUE(status.ok()) << status;
  return image;
}

// S-IMAGE-3: the same image whatever the memory held before, and what libjpeg-turbo makes of the
// file.
TEST(AllowTruncated, PixelsAreDjpegsAndNeverThoseOfMemory) {
  for (const NamedShape& shape : kShapes) {
    const std::string whole = EncodeJpeg(MakeImage(70, 90, 3, 3), shape.shape);
    for (const size_t eighths : {4, 6, 7}) {
      const std::string cut = whole.substr(0, whole.size() * eighths / 8);
      ExpectError(testing::Decode(cut, {}), absl::StatusCode::kDataLoss, "JPEG: ");
      const auto got = testing::Decode(cut, {.allow_truncated = true});
      ASSERT_TRUE(got.status.ok()) << shape.name << ": " << got.status;
      for (const uint8_t fill : {0x00, 0xFF}) {
        EXPECT_EQ(DecodeOver(fill, cut, {.allow_truncated = true}), got.image) << shape.name;
      }
      const auto expected = Djpeg(cut, 3, "", true);
      if (expected.has_value()) {
        EXPECT_EQ(got.image, *expected) << shape.name << ", " << eighths;
      }
    }
  }
}

// S-IMAGE-3.
TEST(AllowTruncated, MissingRowsOfAPngAreBlack) {
  const Image image = MakeImage(60, 50, 3, 3);
  const std::string png = EncodePng(60, 50, 2, 8, image.pixels);
  const std::string cut = png.substr(0, png.size() / 2);
  ExpectError(testing::Decode(cut, {}), absl::StatusCode::kDataLoss, "PNG: ");
  const auto got = testing::Decode(cut, {.allow_truncated = true});
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(DecodeOver(0xFF, cut, {.allow_truncated = true}), got.image);
  EXPECT_EQ(Crop(got.image, 0, 0, 15, 50), Crop(image, 0, 0, 15, 50));
  EXPECT_EQ(Crop(got.image, 45, 0, 15, 50).pixels, std::vector<uint8_t>(15 * 50 * 3));
  EXPECT_EQ(testing::Decode(png, {.allow_truncated = true}).image, image);
  // An image of no row is none.
  ExpectError(testing::Decode(png.substr(0, 60), {.allow_truncated = true}),
              absl::StatusCode::kDataLoss, "PNG: ");
}

// S-IMAGE-3.
TEST(AllowTruncated, AHeaderThatIsCutStaysAnError) {
  const std::string jpeg = EncodeJpeg(MakeImage(30, 30, 3, 1));
  ExpectError(testing::Decode(jpeg.substr(0, 300), {.allow_truncated = true}),
              absl::StatusCode::kDataLoss, "JPEG: ");
  ExpectError(testing::Decode("GIF89a", {.allow_truncated = true}),
              absl::StatusCode::kInvalidArgument, "neither JPEG nor PNG");
}

// S-IMAGE-3: rows of a batch as they come back from the pool: full of another sample's bytes.
TEST(StalePixels, NeverReachARowThatIsOk) {
  std::mt19937 random(5);
  const Image image = MakeImage(24, 24, 3, 9);
  const std::string images[] = {
      EncodeJpeg(image), EncodeJpeg(image, {2, 2}), EncodeJpeg(image, {2, 2, true}),
      EncodePng(24, 24, 2, 8, image.pixels), EncodePng(24, 24, 2, 8, image.pixels, true)};
  const RandomResizedCropOptions crop{.height = 12, .width = 12};
  int ok = 0;
  for (int round = 0; round < 300; ++round) {
    std::string encoded = images[round % 5];
    encoded.resize(encoded.size() / 3 + random() % (encoded.size() * 2 / 3));
    if (round % 3 == 0) encoded[random() % encoded.size()] ^= 0x10;
    const DecodeImageOptions options{.allow_truncated = round % 2 == 0};
    std::vector<uint8_t> rows[2] = {std::vector<uint8_t>(12 * 12 * 3, 0x00),
                                    std::vector<uint8_t>(12 * 12 * 3, 0xFF)};
    bool row_ok[2] = {};
    for (int fill = 0; fill < 2; ++fill) {
      const std::vector<std::string> values = {encoded};
      testing::TestRun run(1, 1, static_cast<uint64_t>(round));
      run.AddBytes(options.field, values);
      const FieldSlots slots[] = {
          {"image", DType::kU8, Shape{12, 12, 3}, reinterpret_cast<std::byte*>(rows[fill].data())}};
      run->Bind(slots);
      // The arena too.
      std::memset(run->arena().Allocate(100 << 10), fill == 0 ? 0 : 0xFF, 100 << 10);
      run->arena().Reset();
      auto op = MakeDecodeCrop(options, crop, "crop");
      testing::ResolveAndApply(**op, testing::EncodedSchema(), *run);
      row_ok[fill] = run->ok(0);
    }
    ASSERT_EQ(row_ok[0], row_ok[1]);
    if (!row_ok[0]) continue;
    ++ok;
    ASSERT_EQ(rows[0], rows[1]) << round;
  }
  EXPECT_GT(ok, 60);
}

// --- kinds of files ---

// S-IMAGE-1.
TEST(Kinds, ProfilesAreIgnored) {
  const std::string jpeg = EncodeJpeg(MakeImage(20, 20, 3, 1));
  const std::string profile = std::string("ICC_PROFILE\0\1\1", 14) + std::string(300, 'p');
  EXPECT_EQ(testing::Decode(testing::WithSegment(jpeg, 0xE2, profile), {}).image,
            testing::Decode(jpeg, {}).image);
  const Image image = MakeImage(9, 9, 3, 1);
  const std::string png = EncodePng(9, 9, 2, 8, image.pixels);
  const std::string gamma("\0\0\xb1\x8f", 4);
  EXPECT_EQ(testing::Decode(testing::WithChunk(png, testing::PngChunk("gAMA", gamma)), {}).image,
            image);
}

// S-IMAGE-1.
TEST(Kinds, TransparencyOfAPngIsDropped) {
  const std::string png = EncodePng(1, 2, 2, 8, {1, 2, 3, 4, 5, 6});
  const std::string key("\0\1\0\2\0\3", 6);
  EXPECT_EQ(
      testing::Decode(testing::WithChunk(png, testing::PngChunk("tRNS", key)), {}).image.pixels,
      (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
  // Alpha of 16 bits.
  EXPECT_EQ(testing::Decode(EncodePng(1, 1, 6, 16, {9, 1, 8, 1, 7, 1, 0, 0}), {}).image.pixels,
            (std::vector<uint8_t>{9, 8, 7}));
  for (const int bits : {1, 2, 4, 8}) {
    const std::string grey = EncodePng(1, 1, 0, bits, {static_cast<uint8_t>(0xFF << (8 - bits))});
    EXPECT_EQ(testing::Decode(grey, {.channels = 1}).image.pixels, std::vector<uint8_t>{255});
  }
}

// S-IMAGE-1: Adobe's inks are inverted, 255 is none of it; without its marker they are plain.
TEST(Kinds, InksAreInvertedWhereAdobesMarkerStands) {
  Image inks{16, 16, 4, {}};
  for (int i = 0; i < 256; ++i) inks.pixels.insert(inks.pixels.end(), {200, 100, 50, 128});
  std::string jpeg = EncodeJpeg(inks, {.cmyk = true, .quality = 100});
  const size_t adobe = jpeg.find("\xFF\xEE");
  ASSERT_NE(adobe, std::string::npos);
  constexpr size_t kSegmentBytes = 16, kTransformAt = 15;
  const std::string plain = jpeg.substr(0, adobe) + jpeg.substr(adobe + kSegmentBytes);
  jpeg[adobe + kTransformAt] = 0;  // the four components as they stand, as without the marker
  const auto with_marker = testing::Decode(jpeg, {}).image.pixels;
  const auto without = testing::Decode(plain, {}).image.pixels;
  ASSERT_EQ(with_marker.size(), without.size());
  // YCCK's samples of these inks, which as CMYK are other colours: Y, Cb, Cr of (55, 155, 205), K.
  const double y = 0.299 * 55 + 0.587 * 155 + 0.114 * 205, cr = 128 + (55 - y) / 1.402;
  EXPECT_NEAR(with_marker[0], y * 128 / 255, 3);
  EXPECT_NEAR(without[0], (255 - y) * (255 - 128) / 255, 3);
  EXPECT_NEAR(with_marker[2], cr * 128 / 255, 3);
  EXPECT_NEAR(without[2], (255 - cr) * (255 - 128) / 255, 3);
}

// S-IMAGE-2, S-IMAGE-6: refused, not damaged, and no other verdict of the header alone.
TEST(Kinds, ThatAreNotTakenAreRefusedNotDamaged) {
  const std::string jpeg = EncodeJpeg(MakeImage(16, 16, 3, 2));
  const size_t frame = jpeg.find("\xFF\xC0");
  constexpr size_t kMarker = 1, kPrecision = 4, kHeight = 5, kWidth = 7;
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string changed = jpeg;
    return changed.replace(frame + at, bytes.size(), bytes);
  };
  struct Case {
    std::string jpeg;
    absl::StatusCode code;
    const char* text;
  };
  constexpr auto kRefused = absl::StatusCode::kInvalidArgument,
                 kDamaged = absl::StatusCode::kDataLoss;
  const std::string zero(2, '\0');
  const Case cases[] = {{with(kPrecision, "\x0C"), kRefused, "precision"},  // 12 bits
                        {with(kMarker, "\xC3"), kRefused, "SOF type"},      // lossless
                        {with(kHeight, zero), kRefused, "Empty"},  // a DNL marker would have it
                        {with(kWidth, zero), kDamaged, "Empty"},
                        {with(kHeight, zero + zero), kDamaged, "Empty"},
                        {with(kHeight, "\xFF\xDD"), kRefused, "65500"},
                        {with(kWidth, "\xFF\xDD"), kRefused, "65500"}};
  for (const Case& c : cases) {
    ExpectError(testing::Decode(c.jpeg, {}), c.code, c.text);
    EXPECT_EQ(readers::ReadImageHeader(c.jpeg).status().code(), c.code) << c.text;
  }
  // The header is as it should be.
  const std::string arithmetic = with(kMarker, "\xC9");
  ExpectError(testing::Decode(arithmetic, {}), kRefused, "arithmetic");
  EXPECT_TRUE(readers::ReadImageHeader(arithmetic).ok());
}

}  // namespace
}  // namespace millrace::augment
