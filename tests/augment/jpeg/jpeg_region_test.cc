#include <gtest/gtest.h>

#include <random>

#include "augment/jpeg/track_pool.h"
#include "tests/augment/image_testing.h"
#include "tests/augment/jpeg/jpeg_testing.h"
#include "tests/sanitized.h"

// Every pixel of jpeg::RegionDecoder is libjpeg-turbo's, and what libjpeg-turbo warns of it
// refuses.

namespace millrace::augment {
namespace {

using jpeg::Level;
using jpeg::RegionDecoder;
using testing::Agreement;
using testing::Compare;
using testing::EncodeJpeg;
using testing::Image;
using testing::JpegShape;
using testing::MakeImage;
using testing::RandomRegion;

std::vector<Level> Levels() {
  std::vector<Level> levels;
  for (const Level level : {Level::kScalar, Level::kAvx2, Level::kAvx512}) {
    if (level <= jpeg::BestLevel()) levels.push_back(level);
  }
  return levels;
}

// The whole image and `num_crops` regions of it, at each level.
void ExpectEqual(const std::string& encoded, int num_crops, std::mt19937& random) {
  for (const Level level : Levels()) {
    RegionDecoder decoder(level);
    ASSERT_TRUE(decoder.Open(encoded));
    const int64_t height = decoder.frame().height, width = decoder.frame().width;
    for (int i = 0; i <= num_crops; ++i) {
      const Region region =
          i == 0 ? Region{0, 0, height, width} : RandomRegion(random, height, width);
      const int channels = i % 4 == 3 ? 1 : 3;
      ASSERT_EQ(Compare(encoded, region, channels, decoder), Agreement::kEqual)
          << height << " x " << width << ": top " << region.top << ", left " << region.left
          << ", height " << region.height << ", width " << region.width << ", " << channels
          << " channels, level " << static_cast<int>(level);
    }
  }
}

// Noise that no block of a photograph has: coefficients of every size at every place.
Image MakeNoise(int64_t height, int64_t width, int channels, uint32_t seed) {
  std::mt19937 random(seed);
  Image image{height, width, channels, {}};
  image.pixels.resize(static_cast<size_t>(height * width * channels));
  for (uint8_t& pixel : image.pixels) pixel = random() % 2 == 0 ? 0 : 255;
  return image;
}

struct NamedShape {
  const char* name;
  int h_samp = 1;
  int v_samp = 1;
  int channels = 3;
};

class JpegRegion : public ::testing::TestWithParam<NamedShape> {
 protected:
  JpegShape Shape() const { return {.h_samp = GetParam().h_samp, .v_samp = GetParam().v_samp}; }
  // libjpeg does not smooth the chroma of so narrow an image, which is left to it.
  int64_t least_width() const { return GetParam().h_samp == 2 ? 5 : 1; }
  Image Make(int64_t height, int64_t width, uint32_t seed) const {
    return seed % 3 == 0 ? MakeNoise(height, width, GetParam().channels, seed)
                         : MakeImage(height, width, GetParam().channels, seed);
  }
};

TEST_P(JpegRegion, EverySizeHasLibjpegsPixels) {
  std::mt19937 random(1);
  constexpr int64_t kStep = kSanitized ? 5 : 1;
  for (int64_t height = 1; height <= 70; height += kStep + random() % 3) {
    for (int64_t width = least_width(); width <= 70; width += 1 + random() % 9) {
      JpegShape shape = Shape();
      shape.quality = 1 + static_cast<int>(random() % 100);
      shape.optimize = random() % 2 == 0;
      ExpectEqual(EncodeJpeg(Make(height, width, random()), shape), 3, random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(JpegRegion, EveryQualityHasLibjpegsPixels) {
  std::mt19937 random(2);
  for (int quality = 1; quality <= 100; ++quality) {
    JpegShape shape = Shape();
    shape.quality = quality;
    for (const bool optimize : {false, true}) {
      shape.optimize = optimize;
      ExpectEqual(EncodeJpeg(Make(37, 41, random()), shape), 2, random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(JpegRegion, LargeImagesHaveLibjpegsPixels) {
  std::mt19937 random(3);
  for (int i = 0; i < 6; ++i) {
    JpegShape shape = Shape();
    shape.quality = 50 + static_cast<int>(random() % 50);
    const auto height = static_cast<int64_t>(100 + random() % 400);
    const auto width = static_cast<int64_t>(100 + random() % 400);
    ExpectEqual(EncodeJpeg(Make(height, width, random()), shape), 8, random);
    if (HasFatalFailure()) return;
  }
}

TEST_P(JpegRegion, RestartIntervalsHaveLibjpegsPixels) {
  std::mt19937 random(4);
  for (int interval = 1; interval <= 24; ++interval) {
    JpegShape shape = Shape();
    shape.restart_mcus = interval;
    shape.optimize = interval % 2 == 0;
    ExpectEqual(EncodeJpeg(Make(1 + random() % 90, 5 + random() % 90, random()), shape), 6, random);
    if (HasFatalFailure()) return;
  }
}

// Whatever is missing, the two agree, at the image's end and at every region's.
TEST_P(JpegRegion, CutFilesAreTakenOnlyWhereLibjpegTakesThem) {
  std::mt19937 random(5);
  for (const int restart_mcus : {0, 5}) {
    JpegShape shape = Shape();
    shape.restart_mcus = restart_mcus;
    const std::string whole = EncodeJpeg(Make(75, 83, 7), shape);
    int taken = 0;
    for (int i = 0; i < 200; ++i) {
      const size_t size = i < 40 ? whole.size() - static_cast<size_t>(i) : random() % whole.size();
      const std::string cut = whole.substr(0, size);
      RegionDecoder decoder(Levels()[static_cast<size_t>(i) % Levels().size()]);
      if (!decoder.Open(cut)) continue;
      for (int j = 0; j < 4; ++j) {
        const Agreement agreement =
            Compare(cut, RandomRegion(random, 75, 83), j == 0 ? 1 : 3, decoder);
        ASSERT_NE(agreement, Agreement::kDifferent) << size << " bytes";
        if (agreement == Agreement::kEqual) ++taken;
      }
    }
    EXPECT_GT(taken, 50);
    EXPECT_LT(taken, 700);
  }
}

TEST_P(JpegRegion, DamagedFilesAreTakenOnlyWhereLibjpegTakesThem) {
  std::mt19937 random(6);
  int taken = 0, refused = 0;
  for (int i = 0; i < 600; ++i) {
    JpegShape shape = Shape();
    shape.restart_mcus = static_cast<int>(random() % 4) * 3;
    std::string bytes = EncodeJpeg(Make(40, 52, static_cast<uint32_t>(i % 20)), shape);
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int j = 0; j < changes; ++j) {
      bytes[random() % bytes.size()] = static_cast<char>(random() % 5 == 0 ? 0xFF : random());
    }
    RegionDecoder decoder(Levels()[static_cast<size_t>(i) % Levels().size()]);
    if (!decoder.Open(bytes)) continue;
    const int64_t height = decoder.frame().height, width = decoder.frame().width;
    if (height * width > testing::kMaxTestPixels) continue;
    const Region region =
        i % 3 == 0 ? Region{0, 0, height, width} : RandomRegion(random, height, width);
    const Agreement agreement = Compare(bytes, region, i % 5 == 0 ? 1 : 3, decoder);
    ASSERT_NE(agreement, Agreement::kDifferent) << "file " << i;
    ++(agreement == Agreement::kEqual ? taken : refused);
  }
  EXPECT_GT(taken, 20);
  EXPECT_GT(refused, 20);
}

INSTANTIATE_TEST_SUITE_P(All, JpegRegion,
                         ::testing::Values(NamedShape{"s444", 1, 1}, NamedShape{"s420", 2, 2},
                                           NamedShape{"s422", 2, 1}, NamedShape{"s440", 1, 2},
                                           NamedShape{"grey", 1, 1, 1}),
                         [](const auto& test) { return test.param.name; });

TEST(JpegRegionDecoder, OtherKindsAreLeftToLibjpeg) {
  const Image color = MakeImage(40, 40, 3, 1);
  RegionDecoder decoder;
  EXPECT_TRUE(decoder.Open(EncodeJpeg(color)));
  EXPECT_FALSE(decoder.Open(EncodeJpeg(color, {.progressive = true})));
  EXPECT_FALSE(decoder.Open(EncodeJpeg(color, {.separate_scans = true})));
  EXPECT_FALSE(decoder.Open(EncodeJpeg(color, {.h_samp = 4})));
  EXPECT_FALSE(decoder.Open(EncodeJpeg(MakeImage(40, 40, 4, 1), {.cmyk = true})));
  std::string grey = EncodeJpeg(MakeImage(40, 40, 1, 1));
  EXPECT_TRUE(decoder.Open(grey));
  constexpr size_t kSampling = 11;  // in the frame header of one component
  char& sampling = grey.at(grey.find("\xFF\xC0") + kSampling);
  ASSERT_EQ(sampling, 0x11);
  sampling = 0x22;
  EXPECT_FALSE(decoder.Open(grey));
  EXPECT_FALSE(decoder.Open(""));
  EXPECT_FALSE(decoder.Open("\xFF\xD8\xFF"));
}

// Of so narrow an image libjpeg repeats the chroma instead of smoothing it.
TEST(JpegRegionDecoder, NarrowSubsampledImagesAreLeftToLibjpeg) {
  RegionDecoder decoder;
  EXPECT_FALSE(decoder.Open(EncodeJpeg(MakeImage(40, 4, 3, 1), {.h_samp = 2})));
  EXPECT_TRUE(decoder.Open(EncodeJpeg(MakeImage(40, 5, 3, 1), {.h_samp = 2})));
}

// The header with the segment behind `marker` changed at `at`.
std::string WithByte(std::string bytes, const std::string& marker, size_t at, char value) {
  const size_t found = bytes.find(marker);
  EXPECT_NE(found, std::string::npos);
  bytes[found + at] = value;
  return bytes;
}

TEST(JpegRegionDecoder, OtherKindsOfFilesAreLeftToLibjpeg) {
  const std::string good = EncodeJpeg(MakeImage(40, 40, 3, 1));
  RegionDecoder decoder;
  EXPECT_FALSE(decoder.Open(WithByte(good, "\xFF\xC0", 4, 12)));      // bits of a sample
  EXPECT_FALSE(decoder.Open(WithByte(good, "\xFF\xC0", 1, '\xC9')));  // arithmetic
}

// libjpeg warns of it; tests/augment/codec/odd_images_test.cc has Pillow's pixels.
TEST(JpegRegionDecoder, WhatIsOddInAHeaderAndChangesNoPixelIsTaken) {
  const std::string good = EncodeJpeg(MakeImage(40, 40, 3, 1));
  for (const std::string& odd : {WithByte(good, "JFIF", 5, 2),                   // major version
                                 WithByte(good, "\xFF\xDA", 12, 62),             // last coefficient
                                 good.substr(0, 20) + "x" + good.substr(20)}) {  // between markers
    RegionDecoder decoder;
    ASSERT_TRUE(decoder.Open(odd));
    EXPECT_EQ(Compare(odd, {0, 0, 40, 40}, 3, decoder), Agreement::kEqual);
    EXPECT_EQ(Compare(odd, {7, 5, 10, 20}, 3, decoder), Agreement::kEqual);
  }
}

// libjpeg reads on behind a second 0xFF, and there the file ends: it warns, though the bits
// suffice.
TEST(JpegRegionDecoder, FillBytesAtTheEndOfTheFileAreLeftToLibjpeg) {
  std::string bytes = EncodeJpeg(MakeImage(40, 40, 3, 1));
  bytes.back() = '\xFF';  // for the 0xD9 of EOI
  RegionDecoder decoder;
  ASSERT_TRUE(decoder.Open(bytes));
  EXPECT_EQ(Compare(bytes, {0, 0, 40, 40}, 3, decoder), Agreement::kRefused);
  EXPECT_EQ(Compare(bytes, {0, 0, 10, 40}, 3, decoder), Agreement::kEqual);
}

// An image with RGB components: no JFIF, Adobe's transform is 0.
TEST(JpegRegionDecoder, AdobeWithoutTransformIsLeftToLibjpeg) {
  std::string bytes = EncodeJpeg(MakeImage(40, 40, 3, 1));
  const std::string adobe(
      "\xFF\xEE\0\x0E"
      "Adobe\0\x64\0\0\0\0\0",
      16);
  const size_t jfif = bytes.find("JFIF") - 4;
  std::string replaced = bytes.substr(0, jfif) + adobe + bytes.substr(jfif + 18);
  RegionDecoder decoder;
  EXPECT_FALSE(decoder.Open(replaced));
  replaced[jfif + 15] = 1;
  EXPECT_TRUE(decoder.Open(replaced));
  EXPECT_EQ(Compare(replaced, {0, 0, 40, 40}, 3, decoder), Agreement::kEqual);
}

// An image for the pool: of any kind, whole, cut or with some bytes changed.
std::string AnyJpeg(std::mt19937& random) {
  const bool grey = random() % 8 == 0;
  JpegShape shape{.h_samp = grey ? 1 : 1 + static_cast<int>(random() % 2),
                  .v_samp = grey ? 1 : 1 + static_cast<int>(random() % 2)};
  shape.quality = 20 + static_cast<int>(random() % 80);
  shape.optimize = random() % 2 == 0;
  shape.restart_mcus = random() % 8 == 0 ? 3 : 0;
  const auto height = static_cast<int64_t>(1 + random() % 150);
  const auto width = static_cast<int64_t>(5 + random() % 150);
  std::string bytes =
      EncodeJpeg(random() % 4 == 0 ? MakeNoise(height, width, grey ? 1 : 3, random())
                                   : MakeImage(height, width, grey ? 1 : 3, random()),
                 shape);
  if (random() % 6 == 0) bytes.resize(bytes.size() - random() % (bytes.size() / 2));
  if (random() % 6 == 0) {
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
  }
  return bytes;
}

struct Pooled {
  std::string bytes;
  Region region;
  int channels = 3;
  std::vector<uint8_t> pixels;
  int calls = 0;
  bool ok = false;
};

class JpegTrackPool : public ::testing::TestWithParam<Level> {};

TEST_P(JpegTrackPool, EachImageIsDecodedAsAlone) {
  if (GetParam() > jpeg::BestLevel()) GTEST_SKIP() << "the processor has no such kernels";
  std::mt19937 random(11);
  std::vector<Pooled> images(600);
  jpeg::TrackPool pool(
      [&](int64_t tag, bool ok) {
        ++images[static_cast<size_t>(tag)].calls;
        images[static_cast<size_t>(tag)].ok = ok;
      },
      GetParam());
  for (size_t i = 0; i < images.size(); ++i) {
    Pooled& image = images[i];
    image.bytes = AnyJpeg(random);
    RegionDecoder& decoder = pool.idle();
    if (!decoder.Open(image.bytes)) continue;
    const int64_t height = decoder.frame().height, width = decoder.frame().width;
    if (height * width > testing::kMaxTestPixels) continue;
    image.region =
        random() % 2 == 0 ? Region{0, 0, height, width} : RandomRegion(random, height, width);
    image.channels = random() % 4 == 0 ? 1 : 3;
    image.pixels.resize(static_cast<size_t>(image.region.height * image.region.width) *
                        static_cast<size_t>(image.channels));
    pool.Submit(static_cast<int64_t>(i), image.region, image.channels, image.pixels.data(),
                image.region.width * image.channels);
    if (random() % 50 == 0) pool.Flush();
  }
  pool.Flush();
  int decoded = 0, refused = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    const Pooled& image = images[i];
    if (image.region.height == 0) continue;
    ASSERT_EQ(image.calls, 1) << "image " << i;
    RegionDecoder alone;
    ASSERT_TRUE(alone.Open(image.bytes));
    bool strayed = false;
    const auto expected = testing::ByRegionDecoder(alone, image.region, image.channels, &strayed);
    ASSERT_EQ(image.ok, expected.has_value()) << "image " << i;
    ++(image.ok ? decoded : refused);
    if (!image.ok) continue;
    ASSERT_EQ(image.pixels, *expected) << "image " << i;
    ASSERT_EQ(image.pixels, testing::ByLibjpeg(image.bytes, image.region, image.channels))
        << "image " << i;
  }
  EXPECT_GT(decoded, 300);
  EXPECT_GT(refused, 20);
}

std::string NameOf(const ::testing::TestParamInfo<Level>& info) {
  constexpr const char* kNames[] = {"scalar", "avx2", "avx512"};
  return kNames[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, JpegTrackPool,
                         ::testing::Values(Level::kScalar, Level::kAvx2, Level::kAvx512), NameOf);

}  // namespace
}  // namespace millrace::augment
