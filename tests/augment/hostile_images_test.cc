#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "augment/image_decoder_internal.h"
#include "augment/image_recoder.h"
#include "base/record_error.h"
#include "chain_testing.h"
#include "heap_testing.h"
#include "image_testing.h"
#include "jpeg_testing.h"
#include "tar_testing.h"

// The fuzzing cases of hostile-jpeg.tar.xz, where MILLRACE_TEST_DATA names its folder, on every path.

namespace millrace::augment {
namespace {

using testing::DecodeResult;

constexpr size_t kFiles = 3270;

TEST(HostileCorpus, RegionDecoderTakesOnlyWhatLibjpegTakes) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  std::mt19937 random(8);
  int taken = 0;
  const auto files = testing::ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz");
  ASSERT_EQ(files.size(), kFiles);
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
  const auto files = testing::ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz");
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
  const auto files = testing::ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz");
  ASSERT_EQ(files.size(), kFiles);
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

constexpr int64_t kMaxPixels = 1 << 18;

// With each option that changes what is decoded, or how.
const DecodeImageOptions kKinds[] = {{.max_pixels = kMaxPixels},
                                     {.channels = 1, .max_pixels = kMaxPixels},
                                     {.apply_exif_orientation = true, .max_pixels = kMaxPixels},
                                     {.max_pixels = kMaxPixels, .verify_full = true},
                                     {.max_pixels = kMaxPixels, .allow_truncated = true},
                                     {.max_pixels = kMaxPixels, .fast_dct = true},
                                     {.max_pixels = kMaxPixels, .fancy_upsampling = false},
                                     {.max_pixels = kMaxPixels, .dct_downscale = true}};

// S-ROUND-2, S-ROUND-4: beside good images and alone, as one op and as several.
TEST(HostileCorpus, RunsOfSeveralFilesHaveTheRowsOfEachAlone) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = testing::ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz");
  ASSERT_EQ(files.size(), kFiles);
  const std::string good = testing::EncodeJpeg(testing::MakeImage(40, 50, 3, 1), {2, 2});
  std::vector<std::string_view> rows;
  for (size_t i = 0; i < files.size(); ++i) {
    if (i % 5 == 0) rows.push_back(good);
    rows.push_back(files[i]);
  }
  for (const DecodeImageOptions& options : kKinds) {
    const int ok = testing::ExpectRunsAreRowsAlone(rows, 31, options, {.height = 12, .width = 12});
    ASSERT_FALSE(HasFailure()) << "kind " << &options - kKinds;
    EXPECT_GE(ok, static_cast<int>(kFiles / 5));
  }
}

// The pixels that are asked for do not change which files are refused.
TEST(HostileCorpus, VerdictsAreThoseOfEveryKindOfPixels) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = testing::ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz");
  ASSERT_EQ(files.size(), kFiles);
  for (size_t i = 0; i < files.size(); ++i) {
    const absl::Status plain = testing::Decode(files[i], kKinds[0]).status;
    for (const DecodeImageOptions& options : kKinds) {
      if (options.allow_truncated || options.verify_full || options.dct_downscale) continue;
      const DecodeResult result = testing::Decode(files[i], options);
      ASSERT_EQ(result.status.ok(), plain.ok())
          << "file " << i << ", kind " << &options - kKinds << ": " << result.status;
      if (result.status.ok()) continue;
      ASSERT_EQ(GetRecordError(result.status)->reason, RecordErrorReason::kImage);
    }
  }
}

// S-IMAGE-6.
TEST(HostileCorpus, PeekedShapesAreThoseOfDecodedImages) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = testing::ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz");
  ASSERT_EQ(files.size(), kFiles);
  int peeked = 0, refused = 0;
  for (const bool upright : {false, true}) {
    auto op = MakePeekImageShape({.apply_exif_orientation = upright});
    ASSERT_TRUE(op.ok()) << op.status();
    testing::TestRun run(kFiles);
    run.AddBytes("image/encoded", files);
    testing::ResolveAndApply(**op, testing::EncodedSchema(), *run);
    for (size_t i = 0; i < files.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      const DecodeResult decoded =
          testing::Decode(files[i], {.apply_exif_orientation = upright, .max_pixels = kMaxPixels});
      if (!run->ok(row)) {
        ++refused;
        // With the same code, but that a decode finds what is damaged in front of an unknown kind.
        ASSERT_TRUE(decoded.status.code() == run->status(row).code() ||
                    decoded.status.code() == absl::StatusCode::kDataLoss)
            << "file " << i << ": " << run->status(row) << ", but " << decoded.status;
        continue;
      }
      ++peeked;
      const auto shape = run->Get("image/shape").at(row).as<int64_t>();
      ASSERT_GT(shape[0] * shape[1], 0) << "file " << i;
      if (!decoded.status.ok()) continue;
      ASSERT_EQ(shape[0], decoded.image.height) << "file " << i;
      ASSERT_EQ(shape[1], decoded.image.width) << "file " << i;
    }
  }
  EXPECT_GT(peeked, 1000);
  EXPECT_GT(refused, 100);
}

// Shrunk, as pixels and as grey: what is damaged for decode_image is so for a conversion.
TEST(HostileCorpus, RecodesEndInDecodeImagesVerdict) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = testing::ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz");
  ASSERT_EQ(files.size(), kFiles);
  const auto raw = MakeImageRecoder({.encoding = ImageEncoding::kRaw, .max_pixels = kMaxPixels});
  const auto small = MakeImageRecoder({.max_resolution = 8, .max_pixels = kMaxPixels});
  ASSERT_TRUE(raw.ok() && small.ok());
  int recoded = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const DecodeResult decoded = testing::Decode(files[i], {.max_pixels = kMaxPixels});
    const auto pixels = (*raw)->Recode(files[i]);
    ASSERT_EQ(pixels.status().code(), decoded.status.code()) << "file " << i;
    const auto shrunk = (*small)->Recode(files[i]);
    // One that is small enough is not decoded.
    if (!shrunk.ok()) {
      ASSERT_EQ(shrunk.status().code(), decoded.status.code()) << "file " << i;
    } else if (shrunk->has_value()) {
      ASSERT_TRUE(testing::Decode((*shrunk)->encoded, {}).status.ok()) << "file " << i;
    }
    const auto grey = (*raw)->DecodeGrey(files[i]);
    if (grey.ok()) {
      ASSERT_TRUE(decoded.status.ok()) << "file " << i;
    }
    if (!pixels.ok()) continue;
    ++recoded;
    ASSERT_TRUE(pixels->has_value());
    const readers::RecodedImage& image = **pixels;
    ASSERT_EQ(image.height, decoded.image.height);
    ASSERT_EQ(image.width, decoded.image.width);
    if (image.encoded.size() != decoded.image.pixels.size()) continue;  // grey ones
    ASSERT_TRUE(std::equal(image.encoded.begin(), image.encoded.end(),
                           reinterpret_cast<const char*>(decoded.image.pixels.data())));
  }
  EXPECT_GT(recoded, 30);
}

// What a decoder may take: four times the image, in MCUs as large as there are, and one row of them
// more; the coefficients of four components; the file; tables and the like.
int64_t MemoryBound(const readers::ImageHeader& info, size_t file_bytes) {
  constexpr int64_t kMcu = 32, kSlack = 256 << 10;
  const int64_t rows = (info.height + kMcu - 1) / kMcu + 1;
  const int64_t columns = (info.width + kMcu - 1) / kMcu;
  const int64_t pixels = rows * kMcu * columns * kMcu;
  return 4 * 4 * pixels + 4 * 2 * pixels + static_cast<int64_t>(file_bytes) + kSlack;
}

// S-IMAGE-4: whole and in part. The decoder still has all that it took.
TEST(HostileCorpus, MemoryIsWithinTheBound) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  if (!testing::HeapIsCounted()) GTEST_SKIP() << "malloc is not the C library's";
  const auto files = testing::ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz");
  ASSERT_EQ(files.size(), kFiles);
  int opened = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    for (const DecodeImageOptions& options : kKinds) {
      for (const bool whole : {false, true}) {
        const int64_t before = testing::HeapBytes();
        RunArena arena(1 << 10);
        auto decoder = OpenImage(files[i], options);
        if (!decoder.ok() || !(*decoder)->CheckHeader().ok()) continue;
        const readers::ImageHeader info = (*decoder)->info();
        ++opened;
        if (whole) {
          const auto size = static_cast<size_t>(info.height * info.width * options.channels);
          const std::unique_ptr<uint8_t[]> out(new uint8_t[size]);
          static_cast<void>((*decoder)->DecodeAll(options.channels, arena, out.get()));
        } else {
          const Region region{info.height / 4, info.width / 4, info.height - info.height / 4,
                              info.width - info.width / 4};
          static_cast<void>((*decoder)->DecodeRegion(region, options.channels, arena));
        }
        ASSERT_LE(testing::HeapBytes() - before, MemoryBound(info, files[i].size()))
            << "file " << i << ", kind " << &options - kKinds << ", " << whole;
      }
    }
  }
  EXPECT_GT(opened, 1000);
}

}  // namespace
}  // namespace millrace::augment
