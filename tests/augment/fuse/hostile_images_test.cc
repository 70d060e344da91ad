#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "augment/image_recoder.h"
#include "base/record_error.h"
#include "tests/augment/chain_testing.h"
#include "tests/augment/image_testing.h"
#include "tests/augment/jpeg/jpeg_testing.h"
#include "tests/augment/tar_testing.h"
#include "tests/sanitized.h"

// The fuzzing cases of hostile-jpeg.tar.xz, where MILLRACE_TEST_DATA names its folder, on every
// path; what they take of memory is hostile_memory_test.cc.

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
  EXPECT_EQ(table, "DDDD 1250\nDDID 47\nDDOD 521\nDOOD 4\nIIID 720\nIIII 632\nOOOD 80\nOOOO 16\n");
  EXPECT_EQ(HashName(letters), 18015613164458382315u);
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
  const auto files = Sampled(testing::ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz"));
  ASSERT_EQ(files.size(), Rounds(kFiles));
  const std::string good = testing::EncodeJpeg(testing::MakeImage(40, 50, 3, 1), {2, 2});
  std::vector<std::string_view> rows;
  for (size_t i = 0; i < files.size(); ++i) {
    if (i % 5 == 0) rows.push_back(good);
    rows.push_back(files[i]);
  }
  for (const DecodeImageOptions& options : kKinds) {
    const int ok = testing::ExpectRunsAreRowsAlone(rows, 31, options, {.height = 12, .width = 12});
    ASSERT_FALSE(HasFailure()) << "kind " << &options - kKinds;
    EXPECT_GE(ok, static_cast<int>(Rounds(kFiles) / 5));
  }
}

// The crop with a box, as one op with decode_image or behind it.
testing::Ops CropWithBox(const DecodeImageOptions& decode, const CropOptions& crop, bool as_one) {
  TargetsOptions targets{{}, BoxOptions(), ""};
  std::visit([&](const auto& options) { targets.geometry = options; }, crop);
  testing::Ops ops;
  if (as_one) {
    testing::AddOp(MakeDecodeWithTargets(decode, targets, "crop"), ops);
  } else {
    testing::AddOp(MakeDecodeImageToCrop(decode, crop, "crop"), ops);
    testing::AddOp(MakeWithTargets(targets, "crop"), ops);
  }
  return ops;
}

testing::Ops CropAlone(const DecodeImageOptions& decode, const CropOptions& crop) {
  testing::Ops ops;
  testing::AddOp(MakeDecodeCrop(decode, crop, "crop"), ops);
  return ops;
}

// S-ROUND-2: crops of given extents, within the image and beyond it, with a box and without.
TEST(HostileCorpus, CropsOfGivenExtentsAreTheSameAsOneOpAndAsTwo) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = Sampled(testing::ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz"));
  ASSERT_EQ(files.size(), Rounds(kFiles));
  const CropOptions crops[] = {CenterCropOptions{.height = 12, .width = 9},
                               CenterCropOptions{.height = 300, .width = 301},
                               RandomCropOptions{.height = 12, .width = 9}};
  for (const DecodeImageOptions& decode : {kKinds[0], kKinds[2], kKinds[3], kKinds[4]}) {
    for (const CropOptions& crop : crops) {
      const testing::Ops one = CropWithBox(decode, crop, true);
      const testing::Ops two = CropWithBox(decode, crop, false);
      const testing::Ops alone = CropAlone(decode, crop);
      int ok = 0;
      for (size_t first = 0; first < files.size(); first += 31) {
        const size_t end = std::min(first + 31, files.size());
        const std::vector<std::string_view> group(&files[first], &files[first] + (end - first));
        const auto together = testing::RunOps(one, group, first);
        const auto apart = testing::RunOps(two, group, first);
        const auto image = testing::RunOps(alone, group, first);
        for (size_t row = 0; row < group.size(); ++row) {
          ASSERT_TRUE(together[row] == apart[row])
              << "file " << first + row << ": " << together[row].status << ", but "
              << apart[row].status;
          ASSERT_EQ(together[row].status, image[row].status) << "file " << first + row;
          if (together[row].status.ok()) ++ok;
        }
      }
      EXPECT_GE(ok, 10 / static_cast<int>(SampleStride())) << "crop " << crop.index();
    }
  }
}

// The pixels that are asked for do not change which files are refused; of five with two faults it
// is the other one that a decode to grey meets.
TEST(HostileCorpus, VerdictsAreThoseOfEveryKindOfPixels) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = testing::ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz");
  ASSERT_EQ(files.size(), kFiles);
  int other_codes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const absl::Status plain = testing::Decode(files[i], kKinds[0]).status;
    for (const DecodeImageOptions& options : kKinds) {
      if (options.allow_truncated || options.verify_full || options.dct_downscale) continue;
      const DecodeResult result = testing::Decode(files[i], options);
      ASSERT_EQ(result.status.ok(), plain.ok())
          << "file " << i << ", kind " << &options - kKinds << ": " << result.status;
      if (result.status.ok()) continue;
      if (result.status.code() != plain.code()) ++other_codes;
      ASSERT_EQ(GetRecordError(result.status)->reason, RecordErrorReason::kImage);
    }
  }
  EXPECT_EQ(other_codes, 5);
}

// S-IMAGE-6.
TEST(HostileCorpus, PeekedShapesAreThoseOfDecodedImages) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = Sampled(testing::ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz"));
  ASSERT_EQ(files.size(), Rounds(kFiles));
  int peeked = 0, refused = 0;
  for (const bool upright : {false, true}) {
    auto op = MakePeekImageShape({.apply_exif_orientation = upright});
    ASSERT_TRUE(op.ok()) << op.status();
    testing::TestRun run(static_cast<int64_t>(files.size()));
    run.AddBytes("image/encoded", files);
    testing::ResolveAndApply(**op, testing::EncodedSchema(), *run);
    for (size_t i = 0; i < files.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      const DecodeResult decoded =
          testing::Decode(files[i], {.apply_exif_orientation = upright, .max_pixels = kMaxPixels});
      if (!run->ok(row)) {
        ++refused;
        ASSERT_EQ(decoded.status.code(), run->status(row).code())
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
  EXPECT_GT(peeked, Rounds(1000));
  EXPECT_GT(refused, Rounds(100));
}

// Shrunk, as pixels and as grey: what is damaged for decode_image is so for a conversion.
TEST(HostileCorpus, RecodesEndInDecodeImagesVerdict) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  const auto files = Sampled(testing::ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz"));
  ASSERT_EQ(files.size(), Rounds(kFiles));
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
  EXPECT_GT(recoded, Rounds(30));
}

}  // namespace
}  // namespace millrace::augment
