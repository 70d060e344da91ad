#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "augment/codec/decoder.h"
#include "tests/augment/heap_testing.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"
#include "tests/sanitized.h"

// Limits of decode_image, and what decoding takes of memory within them.

namespace millrace::augment {
namespace {

using testing::DecodeResult;
using testing::EncodeJpeg;
using testing::EncodePng;
using testing::ExpectError;
using testing::HeapBytes;
using testing::Image;
using testing::MakeImage;

// S-IMAGE-4.
TEST(Limits, ScansAreCountedAndTheOptionIsNamed) {
  const std::string jpeg = EncodeJpeg(MakeImage(40, 40, 3, 1), {.progressive = true});
  EXPECT_TRUE(testing::Decode(jpeg, {.max_scans = 10}).status.ok());
  ExpectError(testing::Decode(jpeg, {.max_scans = 9}), absl::StatusCode::kInvalidArgument,
              "more than max_scans 9");
  ExpectError(testing::Decode(jpeg, {.max_scans = 9, .allow_truncated = true}),
              absl::StatusCode::kInvalidArgument, "more than max_scans 9");
}

// Behind the marker that begins scan number `scan`, its header included.
size_t EndOfScanHeader(const std::string& jpeg, int scan) {
  size_t at = 0;
  for (int i = 0; i < scan; ++i) at = jpeg.find("\xFF\xDA", at + 1);
  EXPECT_NE(at, std::string::npos);
  const auto byte = [&](size_t k) { return size_t{static_cast<uint8_t>(jpeg[at + k])}; };
  return at + 2 + (byte(2) << 8 | byte(3));
}

// S-IMAGE-4: passes are what a hostile file costs, and behind the last one that is allowed nothing
// is decoded: noise there, or scans without end, is not even seen.
TEST(Limits, NothingIsDecodedBehindTheLastScanThatIsAllowed) {
  const std::string jpeg = EncodeJpeg(MakeImage(200, 300, 3, 1), {.progressive = true});
  for (const int allowed : {1, 4, 9}) {
    const std::string start = jpeg.substr(0, EndOfScanHeader(jpeg, allowed + 1));
    const std::string scan = start.substr(EndOfScanHeader(jpeg, allowed));
    std::string endless = start;
    for (int i = 0; i < 1000; ++i) endless += scan;
    for (const std::string& file : {start, start + std::string(4000, '\x5A'), endless}) {
      for (const bool allow_truncated : {false, true}) {
        ExpectError(
            testing::Decode(file, {.max_scans = allowed, .allow_truncated = allow_truncated}),
            absl::StatusCode::kInvalidArgument, "more than max_scans " + std::to_string(allowed));
      }
    }
    // Which is not what is said of it where that scan is decoded.
    EXPECT_EQ(testing::Decode(start, {.max_scans = 10}).status.code(), absl::StatusCode::kDataLoss);
  }
}

// S-IMAGE-4.
TEST(Limits, CoefficientsAreCountedAndTheOptionIsNamed) {
  const std::string jpeg = EncodeJpeg(MakeImage(400, 400, 3, 1), {.progressive = true});
  EXPECT_TRUE(testing::Decode(jpeg, {.max_memory_bytes = 2 << 20}).status.ok());
  ExpectError(testing::Decode(jpeg, {.max_memory_bytes = 500'000}),
              absl::StatusCode::kInvalidArgument, "more than max_memory_bytes 500000");
}

// S-IMAGE-4: to the byte, blocks rounded up to whole MCUs.
TEST(Limits, CoefficientsAreCountedInWholeMcus) {
  const std::pair<std::string, int64_t> kinds[] = {
      {EncodeJpeg(MakeImage(8, 6000, 3, 1), {.progressive = true}), 3 * 8 * 6000 * 2},
      // Luma 6 x 4 blocks, chroma 3 x 2, at 128 bytes.
      {EncodeJpeg(MakeImage(17, 33, 3, 1), {.h_samp = 2, .v_samp = 2, .progressive = true}),
       (24 + 6 + 6) * 128},
      {EncodeJpeg(MakeImage(16, 16, 3, 1), {.separate_scans = true}), 3 * 16 * 16 * 2}};
  for (const auto& [jpeg, bytes] : kinds) {
    EXPECT_TRUE(testing::Decode(jpeg, {.max_memory_bytes = bytes}).status.ok()) << bytes;
    for (const int64_t limit : {bytes - 1, int64_t{1}}) {
      ExpectError(testing::Decode(jpeg, {.max_memory_bytes = limit}),
                  absl::StatusCode::kInvalidArgument,
                  "more than max_memory_bytes " + std::to_string(limit));
    }
  }
  // One scan of all components needs none.
  EXPECT_TRUE(
      testing::Decode(EncodeJpeg(MakeImage(64, 64, 3, 1)), {.max_memory_bytes = 1}).status.ok());
}

// S-IMAGE-4.
TEST(Limits, ChunksOfAPngAreCountedAndTheOptionIsNamed) {
  const Image image = MakeImage(9, 9, 3, 1);
  const std::string png = testing::WithChunk(
      EncodePng(9, 9, 2, 8, image.pixels),
      testing::PngChunk("tEXt", "key" + std::string(1, 0) + std::string(5000, 'x')));
  EXPECT_EQ(testing::Decode(png, {}).image, image);
  ExpectError(testing::Decode(png, {.max_memory_bytes = 4000}), absl::StatusCode::kInvalidArgument,
              "max_memory_bytes");
}

// S-IMAGE-4: chunks of types that libspng does not know are read past.
TEST(Limits, UnknownChunksOfAPngAreNotCountedAndManyAreRefused) {
  const Image image = MakeImage(9, 9, 3, 1);
  const std::string png = EncodePng(9, 9, 2, 8, image.pixels);
  const std::string unknown =
      testing::WithChunk(png, testing::PngChunk("abCd", std::string(5000, 'x')));
  EXPECT_EQ(testing::Decode(unknown, {.max_memory_bytes = 4000}).image, image);
  std::string texts;
  for (int i = 0; i < 2000; ++i) texts += testing::PngChunk("tEXt", std::string("k\0v", 3));
  ExpectError(testing::Decode(testing::WithChunk(png, texts), {}),
              absl::StatusCode::kInvalidArgument, "more than libspng takes");
}

// A PNG of 1-bit grey with 16 rows' worth of pixels, or of as many as it says.
std::string NarrowPng(uint32_t height, bool whole) {
  const auto number = [](uint32_t value) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
    return bytes;
  };
  const std::string rows(2 * (whole ? height : 16), '\0');
  uLongf size = compressBound(rows.size());
  std::string deflated(size, '\0');
  compress2(reinterpret_cast<Bytef*>(deflated.data()), &size,
            reinterpret_cast<const Bytef*>(rows.data()), rows.size(), 9);
  deflated.resize(size);
  return "\x89PNG\r\n\x1a\n" +
         testing::PngChunk("IHDR", number(7) + number(height) + std::string("\1\0\0\0\0", 5)) +
         testing::PngChunk("IDAT", deflated) + testing::PngChunk("IEND", "");
}

// S-IMAGE-4: a row of a few bits takes a byte of pixels and one of its filter.
TEST(Limits, AFewBytesCannotClaimManyNarrowRows) {
  constexpr uint32_t kRows = 38'347'922;  // of 7 pixels: as many as max_pixels lets through
  ExpectError(testing::Decode(NarrowPng(kRows, false), {}), absl::StatusCode::kDataLoss,
              "bytes cannot hold");
  const DecodeResult flat = testing::Decode(NarrowPng(1 << 20, true), {.channels = 1});
  ASSERT_TRUE(flat.status.ok()) << flat.status;
  EXPECT_EQ(flat.image.pixels, std::vector<uint8_t>(7 << 20));
}

TEST(Limits, BadOptionsAreNamed) {
  EXPECT_MESSAGE(MakeDecodeImage({.max_scans = 0}).status());
  EXPECT_MESSAGE(MakeDecodeImage({.max_memory_bytes = -1}).status());
  EXPECT_MESSAGE(MakeDecodeImage({.verify_full = true, .allow_truncated = true}).status());
  for (const auto& op : {MakeDecodeImage({.dct_downscale = true}).status(),
                         MakeDecodeImageToCrop({.dct_downscale = true}, {}, "s").status()}) {
    EXPECT_MESSAGE(op, "dct_downscale");
  }
}

// --- memory ---

// What docs/semantics.md says: four bytes a pixel, four times, of whole MCUs and a row of them
// more.
int64_t MemoryBound(const Image& image, int64_t mcu_height, int64_t mcu_width) {
  constexpr int64_t kSlack = 256 << 10;  // tables and the like
  const int64_t rows = (image.height + mcu_height - 1) / mcu_height + 1;
  const int64_t columns = (image.width + mcu_width - 1) / mcu_width;
  return 4 * 4 * rows * mcu_height * columns * mcu_width + kSlack;
}

struct Footprint {
  std::string name;
  std::string encoded;
  int64_t bound;
};

std::vector<Footprint> Footprints() {
  std::vector<Footprint> footprints;
  for (const auto& [height, width] :
       {std::pair<int64_t, int64_t>(1, 65500), {65500, 1}, {600, 700}}) {
    for (const auto& [h, v] : {std::pair(1, 1), {2, 2}, {4, 2}, {2, 4}}) {
      for (const bool progressive : {false, true}) {
        const Image image = MakeImage(height, width, 3, 1);
        // Coefficients: three components of two bytes, at most.
        const int64_t bound = MemoryBound(image, 8 * v, 8 * h);
        footprints.push_back(
            {std::to_string(height) + " x " + std::to_string(width) + ", " + std::to_string(h) +
                 std::to_string(v) + (progressive ? " progressive" : ""),
             EncodeJpeg(image, {.h_samp = h, .v_samp = v, .progressive = progressive}),
             progressive ? bound + bound * 6 / 16 : bound});
      }
    }
    const Image image = MakeImage(height, width, 3, 1);
    footprints.push_back({std::to_string(height) + " x " + std::to_string(width) + " png",
                          EncodePng(height, width, 2, 8, image.pixels), MemoryBound(image, 1, 1)});
  }
  return footprints;
}

// How a decoder is asked for an image: all of it, or three quarters by three quarters of it.
enum class Way { kWhole, kPart, kSmallPart };

// Whether it succeeds is of no interest: damaged images cost memory too.
void DecodeBy(Way way, ImageDecoder& decoder, RunArena& arena) {
  const int64_t height = decoder.info().height, width = decoder.info().width;
  const Region region{height / 4, width / 4, height - height / 4, width - width / 4};
  Region scaled;
  if (way == Way::kWhole) {
    const std::unique_ptr<uint8_t[]> out(new uint8_t[static_cast<size_t>(height * width * 3)]);
    static_cast<void>(decoder.DecodeAll(3, arena, out.get()));
  } else if (way == Way::kPart) {
    static_cast<void>(decoder.DecodeRegion(region, 3, arena));
  } else {
    static_cast<void>(decoder.DecodeScaled(region, 2, 3, arena, &scaled));
  }
}

// S-IMAGE-4: whole, in part and small, flat images too. The decoder still has all that it took.
TEST(Memory, IsWithinFourTimesTheImageInWholeMcus) {
  if (kSanitized) GTEST_SKIP() << "malloc is a sanitizer's";
  ASSERT_TRUE(testing::Counts(HeapBytes));
  const DecodeImageOptions kinds[] = {{},
                                      {.allow_truncated = true},
                                      {.fast_dct = true},
                                      {.apply_exif_orientation = true, .allow_truncated = true}};
  for (const Footprint& footprint : Footprints()) {
    const std::string whole = testing::WithExif(footprint.encoded, 6);
    for (const bool cut : {false, true}) {
      const std::string encoded = whole.substr(0, whole.size() * (cut ? 7 : 8) / 8);
      for (const DecodeImageOptions& options : kinds) {
        for (const Way way : {Way::kWhole, Way::kPart, Way::kSmallPart}) {
          const int64_t before = HeapBytes();
          RunArena arena(1 << 10);
          auto decoder = OpenImage(encoded, options);
          ASSERT_TRUE(decoder.ok()) << decoder.status();
          DecodeBy(way, **decoder, arena);
          EXPECT_LE(HeapBytes() - before, footprint.bound)
              << footprint.name << ", way " << static_cast<int>(way) << (cut ? ", cut" : "");
        }
      }
    }
  }
}

// S-IMAGE-4: a region that has to be read again as a whole does not cost the coefficients twice.
TEST(Memory, OfAFirstDecodeIsGivenBackBeforeTheSecond) {
  if (kSanitized) GTEST_SKIP() << "malloc is a sanitizer's";
  ASSERT_TRUE(testing::Counts(HeapBytes));
  const std::string whole = EncodeJpeg(MakeImage(600, 700, 3, 1), {.progressive = true});
  const std::string cut = whole.substr(0, whole.size() * 99 / 100);  // in the last scan
  constexpr int64_t kCoefficientBytes = 3 * 600 * 704 * 2;
  RunArena arena(8 << 20);
  arena.Allocate(1);
  const int64_t before = HeapBytes();
  auto decoder = OpenImage(cut, DecodeImageOptions{.allow_truncated = true});
  ASSERT_TRUE(decoder.ok()) << decoder.status();
  ASSERT_TRUE((*decoder)->DecodeRegion({10, 10, 20, 20}, 3, arena).ok());
  EXPECT_LT(HeapBytes() - before, kCoefficientBytes / 2);
}

// What the process holds of memory that is its own.
int64_t ResidentBytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) << 10;
  }
  return -1;
}

// S-IMAGE-4: memory that is only reserved costs nothing, and a file that has no pixels writes none.
TEST(Memory, OfAFewBytesThatClaimALargeImageIsNotTouched) {
  constexpr int64_t kSide = 6000;
  const std::string side{0, 0, kSide >> 8, kSide & 255};
  const std::string png =
      "\x89PNG\r\n\x1a\n" + testing::PngChunk("IHDR", side + side + std::string("\10\2\0\0\0", 5)) +
      testing::PngChunk("IDAT", std::string(20, '\x78')) + testing::PngChunk("IEND", "");
  ASSERT_EQ(png.size(), 77u);
  const std::vector<std::string> files(4, png);
  const CropOptions crops[] = {CenterCropOptions{.height = 8, .width = 8},
                               RandomCropOptions{.height = 8, .width = 8},
                               RandomCropOptions{.height = kSide + 1, .width = 8}};
  for (const CropOptions& crop : crops) {
    const auto op = MakeDecodeImageToCrop({}, crop, "crop");
    ASSERT_TRUE(op.ok()) << op.status();
    testing::TestRun run(static_cast<int64_t>(files.size()));
    run.AddBytes("image/encoded", files);
    const int64_t before = ResidentBytes();
    testing::ResolveAndApply(**op, testing::EncodedSchema(), *run);
    EXPECT_LT(ResidentBytes() - before, kSide * kSide * 3 / 4) << "crop " << crop.index();
  }
}

}  // namespace
}  // namespace millrace::augment
