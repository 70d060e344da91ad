#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "augment/codec/decoder.h"
#include "augment/jpeg/track_pool.h"
#include "tests/augment/chain_testing.h"
#include "tests/augment/image_testing.h"
#include "tests/augment/jpeg/jpeg_testing.h"
#include "tests/augment/tar_testing.h"
#include "tests/sanitized.h"

// The 500 photographs of imagenet-sample.tar, where MILLRACE_TEST_DATA names its folder.

namespace millrace::augment {
namespace {

using testing::Image;

// The number of those of `all` photographs that a test takes.
size_t NumTaken(size_t all) { return (all + PhotographStride() - 1) / PhotographStride(); }

std::vector<std::string> SomePhotographs(const std::string& folder) {
  return Sampled(testing::ReadTar(folder + "/imagenet-sample.tar"), PhotographStride());
}

// S-IMAGE-1.
TEST(RealImages, DecodeAsDjpeg) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = SomePhotographs(folder);
  ASSERT_EQ(files.size(), NumTaken(500));
  if (!testing::Djpeg(files[0], 3).has_value()) GTEST_SKIP() << "djpeg is not installed";
  for (size_t i = 0; i < files.size(); ++i) {
    const testing::DecodeResult whole = testing::Decode(files[i], {});
    ASSERT_TRUE(whole.status.ok()) << "image " << i << ": " << whole.status;
    ASSERT_TRUE(whole.image == testing::Djpeg(files[i], 3)) << "image " << i;
  }
}

// S-ROUND-2.
TEST(RealImages, DecodeByRegionAsAWhole) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = SomePhotographs(folder);
  ASSERT_EQ(files.size(), NumTaken(500));
  for (size_t i = 0; i < files.size(); ++i) {
    const testing::DecodeResult whole = testing::Decode(files[i], {});
    ASSERT_TRUE(whole.status.ok()) << "image " << i << ": " << whole.status;
    const RandomResizedCropOptions crop{};
    RandomStream random({.seed = 1, .op = HashName("random_resized_crop"), .record = i});
    const Image& image = whole.image;
    const Region region = DrawCrop(image.height, image.width, crop.area, crop.aspect, random);
    RunArena arena;
    auto decoder = OpenImage(files[i], int64_t{1} << 28);
    ASSERT_TRUE(decoder.ok());
    const auto pixels = (*decoder)->DecodeRegion(region, 3, arena);
    ASSERT_TRUE(pixels.ok()) << pixels.status();
    for (int64_t y = 0; y < region.height; ++y) {
      const uint8_t* row = image.pixels.data() + ((region.top + y) * image.width + region.left) * 3;
      ASSERT_TRUE(std::equal(row, row + region.width * 3, pixels->data + y * pixels->stride))
          << "image " << i << ", row " << y;
    }
  }
}

// Whole and by region, at both ends of what RegionDecoder is asked for.
TEST(RealImages, RegionDecoderHasLibjpegsPixels) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = SomePhotographs(folder);
  ASSERT_EQ(files.size(), NumTaken(500));
  std::mt19937 random(7);
  size_t taken = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    constexpr jpeg::Level kLevels[] = {jpeg::Level::kScalar, jpeg::Level::kAvx2,
                                       jpeg::Level::kAvx512};
    jpeg::RegionDecoder decoder(std::min(kLevels[i % 3], jpeg::BestLevel()));
    if (!decoder.Open(files[i])) continue;
    ++taken;
    const int64_t height = decoder.frame().height, width = decoder.frame().width;
    const Region regions[] = {{0, 0, height, width},
                              testing::RandomRegion(random, height, width),
                              testing::RandomRegion(random, height, width)};
    for (const Region& region : regions) {
      ASSERT_EQ(testing::Compare(files[i], region, 3, decoder), testing::Agreement::kEqual)
          << "image " << i << ": top " << region.top << ", left " << region.left << ", height "
          << region.height << ", width " << region.width;
    }
  }
  RecordProperty("taken", static_cast<int>(taken));
  EXPECT_GT(taken, NumTaken(490) - 1);
}

TEST(RealImages, TrackPoolHasLibjpegsPixels) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = SomePhotographs(folder);
  std::mt19937 random(9);
  std::vector<Region> regions(files.size());
  std::vector<std::vector<uint8_t>> pixels(files.size());
  size_t decoded = 0;
  jpeg::TrackPool pool([&](int64_t tag, bool ok) {
    const auto i = static_cast<size_t>(tag);
    ASSERT_TRUE(ok) << "image " << i;
    ASSERT_EQ(pixels[i], testing::ByLibjpeg(files[i], regions[i], 3)) << "image " << i;
    pixels[i] = {};
    ++decoded;
  });
  for (size_t i = 0; i < files.size(); ++i) {
    jpeg::RegionDecoder& decoder = pool.idle();
    if (!decoder.Open(files[i])) continue;
    regions[i] = testing::RandomRegion(random, decoder.frame().height, decoder.frame().width);
    if (i % 5 == 0) regions[i] = {0, 0, decoder.frame().height, decoder.frame().width};
    pixels[i].resize(static_cast<size_t>(regions[i].height * regions[i].width * 3));
    pool.Submit(static_cast<int64_t>(i), regions[i], 3, pixels[i].data(), regions[i].width * 3);
  }
  pool.Flush();
  EXPECT_GT(decoded, NumTaken(490) - 1);
}

// All of it, or its error.
testing::DecodeResult DecodeAll(std::string_view encoded, const DecodeImageOptions& options) {
  auto decoder = OpenImage(encoded, options);
  if (!decoder.ok()) return {decoder.status(), {}};
  Image image{(*decoder)->info().height, (*decoder)->info().width, options.channels, {}};
  image.pixels.resize(static_cast<size_t>(image.height * image.width * image.channels));
  RunArena arena;
  const absl::Status status = (*decoder)->DecodeAll(image.channels, arena, image.pixels.data());
  return {status, std::move(image)};
}

// A region of a photograph that is cut: nothing is decoded, or pixels of `whole`, or with
// allow_truncated those of what is left of it. Returns whether it was decoded.
bool ExpectRegionOfCut(std::string_view cut, const DecodeImageOptions& options, const Image& whole,
                       bool near_top, std::mt19937& random) {
  auto decoder = OpenImage(cut, options);
  if (!decoder.ok()) return false;
  const int64_t height = (*decoder)->info().height, width = (*decoder)->info().width;
  Region region = testing::RandomRegion(random, height, width);
  if (near_top) region.top /= 4;
  RunArena arena;
  const auto pixels = (*decoder)->DecodeRegion(region, options.channels, arena);
  if (!pixels.ok()) {
    EXPECT_EQ(pixels.status().code(), absl::StatusCode::kDataLoss) << pixels.status();
    return false;
  }
  EXPECT_FALSE(options.verify_full);
  const Image left = options.allow_truncated ? DecodeAll(cut, options).image : Image();
  const Image& expected = options.allow_truncated ? left : whole;
  EXPECT_EQ(expected.width, width);
  if (expected.width != width) return false;
  const int64_t row_bytes = region.width * options.channels;
  for (int64_t y = 0; y < region.height; ++y) {
    const uint8_t* row =
        expected.pixels.data() + ((region.top + y) * width + region.left) * options.channels;
    EXPECT_TRUE(std::equal(row, row + row_bytes, pixels->data + y * pixels->stride)) << "row " << y;
    if (::testing::Test::HasFailure()) break;
  }
  return true;
}

// S-IMAGE-2, S-IMAGE-3: the pixels of a region of a photograph that is cut anywhere are those of
// the whole photograph, or it is an error; with allow_truncated they are those of what is left of
// it. Each place with one set of options.
TEST(RealImages, CutAnywhereHaveTheirPixelsOrAnError) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = testing::ReadTar(std::string(folder) + "/imagenet-sample.tar");
  ASSERT_EQ(files.size(), 500u);
  const DecodeImageOptions kinds[] = {
      {}, {.allow_truncated = true}, {.channels = 1}, {.verify_full = true}, {.fast_dct = true}};
  const size_t kImages = NumTaken(20), kPlaces = 200;
  std::mt19937 random(10);
  size_t decoded = 0, refused = 0;
  for (size_t i = 0; i < kImages; ++i) {
    const std::string& file = files[i * (files.size() / kImages)];
    for (size_t kind = 0; kind < std::size(kinds); ++kind) {
      const DecodeImageOptions& options = kinds[kind];
      const Image whole = DecodeAll(file, options).image;
      for (size_t place = kind; place < kPlaces; place += std::size(kinds)) {
        const ::testing::ScopedTrace trace(
            __FILE__, __LINE__, absl::StrCat("image ", i, ", cut at ", place, "/", kPlaces));
        // In memory of exactly the size, for the sanitizers.
        const std::vector<char> cut(
            file.begin(), file.begin() + static_cast<ptrdiff_t>(file.size() * place / kPlaces));
        const bool ok =
            ExpectRegionOfCut({cut.data(), cut.size()}, options, whole, place % 2 == 0, random);
        ASSERT_FALSE(HasFailure());
        ++(ok ? decoded : refused);
      }
    }
  }
  EXPECT_GT(decoded, 50 * kImages);
  EXPECT_GT(refused, 50 * kImages);
}

// S-ROUND-2, S-ROUND-4: the same for the ops.
TEST(RealImages, CutAnywhereHaveOneVerdictOnEveryPathOfOps) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = testing::ReadTar(std::string(folder) + "/imagenet-sample.tar");
  ASSERT_EQ(files.size(), 500u);
  const DecodeImageOptions kinds[] = {{},
                                      {.channels = 1},
                                      {.allow_truncated = true},
                                      {.verify_full = true},
                                      {.fast_dct = true, .fancy_upsampling = false},
                                      {.dct_downscale = true}};
  const size_t kImages = NumTaken(20), kPlaces = 120;
  size_t ok = 0;
  for (size_t i = 0; i < kImages; ++i) {
    const std::string_view file = files[i * (files.size() / kImages) + 1];
    for (size_t kind = 0; kind < std::size(kinds); ++kind) {
      std::vector<std::string_view> cuts;
      for (size_t place = kind; place < kPlaces; place += std::size(kinds)) {
        cuts.push_back(file.substr(0, file.size() * place / kPlaces));
      }
      ok += static_cast<size_t>(
          testing::ExpectRunsAreRowsAlone(cuts, 10, kinds[kind], {.height = 32, .width = 32}));
    }
    ASSERT_FALSE(HasFailure()) << "image " << i;
  }
  EXPECT_GT(ok, 25 * kImages);
}

}  // namespace
}  // namespace millrace::augment
