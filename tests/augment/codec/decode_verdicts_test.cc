#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <vector>

#include "base/record_error.h"
#include "tests/augment/chain_testing.h"
#include "tests/augment/image_testing.h"
#include "tests/augment/jpeg/jpeg_testing.h"
#include "tests/sanitized.h"

// Damaged files: a table of verdicts, and every path of decoding over images that were cut
// anywhere.
//
// testdata/verdicts.txt is a golden table: it pins the verdicts that libjpeg-turbo and libspng
// reach about damaged files, which no standard defines. It shows an unwanted change of ours, but
// another version of either library may change lines too. Look at each changed line after writing
// it anew:
//   MILLRACE_UPDATE_VERDICTS=1 ctest --test-dir build/dev -R augment_decode_verdicts

namespace millrace::augment {
namespace {

using testing::DecodeResult;
using testing::EncodeJpeg;
using testing::EncodePng;
using testing::Image;
using testing::MakeImage;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string WithByte(std::string bytes, size_t at, int change) {
  bytes[at] = static_cast<char>(bytes[at] ^ change);
  return bytes;
}

// Ways to damage a file, by name.
std::map<std::string, std::string> Damages(const std::string& good) {
  std::map<std::string, std::string> damages;
  const size_t size = good.size();
  damages["none"] = good;
  damages["empty"] = "";
  damages["more behind the end"] = good + std::string(40, '\x5A');
  for (const size_t missing : {1, 2, 4, 12, 13, 16}) {
    damages["without the last " + std::to_string(missing)] = good.substr(0, size - missing);
  }
  for (size_t eighth = 1; eighth < 8; ++eighth) {
    const std::string place = " at " + std::to_string(eighth) + "/8";
    const size_t at = size * eighth / 8;
    damages["cut" + place] = good.substr(0, at);
    damages["bit" + place] = WithByte(good, at, 0x10);
    damages["8 bytes taken out" + place] = good.substr(0, at) + good.substr(std::min(at + 8, size));
    damages["8 zeros" + place] =
        good.substr(0, at) + std::string(8, '\0') + good.substr(std::min(at + 8, size));
    damages["end mark" + place] = good.substr(0, at) + "\xFF\xD9" + good.substr(at);
  }
  return damages;
}

// "ok" with the pixels of the undamaged file, "other" with other ones, or the code.
std::string Verdict(const DecodeResult& result, const Image& good) {
  if (result.status.ok()) return result.image == good ? "ok" : "other";
  return absl::StatusCodeToString(result.status.code());
}

// Each fixture under each damage: as a whole, the crop of a record in one op and in two, with
// allow_truncated and with verify_full.
std::string Table(const std::filesystem::path& fixtures) {
  const RandomResizedCropOptions crop{.height = 6, .width = 6, .area = {0.05f, 0.2f}};
  std::vector<std::filesystem::path> files;
  for (const char* folder : {"jpeg", "png"}) {
    for (const auto& entry : std::filesystem::directory_iterator(fixtures / folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::ostringstream table;
  for (const auto& path : files) {
    const std::string good = ReadFile(path);
    const Image whole = testing::Decode(good, {}).image;
    const Image part = testing::DecodeCrop(good, {}, crop, 1).image;
    for (const auto& [name, bytes] : Damages(good)) {
      const std::string one = Verdict(testing::DecodeCrop(bytes, {}, crop, 1), part);
      EXPECT_EQ(one, Verdict(testing::DecodeToCropThenCrop(bytes, {}, crop, 1), part)) << name;
      table << path.filename().string() << ", " << name << ": "
            << Verdict(testing::Decode(bytes, {}), whole) << " | " << one << " | "
            << Verdict(testing::Decode(bytes, {.allow_truncated = true}), whole) << " | "
            << Verdict(testing::Decode(bytes, {.verify_full = true}), whole) << "\n";
    }
  }
  return table.str();
}

// S-IMAGE-2.
TEST(DecodeVerdicts, AreThoseOfTheTable) {
  const char* const root = std::getenv("MILLRACE_SOURCE_DIR");
  ASSERT_NE(root, nullptr);
  const std::filesystem::path tests = std::filesystem::path(root) / "tests";
  const std::filesystem::path golden = tests / "augment/testdata/verdicts.txt";
  const std::string table = Table(tests / "fixtures");
  const std::string pinned = ReadFile(golden);
  size_t begin = 0;  // of the table, behind the comments
  while (pinned.substr(begin, 1) == "#") begin = pinned.find('\n', begin) + 1;
  if (std::getenv("MILLRACE_UPDATE_VERDICTS") != nullptr) {
    std::ofstream(golden, std::ios::binary) << pinned.substr(0, begin) << table;
    return;
  }
  std::istringstream expected_lines(pinned.substr(begin)), lines(table);
  std::string expected, line;
  while (std::getline(expected_lines, expected)) {
    line.clear();
    std::getline(lines, line);
    ASSERT_EQ(line, expected);
  }
  EXPECT_FALSE(std::getline(lines, line)) << line;
}

// S-IMAGE-1: where djpeg is missing too.
TEST(DecodePixels, AreTheCommittedOnesOfDjpeg) {
  const std::filesystem::path tests =
      std::filesystem::path(std::getenv("MILLRACE_SOURCE_DIR")) / "tests";
  std::istringstream table(ReadFile(tests / "augment/testdata/djpeg.txt"));
  int num_files = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string name;
    int64_t height = 0, width = 0;
    uLong sum = 0;
    words >> name >> height >> width >> sum;
    ASSERT_FALSE(words.fail()) << line;
    const DecodeResult got = testing::Decode(ReadFile(tests / "fixtures/jpeg" / name), {});
    ASSERT_TRUE(got.status.ok()) << name << ": " << got.status;
    EXPECT_EQ(got.image.height, height) << name;
    EXPECT_EQ(got.image.width, width) << name;
    const std::vector<uint8_t>& pixels = got.image.pixels;
    EXPECT_EQ(crc32(0, pixels.data(), static_cast<uInt>(pixels.size())), sum) << name;
    ++num_files;
  }
  EXPECT_EQ(num_files, 9);
}

// 20 images of every kind that is taken.
std::vector<std::string> Images() {
  std::vector<std::string> images;
  const Image image = MakeImage(61, 83, 3, 1), grey = MakeImage(75, 50, 1, 2);
  for (const int h : {1, 2}) {
    for (const int v : {1, 2}) {
      images.push_back(EncodeJpeg(image, {.h_samp = h, .v_samp = v}));
      images.push_back(EncodeJpeg(image, {.h_samp = h, .v_samp = v, .restart_mcus = 3}));
      images.push_back(EncodeJpeg(image, {.h_samp = h, .v_samp = v, .progressive = true}));
    }
  }
  images.push_back(EncodeJpeg(grey));
  images.push_back(EncodeJpeg(image, {.separate_scans = true}));
  images.push_back(EncodeJpeg(MakeImage(40, 40, 4, 3), {.cmyk = true}));
  images.push_back(EncodeJpeg(image, {.h_samp = 4}));
  images.push_back(EncodePng(61, 83, 2, 8, image.pixels));
  images.push_back(EncodePng(75, 50, 0, 8, grey.pixels));
  images.push_back(EncodePng(61, 83, 2, 8, image.pixels, true));
  images.push_back(EncodePng(75, 50, 3, 8, grey.pixels));
  return images;
}

// The generated JPEGs and those of tests/fixtures.
std::vector<std::string> Jpegs() {
  std::vector<std::string> jpegs = Images();
  std::erase_if(jpegs, [](const std::string& image) { return !image.starts_with("\xFF\xD8"); });
  const std::filesystem::path root = std::getenv("MILLRACE_SOURCE_DIR");
  for (const auto& entry : std::filesystem::directory_iterator(root / "tests/fixtures/jpeg")) {
    if (entry.is_regular_file()) jpegs.push_back(ReadFile(entry.path()));
  }
  EXPECT_GT(jpegs.size(), 20u);
  return jpegs;
}

// S-IMAGE-2.
TEST(DecodeVerdicts, AJpegThatLacksItsEndMarkAloneIsWhole) {
  const RandomResizedCropOptions crop{.height = 6, .width = 6};
  for (const std::string& whole : Jpegs()) {
    ASSERT_TRUE(whole.ends_with("\xFF\xD9"));
    for (const size_t missing : {1, 2}) {
      const std::string cut = whole.substr(0, whole.size() - missing);
      const DecodeResult got = testing::Decode(cut, {});
      ASSERT_TRUE(got.status.ok()) << got.status;
      EXPECT_EQ(got.image, testing::Decode(whole, {}).image);
      EXPECT_EQ(testing::DecodeCrop(cut, {}, crop, 1).image,
                testing::DecodeCrop(whole, {}, crop, 1).image);
      EXPECT_EQ(testing::Decode(cut, {.verify_full = true}).status.code(),
                absl::StatusCode::kDataLoss);
    }
  }
}

// S-IMAGE-2: what is cut is damage, unless all pixels are there.
TEST(DecodeVerdicts, NoPixelOfACutJpegIsInvented) {
  constexpr size_t kEveryByte = 40;  // near the end
  constexpr size_t kStep = 7;
  int refused = 0;
  for (const std::string& whole : Jpegs()) {
    const Image image = testing::Decode(whole, {}).image;
    for (size_t size = 0; size < whole.size();
         size += whole.size() - size <= kEveryByte + kStep ? 1 : kStep) {
      const DecodeResult got = testing::Decode(whole.substr(0, size), {});
      if (got.status.ok()) {
        ASSERT_EQ(got.image, image) << size;
      } else {
        EXPECT_EQ(got.status.code(),
                  size < 3 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kDataLoss)
            << size << got.status;
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

// S-IMAGE-2: scans of a progressive file, too.
TEST(DecodeVerdicts, AProgressiveJpegThatIsCutBetweenScansIsDamaged) {
  const std::string whole = EncodeJpeg(MakeImage(61, 83, 3, 1), {.progressive = true});
  const std::string scan = "\xFF\xDA";
  int num_scans = 0;
  for (size_t at = whole.find(scan); at != whole.npos; at = whole.find(scan, at + 2), ++num_scans) {
    const std::string cut = whole.substr(0, at);
    EXPECT_EQ(testing::Decode(cut, {}).status.code(), absl::StatusCode::kDataLoss) << at;
  }
  EXPECT_GT(num_scans, 5);
}

// S-IMAGE-2: a JFIF marker decides of the colours, and verify_full refuses the other all the same.
TEST(DecodeVerdicts, VerifyFullRefusesAnUnknownAdobeTransform) {
  constexpr size_t kBehindJfif = 20;
  const std::string whole = EncodeJpeg(MakeImage(61, 83, 3, 1));
  ASSERT_EQ(whole.substr(6, 4), "JFIF");
  for (const char transform : {0, 1, 2, 9}) {
    std::string adobe(
        "\xFF\xEE\0\x0E"
        "Adobe\0\x64\0\0\0\0",
        15);
    adobe.insert(adobe.end(), transform);
    std::string bytes = whole;
    bytes.insert(kBehindJfif, adobe);
    EXPECT_EQ(testing::Decode(bytes, {}).image, testing::Decode(whole, {}).image);
    EXPECT_EQ(testing::Decode(bytes, {.verify_full = true}).status.code(),
              transform <= 1 ? absl::StatusCode::kOk : absl::StatusCode::kDataLoss)
        << int{transform};
  }
}

// Works on a copy of exactly the size, for the sanitizers.
void WithExactBytes(std::string_view bytes, const std::function<void(std::string_view)>& work) {
  const std::unique_ptr<char[]> exact(new char[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), exact.get());
  work({exact.get(), bytes.size()});
}

// What docs/semantics.md says of a decoder's memory, and what is left of chunks.
int64_t MemoryBound(const readers::ImageHeader& info) {
  constexpr int64_t kSlack = 32 << 10;
  return 4 * info.height * info.width * 4 + kSlack;
}

// Every way to decode that is worth a sweep; dct_downscale is one of ops with a crop only.
const DecodeImageOptions kKinds[] = {{},
                                     {.channels = 1},
                                     {.allow_truncated = true},
                                     {.verify_full = true},
                                     {.fast_dct = true, .fancy_upsampling = false},
                                     {.apply_exif_orientation = true}};

struct Counts {
  int decoded = 0;
  int refused = 0;
};

// All of an image and a region of it, by a decoder each, within the memory of the rule.
void ExpectRegionOfTheWhole(std::string_view cut, const DecodeImageOptions& options,
                            std::mt19937& random, Counts& counts) {
  auto decoder = OpenImage(cut, options);
  if (!decoder.ok()) return;
  const readers::ImageHeader info = (*decoder)->info();
  RunArena arena(1 << 10), arena_of_region(1 << 10);
  std::vector<uint8_t> pixels(static_cast<size_t>(info.height * info.width * options.channels));
  const absl::Status all = (*decoder)->DecodeAll(options.channels, arena, pixels.data());
  auto again = OpenImage(cut, options);
  const Region region = testing::RandomRegion(random, info.height, info.width);
  const auto part = (*again)->DecodeRegion(region, options.channels, arena_of_region);
  ASSERT_LE(static_cast<int64_t>(arena.capacity_bytes()), MemoryBound(info));
  ASSERT_LE(static_cast<int64_t>(arena_of_region.capacity_bytes()), MemoryBound(info));
  ++(part.ok() ? counts.decoded : counts.refused);
  if (!all.ok()) return;
  ASSERT_TRUE(part.ok()) << part.status();
  for (int64_t y = 0; y < region.height; ++y) {
    const uint8_t* row =
        pixels.data() + ((region.top + y) * info.width + region.left) * options.channels;
    ASSERT_TRUE(
        std::equal(row, row + region.width * options.channels, part->data + y * part->stride));
  }
}

// The generated images and those of tests/fixtures that are small, turned.
std::vector<std::string> ImagesToCut() {
  std::vector<std::string> images = Images();
  EXPECT_EQ(images.size(), 20u);
  const std::filesystem::path root = std::getenv("MILLRACE_SOURCE_DIR");
  for (const char* folder : {"jpeg", "png"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(root / "tests/fixtures" / folder)) {
      if (entry.is_regular_file()) images.push_back(ReadFile(entry.path()));
    }
  }
  EXPECT_EQ(images.size(), 32u);
  for (std::string& image : images) image = testing::WithExif(image, 8);
  return images;
}

// Cut at `kPlaces` places from its begin to its end.
constexpr size_t kPlaces = 200;
std::vector<std::string_view> Cuts(std::string_view whole) {
  std::vector<std::string_view> cuts;
  for (size_t place = 0; place < kPlaces; ++place) {
    cuts.push_back(whole.substr(0, whole.size() * place / kPlaces));
  }
  return cuts;
}

// S-IMAGE-4: whatever is cut, a region's pixels are the whole image's, or there is an error.
TEST(Truncations, EveryDecoderEndsInAVerdictWithinItsMemory) {
  Counts counts;
  std::mt19937 random(2);
  for (const std::string& whole : ImagesToCut()) {
    const std::vector<std::string_view> cuts = Cuts(whole);
    for (size_t place = 0; place < cuts.size(); ++place) {
      WithExactBytes(cuts[place], [&](std::string_view bytes) {
        ExpectRegionOfTheWhole(bytes, kKinds[place % std::size(kKinds)], random, counts);
      });
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(counts.decoded, 3000 / std::ssize(kKinds));
  EXPECT_GT(counts.refused, 3000 / std::ssize(kKinds));
}

// S-ROUND-2, S-ROUND-4: as one op, of several images in a run and of one, and op by op.
TEST(Truncations, EveryPathOfOpsEndsInTheSameVerdict) {
  const RandomResizedCropOptions crop{.height = 9, .width = 9};
  int ok = 0;
  for (const std::string& whole : ImagesToCut()) {
    const std::vector<std::string_view> cuts = Sampled(Cuts(whole));
    for (const DecodeImageOptions& options : kKinds) {
      ok += testing::ExpectRunsAreRowsAlone(cuts, 25, options, crop);
    }
    ok += testing::ExpectRunsAreRowsAlone(cuts, 25, {.dct_downscale = true}, crop);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(ok, Rounds(5000));
}

// S-IMAGE-2: what is refused aside, damage changes no pixel of a region that does not need it.
TEST(Truncations, SmallerTransformsHaveThePixelsOfTheWholeFile) {
  const RandomResizedCropOptions crop{.height = 9, .width = 9};
  const DecodeImageOptions options{.dct_downscale = true};
  int decoded = 0;
  for (const std::string& whole : ImagesToCut()) {
    const std::vector<std::string_view> cuts = Cuts(whole);
    for (size_t place = 0; place < cuts.size(); ++place) {
      const DecodeResult small =
          testing::DecodeCrop(std::string(cuts[place]), options, crop, place);
      if (small.status.ok()) {
        ASSERT_EQ(small.image, testing::DecodeCrop(whole, options, crop, place).image);
        ++decoded;
      } else {
        ASSERT_TRUE(GetRecordError(small.status).has_value()) << small.status;
      }
    }
  }
  EXPECT_GT(decoded, 100);
}

// Each of jpeg::RegionDecoder and libjpeg-turbo alone, over the same cuts.
TEST(Truncations, TheTwoJpegDecodersAgree) {
  std::mt19937 random(3);
  for (const std::string& image : Images()) {
    if (!image.starts_with("\xFF\xD8")) continue;
    for (int place = 0; place < 200; ++place) {
      const size_t size = image.size() * static_cast<size_t>(place) / 200;
      WithExactBytes(std::string_view(image).substr(0, size), [&](std::string_view cut) {
        jpeg::RegionDecoder decoder;
        if (!decoder.Open(cut)) return;
        const Region region =
            testing::RandomRegion(random, decoder.frame().height, decoder.frame().width);
        ASSERT_NE(testing::Compare(cut, region, 3, decoder), testing::Agreement::kDifferent);
      });
    }
  }
}

}  // namespace
}  // namespace millrace::augment
