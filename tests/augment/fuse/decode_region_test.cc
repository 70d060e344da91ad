#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "augment/codec/decoder.h"
#include "tests/augment/image_testing.h"

// Whatever region is asked for, its pixels are those of the whole image.

namespace millrace::augment {
namespace {

using testing::EncodeJpeg;
using testing::EncodePng;
using testing::Image;
using testing::JpegShape;
using testing::MakeImage;

constexpr int64_t kMaxPixels = 1 << 24;

Image Whole(const std::string& encoded, int channels) {
  RunArena arena;
  auto decoder = OpenImage(encoded, kMaxPixels);
  EXPECT_TRUE(decoder.ok()) << decoder.status();
  Image image{(*decoder)->info().height, (*decoder)->info().width, channels, {}};
  image.pixels.resize(image.height * image.width * channels);
  EXPECT_TRUE((*decoder)->DecodeAll(channels, arena, image.pixels.data()).ok());
  return image;
}

// True when the region's pixels are those of `whole`.
bool RegionMatches(const std::string& encoded, const Image& whole, const Region& region) {
  RunArena arena;
  auto decoder = OpenImage(encoded, kMaxPixels);
  if (!decoder.ok()) return false;
  const auto pixels = (*decoder)->DecodeRegion(region, whole.channels, arena);
  if (!pixels.ok()) return false;
  const int64_t row_bytes = region.width * whole.channels;
  for (int64_t y = 0; y < region.height; ++y) {
    const uint8_t* expected =
        whole.pixels.data() + ((region.top + y) * whole.width + region.left) * whole.channels;
    if (!std::equal(expected, expected + row_bytes, pixels->data + y * pixels->stride)) {
      return false;
    }
  }
  return true;
}

Region RandomRegion(std::mt19937& random, int64_t height, int64_t width) {
  Region region;
  region.height = 1 + static_cast<int64_t>(random() % height);
  region.width = 1 + static_cast<int64_t>(random() % width);
  if (random() % 4 == 0) region.width = std::min<int64_t>(region.width, 3);
  if (random() % 4 == 0) region.height = std::min<int64_t>(region.height, 3);
  region.top = static_cast<int64_t>(random() % (height - region.height + 1));
  region.left = static_cast<int64_t>(random() % (width - region.width + 1));
  return region;
}

struct NamedShape {
  const char* name;
  JpegShape shape;
  int channels = 3;
};

class RegionOfJpeg : public ::testing::TestWithParam<NamedShape> {};

// S-ROUND-2.
TEST_P(RegionOfJpeg, HasTheWholeImagesBits) {
  std::mt19937 random(5);
  for (int image = 0; image < 40; ++image) {
    const int64_t height = 1 + static_cast<int64_t>(random() % 150);
    const int64_t width = 1 + static_cast<int64_t>(random() % 150);
    const std::string jpeg =
        EncodeJpeg(MakeImage(height, width, GetParam().channels, random()), GetParam().shape);
    const Image whole = Whole(jpeg, image % 4 == 0 ? 1 : 3);
    for (int i = 0; i < 40; ++i) {
      const Region region = RandomRegion(random, height, width);
      ASSERT_TRUE(RegionMatches(jpeg, whole, region))
          << height << " x " << width << ": top " << region.top << ", left " << region.left
          << ", height " << region.height << ", width " << region.width;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RegionOfJpeg,
                         ::testing::Values(NamedShape{"s444", {1, 1}}, NamedShape{"s420", {2, 2}},
                                           NamedShape{"s422", {2, 1}}, NamedShape{"s440", {1, 2}},
                                           NamedShape{"s411", {4, 1}}, NamedShape{"s410", {4, 2}},
                                           NamedShape{"s441", {1, 4}}, NamedShape{"grey", {}, 1},
                                           NamedShape{"progressive", {2, 2, true}},
                                           NamedShape{"progressive422", {2, 1, true}},
                                           NamedShape{"restarts", {2, 2, false, 1}},
                                           NamedShape{"cmyk", {.cmyk = true}, 4}),
                         [](const auto& test) { return test.param.name; });

// S-ROUND-2.
TEST(RegionOfPng, HasTheWholeImagesBits) {
  std::mt19937 random(6);
  const Image image = MakeImage(53, 31, 3, 1);
  const std::string png = EncodePng(53, 31, 2, 8, image.pixels);
  for (int channels : {1, 3}) {
    const Image whole = Whole(png, channels);
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(RegionMatches(png, whole, RandomRegion(random, 53, 31)));
    }
  }
}

// S-ROUND-2.
TEST(FusedDecodeAndCrop, HasTheBitsOfTheTwoOps) {
  std::mt19937 random(8);
  for (uint64_t record = 0; record < 60; ++record) {
    const int h_samp = 1 + static_cast<int>(random() % 2);
    const int v_samp = 1 + static_cast<int>(random() % 2);
    const std::string jpeg =
        EncodeJpeg(MakeImage(20 + random() % 200, 20 + random() % 200, 3, random()),
                   {.h_samp = h_samp, .v_samp = v_samp});
    const RandomResizedCropOptions crop{.height = 1 + static_cast<int64_t>(random() % 80),
                                        .width = 1 + static_cast<int64_t>(random() % 80)};
    const DecodeImageOptions decode{.channels = record % 3 == 0 ? 1 : 3};
    const auto fused = testing::DecodeCrop(jpeg, decode, crop, record);
    const auto separate = testing::DecodeThenCrop(jpeg, decode, crop, record);
    ASSERT_TRUE(fused.status.ok()) << fused.status;
    ASSERT_TRUE(separate.status.ok()) << separate.status;
    ASSERT_EQ(fused.image, separate.image) << "record " << record;
  }
}

// S-ROUND-2.
TEST(FusedDecodeAndCrop, DamageInsideTheRegionIsAnErrorInBoth) {
  const std::string jpeg = EncodeJpeg(MakeImage(128, 128, 3, 3), {2, 2});
  // The crop is the whole image, so every cut lies inside.
  const RandomResizedCropOptions crop{.height = 8, .width = 8, .area = {1, 1}, .aspect = {1, 1}};
  for (size_t size = jpeg.size() / 4; size < jpeg.size() - 64; size += 97) {
    const std::string cut = jpeg.substr(0, size);
    EXPECT_FALSE(testing::DecodeCrop(cut, {}, crop, 0).status.ok()) << size;
    EXPECT_FALSE(testing::DecodeThenCrop(cut, {}, crop, 0).status.ok()) << size;
  }
}

// S-ROUND-2.
TEST(FusedDecodeAndCrop, DamageBehindTheRegionIsNotSeen) {
  const std::string whole = EncodeJpeg(MakeImage(128, 128, 3, 3), {1, 1});
  const std::string cut = whole.substr(0, whole.size() - whole.size() / 8);
  const RandomResizedCropOptions crop{
      .height = 8, .width = 8, .area = {0.05f, 0.1f}, .aspect = {1, 1}};
  int unseen = 0;
  for (uint64_t record = 0; record < 40; ++record) {
    const auto from_cut = testing::DecodeCrop(cut, {}, crop, record);
    if (!from_cut.status.ok()) continue;
    ++unseen;
    EXPECT_EQ(from_cut.image.pixels, testing::DecodeCrop(whole, {}, crop, record).image.pixels)
        << record;
  }
  // Crops of under a tenth of the image seldom touch its last rows.
  EXPECT_GT(unseen, 10);
  EXPECT_LT(unseen, 40);
}

// Rows of all kinds in one run, some damaged: each comes out as alone, whatever lies beside it.
TEST(RunOfManyImages, EachRowIsDecodedAsAlone) {
  std::mt19937 random(12);
  std::vector<std::string> values;
  for (int row = 0; row < 40; ++row) {
    const Image image = MakeImage(20 + random() % 120, 20 + random() % 120, 3, random());
    const int h_samp = 1 + static_cast<int>(random() % 2);
    values.push_back(row % 7 == 3
                         ? EncodePng(image.height, image.width, 2, 8, image.pixels)
                         : EncodeJpeg(image, {.h_samp = h_samp, .progressive = row % 9 == 5}));
    if (row % 6 == 4) values.back().resize(values.back().size() / 2);
  }
  const DecodeImageOptions decode;
  const RandomResizedCropOptions crop{.height = 16, .width = 16};
  testing::TestRun fused(40), whole(40);
  fused.AddBytes(decode.field, values);
  whole.AddBytes(decode.field, values);
  auto fused_op = MakeDecodeCrop(decode, crop, "random_resized_crop");
  auto whole_op = MakeDecodeImage(decode);
  ASSERT_TRUE(fused_op.ok() && whole_op.ok());
  testing::ResolveAndApply(**fused_op, testing::EncodedSchema(), *fused);
  testing::ResolveAndApply(**whole_op, testing::EncodedSchema(), *whole);
  int failed = 0;
  for (int row = 0; row < 40; ++row) {
    const auto alone = testing::DecodeCrop(values[row], decode, crop, row);
    ASSERT_EQ(fused->ok(row), alone.status.ok()) << "row " << row;
    if (alone.status.ok()) {
      ASSERT_EQ(fused.ImageAt("image", row), alone.image) << "row " << row;
    }
    const auto all = testing::Decode(values[row], decode);
    ASSERT_EQ(whole->ok(row), all.status.ok()) << "row " << row;
    if (all.status.ok()) {
      ASSERT_EQ(whole.ImageAt("image", row), all.image) << "row " << row;
    } else {
      EXPECT_EQ(whole->status(row), all.status) << "row " << row;
      ++failed;
    }
  }
  EXPECT_GT(failed, 3);
}

TEST(FusedDecodeAndCrop, AnotherFieldIsRefused) {
  const auto op =
      MakeDecodeCrop({.output = "left"}, RandomResizedCropOptions{.field = "right"}, "crop");
  EXPECT_EQ(op.status().code(), absl::StatusCode::kInvalidArgument);
}

// A JPEG of this shape, ended in front of each of its scans but the first.
std::vector<std::string> IncompleteScans(const JpegShape& shape) {
  const std::string jpeg = EncodeJpeg(MakeImage(90, 110, 3, 4), shape);
  const std::string start = "\xFF\xDA";
  std::vector<std::string> cuts;
  for (size_t scan = jpeg.find(start, jpeg.find(start) + 1); scan != std::string::npos;
       scan = jpeg.find(start, scan + 1)) {
    cuts.push_back(jpeg.substr(0, scan) + "\xFF\xD9");
  }
  return cuts;
}

// S-ROUND-2: libjpeg does not warn of such a file, and guesses what is missing from blocks around.
TEST(IncompleteScans, ARegionIsStillPartOfTheWhole) {
  std::mt19937 random(5);
  for (const int samp : {1, 2}) {
    const auto cuts = IncompleteScans({.h_samp = samp, .v_samp = samp, .progressive = true});
    ASSERT_EQ(cuts.size(), 9u);
    for (size_t i = 0; i < cuts.size(); ++i) {
      for (const int channels : {1, 3}) {
        const Image whole = Whole(cuts[i], channels);
        const auto expected = testing::Djpeg(cuts[i], channels);
        if (expected.has_value()) {
          ASSERT_EQ(whole, *expected) << i;
        }
        for (int draw = 0; draw < 20; ++draw) {
          const Region region = RandomRegion(random, whole.height, whole.width);
          ASSERT_TRUE(RegionMatches(cuts[i], whole, region))
              << "before scan " << i + 2 << ", " << samp << " x " << samp << ": top " << region.top
              << ", left " << region.left << ", " << region.height << " x " << region.width;
        }
      }
    }
  }
}

// S-IMAGE-5.
TEST(IncompleteScans, ARegionOfTheSmallImageToo) {
  std::mt19937 random(6);
  for (const int samp : {1, 2}) {
    for (const auto& cut : IncompleteScans({.h_samp = samp, .v_samp = samp, .progressive = true})) {
      const auto expected = testing::Djpeg(cut, 3, "-scale 1/2");
      if (!expected.has_value()) GTEST_SKIP() << "djpeg is not installed";
      for (int draw = 0; draw < 20; ++draw) {
        RunArena arena;
        auto decoder = OpenImage(cut, kMaxPixels);
        ASSERT_TRUE(decoder.ok()) << decoder.status();
        Region small;
        const auto pixels =
            (*decoder)->DecodeScaled(RandomRegion(random, 90, 110), 2, 3, arena, &small);
        ASSERT_TRUE(pixels.ok()) << pixels.status();
        const Image part =
            testing::Crop(*expected, small.top, small.left, small.height, small.width);
        for (int64_t y = 0; y < small.height; ++y) {
          const uint8_t* row = part.pixels.data() + y * small.width * 3;
          ASSERT_TRUE(std::equal(row, row + small.width * 3, pixels->data + y * pixels->stride));
        }
      }
    }
  }
}

}  // namespace
}  // namespace millrace::augment
