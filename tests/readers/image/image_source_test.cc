#include "readers/image_source.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_format.h"
#include "base/record_error.h"
#include "tests/messages.h"
#include "tests/readers/image_fixtures.h"
#include "tests/readers/inflate/deflated.h"

namespace millrace::readers {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// For messages that hold the text of another library or the size of what it made, and for loops.
MATCHER_P2(FailsWith, code, text, "") {
  *result_listener << arg.status();
  return arg.status().code() == code &&
         arg.status().message().find(text) != absl::string_view::npos;
}

using Opened = absl::StatusOr<std::unique_ptr<ImageSource>>;

// "filename=label" of every image in order.
std::vector<std::string> Names(const Opened& source) {
  EXPECT_TRUE(source.ok()) << source.status();
  std::vector<std::string> names;
  if (!source.ok()) return names;
  for (uint64_t i = 0; i < (*source)->num_images(); ++i) {
    const auto image = (*source)->Read(i);
    EXPECT_TRUE(image.ok()) << image.status();
    if (image.ok()) names.push_back(image->filename + "=" + std::to_string(image->label));
  }
  return names;
}

class IdxTest : public testing::Test {
 protected:
  Opened Open(std::string_view images, std::string_view labels) {
    WriteFile(folder_ / "images", images);
    WriteFile(folder_ / "labels", labels);
    return OpenIdxImages(folder_ / "images", folder_ / "labels");
  }
  TempFolder folder_;
};

TEST_F(IdxTest, ImagesBecomeGreyPngWithTheSamePixels) {
  const Opened source = Open(IdxImages(3, 4, 5), IdxLabels(3));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->num_images(), 3u);
  EXPECT_THAT((*source)->class_names(), IsEmpty());
  const auto image = (*source)->Read(2);
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(image->format, "png");
  EXPECT_EQ(image->height, 4);
  EXPECT_EQ(image->width, 5);
  EXPECT_EQ(image->label, 2);
  EXPECT_EQ(image->filename, "images/2.png");
  const auto pixels = DecodeGreyPng(image->encoded);
  ASSERT_EQ(pixels.size(), 20u);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(pixels[i], 40 + i);
}

TEST_F(IdxTest, GzipAndPlainGiveTheSame) {
  const Opened plain = Open(IdxImages(2, 3, 3), IdxLabels(2));
  const auto expected = (*plain)->Read(1)->encoded;
  const Opened packed =
      Open(Deflated(IdxImages(2, 3, 3), Wrapper::kGzip), Deflated(IdxLabels(2), Wrapper::kGzip));
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ((*packed)->Read(1)->encoded, expected);
}

TEST_F(IdxTest, BadMagicNamesTheFile) {
  EXPECT_MESSAGE(Open(IdxLabels(100), IdxLabels(2)), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(Open(IdxImages(2, 3, 3), IdxImages(2, 3, 3)), absl::StatusCode::kInvalidArgument);
}

TEST_F(IdxTest, EveryCutIsDataLoss) {
  const std::string images = IdxImages(2, 3, 3);
  for (size_t size = 0; size < images.size(); ++size) {
    EXPECT_THAT(Open(images.substr(0, size), IdxLabels(2)),
                FailsWith(absl::StatusCode::kDataLoss, "cut"));
  }
  const std::string packed = Deflated(images, Wrapper::kGzip);
  for (size_t size = 3; size < packed.size(); ++size) {
    EXPECT_FALSE(Open(packed.substr(0, size), IdxLabels(2)).ok()) << size;
  }
}

TEST_F(IdxTest, DamagedGzipIsAnError) {
  std::string packed = Deflated(IdxImages(2, 3, 3), Wrapper::kGzip);
  packed[packed.size() - 6] ^= 0x40;  // in the CRC
  EXPECT_THAT(Open(packed, IdxLabels(2)), FailsWith(absl::StatusCode::kDataLoss, "gzip"));
}

TEST_F(IdxTest, TrailingBytesAreDataLoss) {
  EXPECT_MESSAGE(Open(IdxImages(2, 3, 3) + "x", IdxLabels(2)), absl::StatusCode::kDataLoss);
}

TEST_F(IdxTest, CountsThatDifferAreNamed) {
  EXPECT_MESSAGE(Open(IdxImages(2, 3, 3), IdxLabels(3)), absl::StatusCode::kInvalidArgument);
}

TEST_F(IdxTest, AbsurdDimensionsAreRefusedBeforeTheyAreAllocated) {
  const auto header = [](uint32_t count, uint32_t height, uint32_t width) {
    return BigEndian32(0x803) + BigEndian32(count) + BigEndian32(height) + BigEndian32(width);
  };
  EXPECT_MESSAGE(Open(header(1, 0xffffffff, 1), IdxLabels(1)), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(Open(header(1, 0, 28), IdxLabels(1)), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(Open(header(0xffffffff, 16384, 16384), IdxLabels(1)),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(Open(header(10000, 1000, 1000), IdxLabels(1)), absl::StatusCode::kDataLoss);
}

TEST_F(IdxTest, OtherExtentsAreOtherImages) {
  const auto wide = Open(IdxImages(2, 3, 4), IdxLabels(2));
  const uint64_t fingerprint = (*wide)->Fingerprint();
  const auto high = Open(IdxImages(2, 4, 3), IdxLabels(2));
  EXPECT_NE((*high)->Fingerprint(), fingerprint);
  EXPECT_EQ((*Open(IdxImages(2, 3, 4), IdxLabels(2)))->Fingerprint(), fingerprint);
  EXPECT_EQ((*wide)->ImageBytes(1), 12u);
}

TEST_F(IdxTest, MissingFileIsNotFound) {
  EXPECT_MESSAGE(OpenIdxImages(folder_ / "none", folder_ / "none"), absl::StatusCode::kNotFound);
}

class FolderTest : public testing::Test {
 protected:
  void Add(std::string_view name, std::string_view bytes) { WriteFile(folder_ / name, bytes); }
  Opened Open(std::optional<int64_t> label = std::nullopt) {
    return OpenImageFolder(folder_.path(), {.label = label});
  }
  TempFolder folder_;
};

TEST_F(FolderTest, SortedSubfoldersAreTheLabels) {
  Add("dog/2.jpg", MakeJpeg(3, 4));
  Add("dog/1.png", MakePng(5, 6));
  Add("cat/deep/9.JPEG", MakeJpeg(7, 8));
  Add("README.md", "not an image");
  Add("dog/.hidden.jpg", "not looked at");
  const Opened source = Open();
  EXPECT_THAT(Names(source), ElementsAre("cat/deep/9.JPEG=0", "dog/1.png=1", "dog/2.jpg=1"));
  EXPECT_THAT((*source)->class_names(), ElementsAre("cat", "dog"));
  EXPECT_EQ((*source)->Read(2)->label_text, "dog");
}

TEST_F(FolderTest, BytesPassThroughAndTheHeaderGivesTheSize) {
  const std::string jpeg = MakeJpeg(30, 40);
  Add("a/1.png", jpeg);  // a name may lie; the bytes count
  const auto image = (*Open())->Read(0);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->encoded, jpeg);
  EXPECT_EQ(image->format, "jpeg");
  EXPECT_EQ(image->height, 30);
  EXPECT_EQ(image->width, 40);
}

TEST_F(FolderTest, FlatWnidNamesAreTheLabels) {
  Add("n02000000_5.JPEG", MakeJpeg(3, 3));
  Add("n01000000_7.JPEG", MakeJpeg(3, 3));
  Add("n02000000_1.JPEG", MakeJpeg(3, 3));
  const Opened source = Open();
  EXPECT_THAT(Names(source),
              ElementsAre("n01000000_7.JPEG=0", "n02000000_1.JPEG=1", "n02000000_5.JPEG=1"));
  EXPECT_THAT((*source)->class_names(), ElementsAre("n01000000", "n02000000"));
}

TEST_F(FolderTest, PlainFlatNamesNeedOneLabel) {
  Add("x.png", MakePng(2, 2));
  Add("y.png", MakePng(2, 2));
  EXPECT_MESSAGE(Open(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Names(Open(4)), ElementsAre("x.png=4", "y.png=4"));
}

TEST_F(FolderTest, MixedRulesAreRefused) {
  Add("x.png", MakePng(2, 2));
  Add("n01000000_7.JPEG", MakeJpeg(2, 2));
  EXPECT_MESSAGE(Open(1), absl::StatusCode::kInvalidArgument);
  Add("cat/x.png", MakePng(2, 2));
  EXPECT_MESSAGE(Open(), absl::StatusCode::kInvalidArgument);
}

TEST_F(FolderTest, ALabelBesideClassFoldersIsRefused) {
  Add("cat/x.png", MakePng(2, 2));
  EXPECT_MESSAGE(Open(1), absl::StatusCode::kInvalidArgument);
}

TEST_F(FolderTest, FolderWithoutImagesIsNotFound) {
  Add("README.md", "");
  EXPECT_MESSAGE(Open(), absl::StatusCode::kNotFound);
  EXPECT_MESSAGE(OpenImageFolder(folder_ / "none", {}), absl::StatusCode::kNotFound);
}

TEST_F(FolderTest, DamagedImagesNameTheFile) {
  Add("a/1.jpg", "not an image");
  Add("a/2.jpg", MakeJpeg(3, 3).substr(0, 10));
  Add("a/3.png", MakePng(3, 3).substr(0, 20));
  Add("a/4.png", "");
  const Opened source = Open();
  ASSERT_TRUE(source.ok());
  EXPECT_MESSAGE((*source)->Read(0), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT((*source)->Read(1), FailsWith(absl::StatusCode::kDataLoss, "a/2.jpg"));
  EXPECT_THAT((*source)->Read(2), FailsWith(absl::StatusCode::kDataLoss, "a/3.png"));
  EXPECT_MESSAGE((*source)->Read(3), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetRecordError((*source)->Read(1).status())->reason, RecordErrorReason::kImage);
}

class TarTest : public testing::Test {
 protected:
  static constexpr uint64_t kTooLarge = (uint64_t{1} << 30) + 512;

  // The header of a file of that size, whose bytes do not follow.
  std::string TarHeader(const std::string& name, uint64_t size) {
    WriteTar(folder_ / "header.tar", {{name, ""}});
    std::string header = ReadFile(folder_ / "header.tar").substr(0, 512);
    header.replace(124, 11, absl::StrFormat("%011o", size));
    header.replace(148, 8, "        ");
    uint32_t sum = 0;
    for (const char c : header) sum += static_cast<uint8_t>(c);
    header.replace(148, 7, absl::StrFormat("%06o", sum) + std::string(1, '\0'));
    return header;
  }
  Opened Open(const ImageTarOptions& options = {}) { return OpenImageTar(path_, options); }
  NamedBytes Files() {
    return {{"./train/dog/2.jpg", MakeJpeg(3, 4)},
            {"./train/", ""},
            {"./train/readme.txt", "text"},
            {"./train/cat/1.png", MakePng(5, 6)},
            {"./train/dog/1.jpg", MakeJpeg(7, 8)}};
  }
  TempFolder folder_;
  const std::string path_ = folder_ / "images.tar";
};

TEST_F(TarTest, InnerFoldersAreTheLabelsInTheOrderOfTheArchive) {
  WriteTar(path_, Files());
  const Opened source = Open();
  EXPECT_THAT(Names(source),
              ElementsAre("train/dog/2.jpg=1", "train/cat/1.png=0", "train/dog/1.jpg=1"));
  EXPECT_THAT((*source)->class_names(), ElementsAre("cat", "dog"));
}

TEST_F(TarTest, CompressedTarsGiveTheSame) {
  WriteTar(path_, Files());
  const auto expected = Names(Open());
  for (const auto filter : {archive_write_add_filter_gzip, archive_write_add_filter_xz,
                            archive_write_add_filter_bzip2}) {
    WriteTar(path_, Files(), filter);
    EXPECT_EQ(Names(Open()), expected);
  }
}

TEST_F(TarTest, FlatWnidNamesAreTheLabels) {
  WriteTar(path_,
           {{"val/n02000000_5.JPEG", MakeJpeg(3, 3)}, {"val/n01000000_7.JPEG", MakeJpeg(3, 3)}});
  EXPECT_THAT(Names(Open()), ElementsAre("val/n02000000_5.JPEG=1", "val/n01000000_7.JPEG=0"));
}

TEST_F(TarTest, StreamedTarsDoNotGoBack) {
  WriteTar(path_, Files());
  const Opened source = Open();
  EXPECT_EQ((*source)->Read(1)->filename, "train/cat/1.png");
  EXPECT_MESSAGE((*source)->Read(0), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((*source)->Read(2)->filename, "train/dog/1.jpg");
}

TEST_F(TarTest, RandomAccessReadsInAnyOrderWithinItsMemory) {
  WriteTar(path_, Files());
  const Opened source = Open({.labels = {}, .random_access = true});
  EXPECT_EQ((*source)->Read(2)->filename, "train/dog/1.jpg");
  EXPECT_EQ((*source)->Read(0)->encoded, MakeJpeg(3, 4));
  EXPECT_THAT(Open({.labels = {}, .random_access = true, .max_memory_bytes = 100}),
              FailsWith(absl::StatusCode::kResourceExhausted, "extract it"));
}

// In the order of the archive and in another.
TEST_F(TarTest, AnImageThatIsTooLargeIsAnErrorOfItsOwn) {
  WriteTar(path_, {{"cat/1.png", MakePng(5, 6)}, {"dog/1.jpg", MakeJpeg(7, 8)}});
  const std::string rest = ReadFile(path_);
  WriteFile(path_, TarHeader("cat/0.png", kTooLarge));
  std::filesystem::resize_file(path_, 512 + kTooLarge);  // a hole, of zeros
  std::ofstream(path_, std::ios::app | std::ios::binary) << rest;
  for (const bool random_access : {false, true}) {
    const Opened source =
        Open({.labels = {}, .random_access = random_access, .max_memory_bytes = 1 << 20});
    ASSERT_TRUE(source.ok()) << source.status();
    const absl::Status error = (*source)->Read(0).status();
    EXPECT_MESSAGE(error, random_access ? "any_order" : "in_order");
    ASSERT_TRUE(GetRecordError(error).has_value());
    EXPECT_EQ(GetRecordError(error)->ordinal, 0);
    EXPECT_EQ((*source)->Read(1)->filename, "cat/1.png");
    EXPECT_EQ((*source)->Read(2)->encoded, MakeJpeg(7, 8));
  }
}

// S-SOURCE-5. A cut between two images too.
TEST_F(TarTest, ACutInFrontOfTheEndMarkIsAnError) {
  constexpr size_t kBlock = 512;
  WriteTar(path_, Files());
  const std::string whole = ReadFile(path_);
  const size_t zeros = whole.size() - whole.find_last_not_of('\0') - 1;
  const size_t end = whole.size() - zeros / kBlock * kBlock;
  for (size_t size = 0; size < whole.size(); size += 64) {
    WriteFile(path_, whole.substr(0, size));
    EXPECT_EQ(Open().ok(), size >= end + kBlock) << size;
  }
  WriteFile(path_, whole.substr(0, end));
  EXPECT_MESSAGE(Open(), absl::StatusCode::kDataLoss);
}

// S-SOURCE-5. libarchive stops at the first two blocks of zeros.
TEST_F(TarTest, ImagesBehindZerosAreNotLeftOutInSilence) {
  WriteTar(path_, Files());
  const std::string whole = ReadFile(path_);
  WriteFile(path_, whole + whole);
  EXPECT_MESSAGE(Open(), "two_archives");
  std::string hole = whole;
  const size_t header = hole.find("./train/readme.txt");
  hole.replace(header, 1024, 1024, '\0');
  WriteFile(path_, hole);
  EXPECT_THAT(Open(), FailsWith(absl::StatusCode::kDataLoss, "zeros in the place of members"));
  WriteFile(path_, whole + std::string(2 << 20, '\0'));
  EXPECT_THAT(Open(), FailsWith(absl::StatusCode::kDataLoss, "bytes of zeros"));
  WriteTar(path_, Files(), archive_write_add_filter_gzip);
  const std::string compressed = ReadFile(path_);
  WriteFile(path_, compressed + compressed);
  EXPECT_MESSAGE(Open(), "two_compressed");
}

TEST_F(TarTest, WhatIsNoTarIsDataLoss) {
  WriteFile(path_, "this is not a tar");
  EXPECT_THAT(Open(), FailsWith(absl::StatusCode::kDataLoss, "not a tar"));
  EXPECT_MESSAGE(OpenImageTar(folder_ / "none.tar", {}), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace::readers
