#include "readers/image_header.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include "tests/messages.h"
#include "tests/readers/image_fixtures.h"

namespace millrace::readers {
namespace {

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

// Signature and IHDR chunk of a PNG, by its specification.
std::string PngHead(uint32_t height, uint32_t width, char color_type) {
  const std::string chunk =
      "IHDR" + BigEndian(width) + BigEndian(height) + std::string({8, color_type, 0, 0, 0});
  const uLong crc =
      crc32(0, reinterpret_cast<const Bytef*>(chunk.data()), static_cast<uInt>(chunk.size()));
  return "\x89PNG\r\n\x1a\n" + BigEndian(13) + chunk + BigEndian(static_cast<uint32_t>(crc));
}

TEST(ImageHeaderTest, TellsFormatAndSize) {
  const std::string encoded = MakeJpeg(12, 34);
  const auto jpeg = ReadImageHeader(encoded);
  ASSERT_TRUE(jpeg.ok()) << jpeg.status();
  EXPECT_EQ(jpeg->format, "jpeg");
  EXPECT_EQ(jpeg->height, 12);
  EXPECT_EQ(jpeg->width, 34);
  EXPECT_EQ(jpeg->channels, 3);
}

TEST(ImageHeaderTest, NoPixelOfAPngIsNeeded) {
  constexpr std::pair<char, int> kChannels[] = {{0, 1}, {2, 3}, {3, 3}, {4, 2}, {6, 4}};
  for (const auto& [color_type, channels] : kChannels) {
    const auto png = ReadImageHeader(PngHead(2'000'000'000, 7, color_type));
    ASSERT_TRUE(png.ok()) << png.status();
    EXPECT_EQ(png->format, "png");
    EXPECT_EQ(png->height, 2'000'000'000);
    EXPECT_EQ(png->width, 7);
    EXPECT_EQ(png->channels, channels) << int{color_type};
  }
}

TEST(ImageHeaderTest, CutHeadersAreDataLoss) {
  const std::string png = PngHead(3, 4, 2);
  for (size_t size = 8; size < png.size() - 4; ++size) {  // without the CRC all is there
    EXPECT_EQ(ReadImageHeader(png.substr(0, size)).status().code(), absl::StatusCode::kDataLoss);
  }
  const std::string jpeg = MakeJpeg(3, 4);
  EXPECT_EQ(ReadImageHeader(jpeg.substr(0, 40)).status().code(), absl::StatusCode::kDataLoss);
}

TEST(ImageHeaderTest, OtherFormatsAreNamed) {
  const auto gif = ReadImageHeader("GIF89a......");
  EXPECT_EQ(gif.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(gif.status());
  EXPECT_MESSAGE(ReadImageHeader("").status(), "empty");
  EXPECT_MESSAGE(ReadImageHeader(std::string("II*\0\x08\0\0\0", 8)).status());
  EXPECT_MESSAGE(ReadImageHeader("version https://git-lfs.github.com/spec/v1\noid").status());
  EXPECT_EQ(ReadImageHeader("").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::readers
