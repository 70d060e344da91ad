#include "readers/exif.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "augment/codec/decoder.h"
#include "readers/image_header.h"
#include "tests/augment/image_testing.h"

// apply_exif_orientation: where the orientation is read, and that crops are of the upright image.

namespace millrace::augment {
namespace {

using testing::Crop;
using testing::EncodeJpeg;
using testing::EncodePng;
using testing::Image;
using testing::MakeImage;
using testing::WithExif;

constexpr int kHeight = 43, kWidth = 61;

std::vector<std::string> Images() {
  const Image image = MakeImage(kHeight, kWidth, 3, 4);
  return {EncodeJpeg(image), EncodeJpeg(image, {2, 2}), EncodeJpeg(image, {2, 2, true}),
          EncodePng(kHeight, kWidth, 2, 8, image.pixels)};
}

// Where the stored image's row 0 and column 0 are seen (Exif 2.3, tag Orientation).
struct Seen {
  const char* row;
  const char* column;
};
constexpr Seen kSeen[] = {{"top", "left"},     {"top", "right"},  {"bottom", "right"},
                          {"bottom", "left"},  {"left", "top"},   {"right", "top"},
                          {"right", "bottom"}, {"left", "bottom"}};

Image Upright(const Image& stored, int orientation) {
  const std::string row = kSeen[orientation - 1].row, column = kSeen[orientation - 1].column;
  const bool rows_are_seen_as_rows = row == "top" || row == "bottom";
  Image upright{stored.height, stored.width, stored.channels, stored.pixels};
  if (!rows_are_seen_as_rows) std::swap(upright.height, upright.width);
  for (int64_t y = 0; y < stored.height; ++y) {
    for (int64_t x = 0; x < stored.width; ++x) {
      const bool from_end_y = row == "bottom" || row == "right";
      const bool from_end_x = column == "bottom" || column == "right";
      const int64_t along_rows = from_end_y ? stored.height - 1 - y : y;
      const int64_t along_columns = from_end_x ? stored.width - 1 - x : x;
      const int64_t to_y = rows_are_seen_as_rows ? along_rows : along_columns;
      const int64_t to_x = rows_are_seen_as_rows ? along_columns : along_rows;
      for (int c = 0; c < stored.channels; ++c) {
        upright.pixels[(to_y * upright.width + to_x) * stored.channels + c] =
            stored.pixels[(y * stored.width + x) * stored.channels + c];
      }
    }
  }
  return upright;
}

// S-IMAGE-1.
TEST(Exif, EveryOrientationIsReadInBothByteOrders) {
  for (const std::string& encoded : Images()) {
    EXPECT_EQ(readers::ReadOrientation(encoded), 1);
    for (int orientation = 1; orientation <= 8; ++orientation) {
      for (const bool big_endian : {false, true}) {
        const std::string turned = WithExif(encoded, orientation, big_endian);
        EXPECT_EQ(readers::ReadOrientation(turned), orientation);
        const auto header = readers::ReadImageHeader(turned);
        ASSERT_TRUE(header.ok());
        EXPECT_EQ(header->orientation, orientation);
        EXPECT_EQ(header->height, kHeight);
      }
    }
    EXPECT_EQ(readers::ReadOrientation(WithExif(encoded, 0)), 1);
    EXPECT_EQ(readers::ReadOrientation(WithExif(encoded, 9)), 1);
  }
}

// S-IMAGE-1.
TEST(Exif, CutOrChangedDataAreUprightAndNeverReadPastTheEnd) {
  for (const std::string& encoded : Images()) {
    const std::string turned = WithExif(encoded, 6);
    for (size_t size = 0; size < 200; ++size) {
      const std::unique_ptr<char[]> exact(new char[size]);
      std::copy_n(turned.begin(), size, exact.get());
      const int orientation = readers::ReadOrientation({exact.get(), size});
      EXPECT_TRUE(orientation == 1 || orientation == 6) << size;
    }
    for (size_t at = 0; at < 120; ++at) {
      for (const char value : {'\0', '\x7f', '\xff'}) {
        std::string changed = turned;
        changed[at] = value;
        const int orientation = readers::ReadOrientation(changed);
        EXPECT_TRUE(orientation >= 1 && orientation <= 8) << at;
      }
    }
  }
}

// S-IMAGE-1.
TEST(Exif, ImagesStandUprightOnlyWhenAskedTo) {
  for (const std::string& encoded : Images()) {
    const Image stored = testing::Decode(encoded, {}).image;
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const std::string turned = WithExif(encoded, orientation);
      EXPECT_EQ(testing::Decode(turned, {}).image, stored);
      const auto upright = testing::Decode(turned, {.apply_exif_orientation = true});
      ASSERT_TRUE(upright.status.ok()) << upright.status;
      EXPECT_EQ(upright.image, Upright(stored, orientation)) << orientation;
      const auto grey = testing::Decode(turned, {.channels = 1, .apply_exif_orientation = true});
      EXPECT_EQ(grey.image, Upright(testing::Decode(encoded, {.channels = 1}).image, orientation));
    }
  }
}

// S-ROUND-2.
TEST(Exif, CropsAreOfTheUprightImage) {
  const DecodeImageOptions decode{.apply_exif_orientation = true};
  for (const std::string& encoded : Images()) {
    const Image stored = testing::Decode(encoded, {}).image;
    for (int orientation = 2; orientation <= 8; ++orientation) {
      const std::string turned = WithExif(encoded, orientation);
      const Image upright = Upright(stored, orientation);
      RunArena arena;
      const Region region{5, 3, 11, 17};
      const auto decoder = OpenImage(turned, decode);
      ASSERT_TRUE(decoder.ok());
      const auto pixels = (*decoder)->DecodeRegion(region, 3, arena);
      ASSERT_TRUE(pixels.ok());
      Image got{region.height, region.width, 3, {}};
      for (int64_t y = 0; y < region.height; ++y) {
        const uint8_t* row = pixels->data + y * pixels->stride;
        got.pixels.insert(got.pixels.end(), row, row + region.width * 3);
      }
      EXPECT_EQ(got, Crop(upright, 5, 3, 11, 17)) << orientation;
      for (uint64_t record = 0; record < 6; ++record) {
        const RandomResizedCropOptions crop{.height = 9, .width = 7};
        const auto fused = testing::DecodeCrop(turned, decode, crop, record);
        const auto separate = testing::DecodeThenCrop(turned, decode, crop, record);
        ASSERT_TRUE(fused.status.ok() && separate.status.ok());
        EXPECT_EQ(fused.image, separate.image) << orientation;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::augment
