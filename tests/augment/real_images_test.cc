#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "augment/image_decoder_internal.h"
#include "augment/jpeg/lane_pool_internal.h"
#include "image_testing.h"
#include "jpeg_testing.h"

// The 500 photographs of imagenet-sample.tar and the fuzzing cases of hostile-jpeg.tar.xz, where
// MILLRACE_TEST_DATA names their folder.

namespace millrace::augment {
namespace {

using testing::Image;

std::vector<std::string> ReadTar(const std::string& path) {
  const std::unique_ptr<archive, int (*)(archive*)> tar(archive_read_new(), archive_read_free);
  archive_read_support_format_tar(tar.get());
  archive_read_support_filter_xz(tar.get());
  std::vector<std::string> files;
  if (archive_read_open_filename(tar.get(), path.c_str(), 1 << 20) != ARCHIVE_OK) return files;
  archive_entry* entry = nullptr;
  while (archive_read_next_header(tar.get(), &entry) == ARCHIVE_OK) {
    std::string bytes(static_cast<size_t>(archive_entry_size(entry)), '\0');
    if (bytes.empty()) continue;
    EXPECT_EQ(archive_read_data(tar.get(), bytes.data(), bytes.size()),
              static_cast<la_ssize_t>(bytes.size()));
    files.push_back(std::move(bytes));
  }
  return files;
}

// S-IMAGE-1.
TEST(RealImages, DecodeAsDjpeg) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = ReadTar(std::string(folder) + "/imagenet-sample.tar");
  ASSERT_EQ(files.size(), 500u);
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
  const auto files = ReadTar(std::string(folder) + "/imagenet-sample.tar");
  ASSERT_EQ(files.size(), 500u);
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
  const auto files = ReadTar(std::string(folder) + "/imagenet-sample.tar");
  ASSERT_EQ(files.size(), 500u);
  std::mt19937 random(7);
  int taken = 0;
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
  RecordProperty("taken", taken);
  EXPECT_GT(taken, 490);
}

TEST(RealImages, LanePoolHasLibjpegsPixels) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = ReadTar(std::string(folder) + "/imagenet-sample.tar");
  std::mt19937 random(9);
  std::vector<Region> regions(files.size());
  std::vector<std::vector<uint8_t>> pixels(files.size());
  int decoded = 0;
  jpeg::LanePool pool([&](int64_t tag, bool ok) {
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
  EXPECT_GT(decoded, 490);
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

// S-IMAGE-2, S-IMAGE-3: the pixels of a region of a photograph that is cut anywhere are those of the
// whole photograph, or it is an error; with allow_truncated they are those of what is left of it.
TEST(RealImages, CutAnywhereHaveTheirPixelsOrAnError) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = ReadTar(std::string(folder) + "/imagenet-sample.tar");
  ASSERT_EQ(files.size(), 500u);
  const DecodeImageOptions kinds[] = {
      {}, {.allow_truncated = true}, {.channels = 1}, {.verify_full = true}, {.fast_dct = true}};
  constexpr size_t kImages = 20, kPlaces = 200;
  std::mt19937 random(10);
  int decoded = 0, refused = 0;
  for (size_t i = 0; i < kImages; ++i) {
    const std::string& file = files[i * (files.size() / kImages)];
    std::vector<Image> whole;
    for (const DecodeImageOptions& options : kinds) whole.push_back(DecodeAll(file, options).image);
    for (size_t place = 0; place < kPlaces; ++place) {
      // In memory of exactly the size, for the sanitizers.
      const std::vector<char> cut(
          file.begin(), file.begin() + static_cast<ptrdiff_t>(file.size() * place / kPlaces));
      const std::string_view bytes(cut.data(), cut.size());
      const size_t kind = place % std::size(kinds);
      auto decoder = OpenImage(bytes, kinds[kind]);
      if (!decoder.ok()) continue;
      const int64_t height = (*decoder)->info().height, width = (*decoder)->info().width;
      Region region = testing::RandomRegion(random, height, width);
      if (place % 2 == 0) region.top = region.top * static_cast<int64_t>(place) / 400;
      RunArena arena;
      const auto pixels = (*decoder)->DecodeRegion(region, kinds[kind].channels, arena);
      ++(pixels.ok() ? decoded : refused);
      ASSERT_FALSE(pixels.ok() && kinds[kind].verify_full) << "image " << i << ", " << place;
      if (!pixels.ok()) {
        ASSERT_EQ(pixels.status().code(), absl::StatusCode::kDataLoss) << pixels.status();
        continue;
      }
      if (kinds[kind].allow_truncated) whole[kind] = DecodeAll(bytes, kinds[kind]).image;
      const Image& expected = whole[kind];
      ASSERT_EQ(expected.width, width);
      const int64_t channels = kinds[kind].channels;
      for (int64_t y = 0; y < region.height; ++y) {
        const uint8_t* row =
            expected.pixels.data() + ((region.top + y) * width + region.left) * channels;
        ASSERT_TRUE(
            std::equal(row, row + region.width * channels, pixels->data + y * pixels->stride))
            << "image " << i << ", cut at " << place << "/200, row " << y;
      }
    }
  }
  EXPECT_GT(decoded, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(HostileCorpus, RegionDecoderTakesOnlyWhatLibjpegTakes) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  std::mt19937 random(8);
  int taken = 0;
  const auto files = ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz");
  ASSERT_FALSE(files.empty());
  for (size_t i = 0; i < files.size(); ++i) {
    jpeg::RegionDecoder decoder(i % 2 == 0 ? jpeg::BestLevel() : jpeg::Level::kScalar);
    if (!decoder.Open(files[i])) continue;
    const int64_t height = decoder.frame().height, width = decoder.frame().width;
    if (height * width > testing::kMaxTestPixels) continue;
    const Region regions[] = {{0, 0, height, width}, testing::RandomRegion(random, height, width)};
    for (const Region& region : regions) {
      for (const int channels : {1, 3}) {
        const auto agreement = testing::Compare(files[i], region, channels, decoder);
        ASSERT_NE(agreement, testing::Agreement::kDifferent)
            << "file " << i << ": top " << region.top << ", left " << region.left << ", height "
            << region.height << ", width " << region.width << ", " << channels << " channels";
        if (agreement == testing::Agreement::kEqual) ++taken;
      }
    }
  }
  RecordProperty("taken", taken);
}

// One letter for each: O, D (DATA_LOSS), I (INVALID_ARGUMENT), R (RESOURCE_EXHAUSTED).
char LetterOf(const absl::Status& status) {
  return status.ok() ? 'O' : absl::StatusCodeToString(status.code())[0];
}

// How many of the files have which verdict as a whole, in part, with allow_truncated and with
// verify_full; and a hash of all these letters in the order of the files.
TEST(HostileCorpus, VerdictsAreThoseOfTheTable) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz");
  constexpr int64_t kMaxPixels = 1 << 18;
  const RandomResizedCropOptions crop{.height = 16, .width = 16};
  std::string letters;
  std::map<std::string, int> counts;
  for (size_t i = 0; i < files.size(); ++i) {
    std::string verdicts;
    for (const DecodeImageOptions& options :
         {DecodeImageOptions{.max_pixels = kMaxPixels},
          DecodeImageOptions{.max_pixels = kMaxPixels, .allow_truncated = true},
          DecodeImageOptions{.max_pixels = kMaxPixels, .verify_full = true}}) {
      verdicts += LetterOf(testing::Decode(files[i], options).status);
      if (options.allow_truncated || options.verify_full) continue;
      verdicts += LetterOf(testing::DecodeCrop(files[i], options, crop, i).status);
    }
    ++counts[verdicts];
    letters += verdicts;
  }
  std::string table;
  for (const auto& [verdicts, count] : counts) {
    table += verdicts + " " + std::to_string(count) + "\n";
  }
  EXPECT_EQ(table, "DDDD 1250\nDDID 767\nDDOD 577\nIIII 632\nOOOD 28\nOOOO 16\n");
  EXPECT_EQ(HashName(letters), 9651342326780670377u);
}

TEST(HostileCorpus, EveryFileEndsInAStatus) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz");
  ASSERT_FALSE(files.empty());
  int64_t decoded = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const DecodeImageOptions options{.max_pixels = 1 << 20};
    const testing::DecodeResult whole = testing::Decode(files[i], options);
    const testing::DecodeResult crop = testing::DecodeCrop(files[i], options, {}, i);
    // What decodes as a whole decodes by region, to the same bits.
    if (!whole.status.ok()) continue;
    ++decoded;
    ASSERT_TRUE(crop.status.ok()) << "file " << i << ": " << crop.status;
    ASSERT_EQ(crop.image, testing::DecodeThenCrop(files[i], options, {}, i).image) << "file " << i;
  }
  RecordProperty("files", static_cast<int>(files.size()));
  RecordProperty("decoded", static_cast<int>(decoded));
}

}  // namespace
}  // namespace millrace::augment
