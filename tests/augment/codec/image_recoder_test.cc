#include "augment/image_recoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>

#include "augment/codec/encoder.h"
#include "augment/resize/resize.h"
#include "base/record_error.h"
#include "readers/convert.h"
#include "readers/example_builder.h"
#include "readers/image_header.h"
#include "readers/record_writer.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"
#include "tests/temp_files.h"

namespace millrace::augment {
namespace {

using readers::RecodedImage;
using testing::EncodeJpeg;
using testing::EncodePng;
using testing::Image;
using testing::MakeImage;

std::shared_ptr<const readers::ImageCodec> Recoder(const ImageRecoderOptions& options) {
  const auto recoder = MakeImageRecoder(options);
  EXPECT_TRUE(recoder.ok()) << recoder.status();
  return *recoder;
}

// The pixels of an encoded image, as decode_image has them.
Image Pixels(const std::string& encoded, int channels) {
  DecodeImageOptions options;
  options.channels = channels;
  const testing::DecodeResult result = testing::Decode(encoded, options);
  EXPECT_TRUE(result.status.ok()) << result.status;
  return result.image;
}

std::string Png(const Image& image) {
  return EncodePng(image.height, image.width, image.channels == 1 ? 0 : 2, 8, image.pixels);
}

// The same with a grey value that is transparent.
std::string WithTransparentGrey(std::string png) {
  constexpr size_t kHeaderEnd = 33;  // of IHDR, which is the first chunk
  constexpr std::string_view kChunk("\0\0\0\2tRNS\0\7", 10);
  const std::string_view summed = kChunk.substr(4);
  const uint32_t crc =
      crc32(0, reinterpret_cast<const Bytef*>(summed.data()), static_cast<uInt>(summed.size()));
  std::string chunk(kChunk);
  for (int shift = 24; shift >= 0; shift -= 8) chunk += static_cast<char>(crc >> shift);
  return png.insert(kHeaderEnd, chunk);
}

// Area interpolation by its definition: every pixel becomes out x out equal ones, and each output
// pixel is the mean of in x in of these.
Image SlowArea(const Image& in, int64_t out_height, int64_t out_width) {
  Image out{out_height, out_width, in.channels, {}};
  for (int64_t y = 0; y < out_height; ++y) {
    for (int64_t x = 0; x < out_width; ++x) {
      for (int c = 0; c < in.channels; ++c) {
        uint64_t sum = 0;
        for (int64_t v = y * in.height; v < (y + 1) * in.height; ++v) {
          for (int64_t u = x * in.width; u < (x + 1) * in.width; ++u) {
            sum += in.pixels[((v / out_height) * in.width + u / out_width) * in.channels + c];
          }
        }
        const uint64_t area = in.height * in.width;
        out.pixels.push_back(static_cast<uint8_t>((2 * sum + area) / (2 * area)));
      }
    }
  }
  return out;
}

TEST(ResizeAreaTest, EachPixelIsTheMeanOfTheAreaUnderIt) {
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) {
    const int64_t height = 1 + random() % 24;
    const int64_t width = 1 + random() % 24;
    const Image in = MakeImage(height, width, i % 2 == 0 ? 1 : 3, random());
    Image out{1 + static_cast<int64_t>(random() % height),
              1 + static_cast<int64_t>(random() % width),
              in.channels,
              {}};
    out.pixels.resize(out.height * out.width * out.channels);
    ResizeArea(in.pixels.data(), height, width, in.channels, out.pixels.data(), out.height,
               out.width);
    EXPECT_EQ(out, SlowArea(in, out.height, out.width)) << height << " x " << width;
  }
}

TEST(ResizeAreaTest, LargeWhiteImagesStayWhite) {
  const std::vector<uint8_t> in(5000 * 4000, 255);
  std::vector<uint8_t> out(3 * 7);
  ResizeArea(in.data(), 5000, 4000, 1, out.data(), 3, 7);
  EXPECT_THAT(out, ::testing::Each(255));
}

TEST(ImageRecoderTest, TheLongerOrTheShorterSideIsLimitedAndTheShapeKept) {
  struct Case {
    int64_t height, width;
    std::optional<int64_t> longer, shorter;
    int64_t out_height, out_width;
  };
  for (const Case& c :
       {Case{40, 60, 30, {}, 20, 30}, Case{60, 40, 30, {}, 30, 20}, Case{50, 33, 20, {}, 20, 13},
        Case{40, 60, {}, 30, 30, 45}, Case{60, 40, {}, 30, 45, 30}, Case{64, 2, 8, {}, 8, 1}}) {
    const auto recoder = Recoder({.max_resolution = c.longer, .min_resolution = c.shorter});
    const Image image = MakeImage(c.height, c.width, 3, 1);
    for (const std::string& encoded : {EncodeJpeg(image), Png(image)}) {
      const auto recoded = recoder->Recode(encoded);
      ASSERT_TRUE(recoded.ok() && recoded->has_value()) << recoded.status();
      EXPECT_EQ((*recoded)->height, c.out_height);
      EXPECT_EQ((*recoded)->width, c.out_width);
      const Image out = Pixels((*recoded)->encoded, 3);
      EXPECT_EQ(out.height, c.out_height);
      EXPECT_EQ(out.width, c.out_width);
    }
  }
}

TEST(ImageRecoderTest, ImagesThatAreSmallEnoughPassByteForByte) {
  const std::string jpeg = EncodeJpeg(MakeImage(20, 30, 3, 1));
  for (const ImageRecoderOptions& options :
       {ImageRecoderOptions{.max_resolution = 30}, ImageRecoderOptions{.min_resolution = 20},
        ImageRecoderOptions{.max_resolution = 30, .encoding = ImageEncoding::kJpeg}}) {
    const auto recoded = Recoder(options)->Recode(jpeg);
    ASSERT_TRUE(recoded.ok()) << recoded.status();
    EXPECT_FALSE(recoded->has_value());
  }
  EXPECT_TRUE(Recoder({.max_resolution = 29})->Recode(jpeg)->has_value());
}

TEST(ImageRecoderTest, ShrunkPngsAreTheMeansAndStayPng) {
  for (const int channels : {1, 3}) {
    const Image image = MakeImage(21, 34, channels, 5);
    const auto recoded = Recoder({.max_resolution = 13})->Recode(Png(image));
    ASSERT_TRUE(recoded.ok()) << recoded.status();
    EXPECT_EQ((*recoded)->format, "png");
    EXPECT_EQ(Pixels((*recoded)->encoded, channels), SlowArea(image, 8, 13));
  }
}

TEST(ImageRecoderTest, ShrunkJpegsAreNearTheMeansAndStayGreyOrColoured) {
  for (const int channels : {1, 3}) {
    const std::string jpeg = EncodeJpeg(MakeImage(60, 80, channels, 5));
    const auto recoded = Recoder({.max_resolution = 40, .jpeg_quality = 100})->Recode(jpeg);
    ASSERT_TRUE(recoded.ok()) << recoded.status();
    EXPECT_EQ((*recoded)->format, "jpeg");
    const std::string& encoded = (*recoded)->encoded;
    EXPECT_EQ(readers::ReadImageHeader(encoded)->channels, channels);
    // Grey has no chroma to be lost.
    const Image out = Pixels(encoded, channels);
    const Image expected = SlowArea(Pixels(jpeg, channels), 30, 40);
    int64_t error = 0;
    for (size_t i = 0; i < out.pixels.size(); ++i) {
      error += std::abs(out.pixels[i] - expected.pixels[i]);
    }
    EXPECT_LE(error, static_cast<int64_t>(out.pixels.size()) * (channels == 1 ? 1 : 12));
  }
}

TEST(ImageRecoderTest, QualityIsTheEncodersAndTheBytesAreTheSameAgain) {
  const std::string jpeg = EncodeJpeg(MakeImage(60, 80, 3, 5));
  const auto size = [&](int quality) {
    const auto recoder = Recoder({.max_resolution = 40, .jpeg_quality = quality});
    const auto first = recoder->Recode(jpeg);
    const auto second = recoder->Recode(jpeg);
    EXPECT_EQ((*first)->encoded, (*second)->encoded);
    return (*first)->encoded.size();
  };
  EXPECT_LT(size(30), size(90));
}

TEST(ImageRecoderTest, PngsBecomeJpegAndAnythingBecomesPixels) {
  const Image image = MakeImage(9, 12, 3, 2);
  const auto jpeg = Recoder({.encoding = ImageEncoding::kJpeg})->Recode(Png(image));
  ASSERT_TRUE(jpeg.ok() && jpeg->has_value());
  EXPECT_EQ((*jpeg)->format, "jpeg");
  EXPECT_EQ(readers::ReadImageHeader((*jpeg)->encoded)->format, "jpeg");
  const auto raw = Recoder({.encoding = ImageEncoding::kRaw})->Recode(Png(image));
  ASSERT_TRUE(raw.ok() && raw->has_value());
  EXPECT_EQ((*raw)->format, "raw");
  EXPECT_EQ((*raw)->encoded, std::string(image.pixels.begin(), image.pixels.end()));
}

// FFCV's write modes.
std::string ModeOf(const ImageRecoderOptions& options, const std::string& encoded,
                   const Image& pixels) {
  const auto recoded = Recoder(options)->Recode(encoded);
  EXPECT_TRUE(recoded.ok()) << recoded.status();
  if (!recoded.ok()) return "";
  if (!recoded->has_value()) return "as it was";
  const RecodedImage& image = **recoded;
  if (image.format == "jpeg") return "jpeg";
  EXPECT_EQ(image.format, "png");
  EXPECT_EQ(Pixels(image.encoded, pixels.channels), pixels) << "raw is without a loss";
  EXPECT_GE(image.encoded.size(), pixels.pixels.size()) << "and not compressed";
  EXPECT_LE(image.encoded.size(), pixels.pixels.size() + pixels.pixels.size() / 50 + 500);
  return "raw";
}

TEST(ImageRecoderTest, RawIsEveryImageAsPixelsThatAreStored) {
  for (const int channels : {1, 3}) {
    for (const auto& [height, width] : {std::pair(1, 1), std::pair(40, 61), std::pair(300, 200)}) {
      const Image image = MakeImage(height, width, channels, 3);
      const ImageRecoderOptions raw{.encoding = ImageEncoding::kStored};
      EXPECT_EQ(ModeOf(raw, Png(image), image), "raw");
      const std::string jpeg = EncodeJpeg(image);
      EXPECT_EQ(ModeOf(raw, jpeg, Pixels(jpeg, channels)), "raw");
    }
  }
}

TEST(ImageRecoderTest, SmartIsJpegAboveTheThreshold) {
  const Image image = MakeImage(20, 30, 3, 1);
  const Image grey = MakeImage(20, 30, 1, 1);
  const auto smart = [](uint64_t threshold) {
    return ImageRecoderOptions{.encoding = ImageEncoding::kSmart, .smart_threshold = threshold};
  };
  EXPECT_EQ(ModeOf(smart(1800), Png(image), image), "raw");
  EXPECT_EQ(ModeOf(smart(1799), Png(image), image), "jpeg");
  EXPECT_EQ(ModeOf(smart(1799), EncodeJpeg(image), image), "as it was");
  EXPECT_EQ(ModeOf(smart(1799), Png(grey), grey), "raw");
  ImageRecoderOptions shrinking = smart(10 * 15 * 3);
  shrinking.max_resolution = 15;
  EXPECT_EQ(ModeOf(shrinking, Png(image), SlowArea(image, 10, 15)), "raw");
}

TEST(ImageRecoderTest, ProportionFollowsTheSeedAndTheImage) {
  const auto drawn = [](double probability, uint64_t seed) {
    std::string modes;
    for (unsigned i = 0; i < 400; ++i) {
      const Image image = MakeImage(8, 8, 3, i);
      modes += ModeOf({.encoding = ImageEncoding::kProportion,
                       .compress_probability = probability,
                       .seed = seed},
                      Png(image), image)[0];
    }
    return modes;
  };
  const auto num_jpeg = [](const std::string& modes) {
    return static_cast<int>(std::count(modes.begin(), modes.end(), 'j'));
  };
  const std::string half = drawn(0.5, 1);
  EXPECT_EQ(half, drawn(0.5, 1));
  EXPECT_NE(half, drawn(0.5, 2));
  EXPECT_NEAR(num_jpeg(half), 200, 50);  // five deviations
  EXPECT_NEAR(num_jpeg(drawn(0.1, 1)), 40, 30);
  EXPECT_EQ(num_jpeg(drawn(0, 1)), 0);
  EXPECT_EQ(num_jpeg(drawn(1, 1)), 400);
}

TEST(ImageRecoderTest, WriteModesAreDifferentRecodings) {
  std::set<std::string> names;
  for (const ImageRecoderOptions& options :
       {ImageRecoderOptions{}, ImageRecoderOptions{.encoding = ImageEncoding::kJpeg},
        ImageRecoderOptions{.encoding = ImageEncoding::kStored},
        ImageRecoderOptions{.encoding = ImageEncoding::kSmart, .smart_threshold = 1},
        ImageRecoderOptions{.encoding = ImageEncoding::kSmart, .smart_threshold = 2},
        ImageRecoderOptions{.encoding = ImageEncoding::kProportion},
        ImageRecoderOptions{.encoding = ImageEncoding::kProportion, .compress_probability = 0.25},
        ImageRecoderOptions{.encoding = ImageEncoding::kProportion,
        .compress_probability = 0.25000001},
        ImageRecoderOptions{.encoding = ImageEncoding::kProportion, .seed = 1}}) {
    EXPECT_TRUE(names.insert(Recoder(options)->recoding()).second);
  }
  EXPECT_FALSE(MakeImageRecoder({.compress_probability = 1.5}).ok());
}

TEST(ImageRecoderTest, DamagedImagesAreErrors) {
  const auto recoder = Recoder({.max_resolution = 10});
  std::string jpeg = EncodeJpeg(MakeImage(60, 80, 3, 5));
  constexpr auto kDamaged = absl::StatusCode::kDataLoss;
  constexpr auto kNoImage = absl::StatusCode::kInvalidArgument;
  const std::pair<std::string, absl::StatusCode> files[] = {
      {jpeg.substr(0, jpeg.size() / 2), kDamaged},
      {"no image", kNoImage},
      {"", kNoImage},
      {Png(MakeImage(20, 20, 3, 1)).substr(0, 200), kDamaged}};
  for (const auto& [bad, code] : files) {
    const auto recoded = recoder->Recode(bad);
    EXPECT_EQ(recoded.status().code(), code) << bad.size();
    const auto error = GetRecordError(recoded.status());
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->reason, RecordErrorReason::kImage);
  }
  ImageRecoderOptions few;
  few.max_resolution = 10;
  few.max_pixels = 100;
  EXPECT_FALSE(Recoder(few)->Recode(jpeg).ok());
}

TEST(ImageRecoderTest, OnlyWhatIsGreyIsDecodedAsGrey) {
  const auto recoder = Recoder({});
  EXPECT_EQ(recoder->recoding(), "");
  const Image grey = MakeImage(5, 7, 1, 3);
  const auto pixels = recoder->DecodeGrey(Png(grey));
  ASSERT_TRUE(pixels.ok()) << pixels.status();
  EXPECT_EQ(pixels->height, 5);
  EXPECT_EQ(pixels->width, 7);
  EXPECT_EQ(pixels->pixels, std::string(grey.pixels.begin(), grey.pixels.end()));
  EXPECT_TRUE(recoder->DecodeGrey(EncodeJpeg(grey)).ok());
  for (const std::string& other :
       {Png(MakeImage(5, 7, 3, 3)), EncodeJpeg(MakeImage(5, 7, 3, 3)),
        EncodePng(2, 2, 0, 16, std::vector<uint8_t>(8)),
        EncodePng(2, 2, 4, 8, std::vector<uint8_t>(8)),
        EncodePng(2, 2, 0, 4, std::vector<uint8_t>(2)), WithTransparentGrey(Png(grey))}) {
    EXPECT_EQ(recoder->DecodeGrey(other).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(ImageRecoderTest, BadOptionsAreNamed) {
  const auto error = [](const ImageRecoderOptions& options) {
    return MakeImageRecoder(options).status();
  };
  EXPECT_MESSAGE(error({.max_resolution = 0}), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(error({.min_resolution = -1}), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(error({.max_resolution = 1, .min_resolution = 1}),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(error({.jpeg_quality = 0}), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(error({.jpeg_quality = 101}), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(error({.max_pixels = 0}), absl::StatusCode::kInvalidArgument);
}

TEST(ImageRecoderTest, WhatSaysTheOutcomeIsDifferentForDifferentOutcomes) {
  const std::vector<ImageRecoderOptions> all = {
      {.max_resolution = 5},
      {.min_resolution = 5},
      {.max_resolution = 6},
      {.max_resolution = 5, .jpeg_quality = 91},
      {.encoding = ImageEncoding::kRaw},
      {.encoding = ImageEncoding::kJpeg},
      {.jpeg_quality = 80, .encoding = ImageEncoding::kJpeg}};
  std::set<std::string> texts;
  for (const ImageRecoderOptions& options : all) texts.insert(Recoder(options)->recoding());
  EXPECT_EQ(texts.size(), all.size());
  EXPECT_EQ(Recoder({.jpeg_quality = 80})->recoding(), "") << "nothing is encoded";
}

// Conversions with it.

class ConvertImages : public ::testing::Test {
 protected:
  readers::ConvertOptions FromExamples(const std::vector<std::string>& images,
                                       readers::ConvertFormat to) {
    const std::string path = folder_ / "in.tfrecord";
    const auto writer = readers::TfRecordWriter::Open(path);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const std::string& image : images) {
      readers::ExampleBuilder example;
      example.AddBytes("image/encoded", image);
      example.AddInt("image/class/label", 7);
      EXPECT_TRUE((*writer)->Write(example.Serialize()).ok());
    }
    EXPECT_TRUE((*writer)->Close().ok());
    readers::ConvertOptions options;
    options.from = readers::ConvertFormat::kTfRecord;
    options.to = to;
    options.files = {path};
    options.index_folder = folder_ / "indexes";
    options.output_prefix = folder_ / "t";
    return options;
  }

  TempFolder folder_;
};

TEST_F(ConvertImages, ADamagedImageNamesItsRecord) {
  const std::string jpeg = EncodeJpeg(MakeImage(60, 80, 3, 5));
  readers::ConvertOptions options =
      FromExamples({jpeg, jpeg.substr(0, 600)}, readers::ConvertFormat::kTfRecord);
  options.codec = Recoder({.max_resolution = 10});
  const auto report = readers::Convert(options);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kDataLoss);
  const auto error = GetRecordError(report.status());
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->file, options.files[0]);
  EXPECT_EQ(error->ordinal, 1);
  EXPECT_EQ(error->reason, RecordErrorReason::kImage);
}

// A header that is good says nothing about the pixels.
TEST_F(ConvertImages, CutPixelsAreFoundWhereImagesAreDecoded) {
  const std::string jpeg = EncodeJpeg(MakeImage(60, 80, 3, 5));
  const std::string png = Png(MakeImage(60, 80, 3, 5));
  for (const std::string& cut : {jpeg.substr(0, jpeg.size() / 2), png.substr(0, png.size() / 2)}) {
    readers::ConvertOptions options =
        FromExamples({jpeg, cut, png}, readers::ConvertFormat::kTfRecord);
    options.codec = Recoder({});
    options.features = {{"image/encoded", "image/encoded"}};
    options.on_damage = readers::ConvertDamage::kSkip;
    options.overwrite = true;
    for (const auto check : {readers::ConvertCheck::kHeader, readers::ConvertCheck::kDecode}) {
      options.check_images = check;
      const auto report = readers::Convert(options);
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_EQ(report->num_left_out, check == readers::ConvertCheck::kDecode ? 1u : 0u);
    }
  }
}

TEST_F(ConvertImages, IdxComesBackByteForByte) {
  const Image first = MakeImage(5, 7, 1, 1);
  const Image second = MakeImage(5, 7, 1, 2);
  readers::ConvertOptions options =
      FromExamples({Png(first), Png(second)}, readers::ConvertFormat::kIdx);
  options.codec = Recoder({});
  const auto idx = readers::Convert(options);
  ASSERT_TRUE(idx.ok()) << idx.status();
  const std::string images = ReadFile(idx->files[0] + "/images-idx3-ubyte");
  EXPECT_EQ(images.substr(16), std::string(first.pixels.begin(), first.pixels.end()) +
                                   std::string(second.pixels.begin(), second.pixels.end()));
  readers::ConvertOptions again;
  again.from = readers::ConvertFormat::kIdx;
  again.to = readers::ConvertFormat::kIdx;
  again.images = idx->files[0] + "/images-idx3-ubyte";
  again.codec = options.codec;
  again.output_prefix = folder_ / "again";
  const auto copy = readers::Convert(again);
  ASSERT_TRUE(copy.ok()) << copy.status();
  for (const char* const name : {"/images-idx3-ubyte", "/labels-idx1-ubyte"}) {
    EXPECT_EQ(ReadFile(copy->files[0] + name), ReadFile(idx->files[0] + name));
  }
}

TEST_F(ConvertImages, RawPixelsOfOneSizeAreOfFixedLength) {
  const Image image = MakeImage(4, 6, 3, 1);
  readers::ConvertOptions options =
      FromExamples({Png(image), Png(image)}, readers::ConvertFormat::kFixedLength);
  options.codec = Recoder({.encoding = ImageEncoding::kRaw});
  options.feature = "image/encoded";
  const auto report = readers::Convert(options);
  ASSERT_TRUE(report.ok()) << report.status();
  const std::string pixels(image.pixels.begin(), image.pixels.end());
  EXPECT_EQ(ReadFile(report->files[0]), pixels + pixels);
}

}  // namespace
}  // namespace millrace::augment
