// Files of other kinds than the one that is expected, and the record that damage in a tar names.
#include <gmock/gmock.h>

#include <cstdio>

#include "readers/foreign_kind.h"
#include "tests/messages.h"
#include "tests/readers/container/container_fixture.h"

namespace millrace::readers {
namespace {

using testing::HasSubstr;

// As git-lfs writes it (its docs/spec.md).
constexpr std::string_view kPointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 12345\n";
constexpr std::string_view kPage =
    "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n";
constexpr std::string_view kXml =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AccessDenied</Code></Error>";

// First bytes by the formats' specifications: TIFF 6.0 and BigTIFF; ISO/IEC 14496-12 boxes with the
// brands of ISO/IEC 23008-12 (HEIF) and of AVIF; ISO/IEC 15444-1 and 18181-2.
TEST(ForeignKind, NamesImagesByTheirFirstBytes) {
  using Bytes = std::string;
  const std::vector<std::pair<Bytes, std::string>> files = {
      {Bytes("II*\0\x08\0\0\0", 8), "tiff"},
      {Bytes("MM\0*\0\0\0\x08", 8), "tiff"},
      {Bytes("II+\0\x08\0\0\0", 8), "tiff"},
      {Bytes("\0\0\0\x20"
             "ftypavif\0\0\0\0avifmif1miaf",
             28),
       "avif"},
      {Bytes("\0\0\0\x1c"
             "ftypmif1\0\0\0\0mif1avifmiaf",
             28),
       "avif"},
      {Bytes("\0\0\0\x18"
             "ftypheic\0\0\0\0mif1heic",
             24),
       "heic"},
      {Bytes("\0\0\0\x18"
             "ftypmif1\0\0\0\0mif1heic",
             24),
       "heic"},
      {Bytes("\0\0\0\x14"
             "ftypmsf1\0\0\0\0msf1",
             20),
       "heif"},
      {Bytes("\0\0\0\x0cjP  \r\n\x87\n", 12), "jp2"},
      {Bytes("\0\0\0\x0cJXL \r\n\x87\n", 12), "jxl"},
      {Bytes("\0\0\0\x20"
             "ftypisom\0\0\2\0isomiso2",
             24),
       ""},  // a film
      {Bytes("\x89PNG\r\n\x1a\n", 8), "png"},
  };
  for (const auto& [bytes, kind] : files) EXPECT_EQ(ForeignKind(bytes), kind) << kind;
}

TEST(ForeignKind, NamesFilesThatAreNoData) {
  EXPECT_THAT(std::string(ForeignKind(kPointer)), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(std::string(ForeignKind(kPage)), HasSubstr("HTML"));
  EXPECT_THAT(std::string(ForeignKind(kXml)), HasSubstr("XML"));
  EXPECT_EQ(ForeignKind(std::string_view("PK\x03\x04")), "a zip archive");
  EXPECT_EQ(ForeignKind("PAR1...."), "a Parquet file");
  EXPECT_EQ(ForeignKind(""), "");
  EXPECT_EQ(ButForeign("whatever"), "");
  EXPECT_EQ(ButForeign(""), ", but empty");
}

class ForeignFilesTest : public ContainerTest {};

TEST_F(ForeignFilesTest, EveryContainerNamesAPointer) {
  const std::string files[] = {std::string(kPointer), std::string(kPointer.substr(0, 100))};
  for (const std::string& bytes : files) {
    for (const ContainerOptions& container :
         {Kind(ContainerKind::kTfRecord), Kind(ContainerKind::kText), Kind(ContainerKind::kCsv),
          Kind(ContainerKind::kTar), Kind(ContainerKind::kIdx), FixedLength(0, 2, 0)}) {
      const absl::Status status = Read(container, bytes).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << ToString(container);
      EXPECT_THAT(std::string(status.message()), HasSubstr("Git LFS pointer"));
    }
  }
}

TEST_F(ForeignFilesTest, ContainersNameAPageAndAnImage) {
  EXPECT_MESSAGE(Read(Kind(ContainerKind::kTfRecord), kPage).status());
  EXPECT_MESSAGE(Read(Kind(ContainerKind::kTar), kPage).status());
  EXPECT_MESSAGE(Read(Kind(ContainerKind::kIdx), kXml).status());
  EXPECT_MESSAGE(
      Read(Kind(ContainerKind::kTfRecord), std::string("II*\0", 4) + std::string(60, 'x'))
          .status());
  const std::string tiff = std::string("II*\0\x08\0\0\0", 8) + std::string(60, 'x');
  EXPECT_MESSAGE(Read(Kind(ContainerKind::kCsv), kPage).status());
  EXPECT_MESSAGE(Read(Kind(ContainerKind::kCsv), kXml).status());
  EXPECT_MESSAGE(Read(Kind(ContainerKind::kCsv), tiff).status());
  EXPECT_MESSAGE(Read(Kind(ContainerKind::kText), tiff).status());
  EXPECT_MESSAGE(Read({.kind = ContainerKind::kText, .skips_blank = true}, kPage).status());
  // Lines of HTML are lines, and a tar may begin with the letters of another kind.
  ExpectRead(Kind(ContainerKind::kText), "<html>\n", {"<html>"});
}

// A member of ustar (IEEE 1003.1), by hand.
std::string Member(const std::string& name, const std::string& bytes) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 8, std::string("0000644\0", 8));
  char size[13];
  std::snprintf(size, sizeof size, "%011zo", bytes.size());
  header.replace(124, 12, std::string(size, 12));
  header.replace(148, 8, 8, ' ');
  header[156] = '0';
  header.replace(257, 8, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<uint8_t>(c);
  char checksum[9];
  std::snprintf(checksum, sizeof checksum, "%06o", sum);
  header.replace(148, 8, std::string(checksum, 7) + " ");
  return header + bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
}

std::string SampleOf(int number) {
  return Member(std::to_string(number) + ".jpg", "image") +
         Member(std::to_string(number) + ".cls", "1");
}

TEST_F(ForeignFilesTest, DamageInATarNamesItsRecord) {
  const ContainerOptions tar = Kind(ContainerKind::kTar);
  const std::string end(1024, '\0');
  std::string archive = SampleOf(0) + SampleOf(1) + SampleOf(2) + SampleOf(3) + end;
  ASSERT_EQ(Read(tar, archive)->size(), 4u);
  std::string flipped = archive;
  flipped[2 * 2048 + 1024] ^= 1;  // the second header of sample 2
  ExpectDamage(tar, flipped, Reason::kLengthCrc, 2 * 2048, 2);
  EXPECT_MESSAGE(Read(tar, flipped).status(), "flipped");
  const std::string cut = archive.substr(0, 3 * 2048 + 300);
  ExpectDamage(tar, cut, Reason::kTruncatedHeader, 2 * 2048, 2);
  const std::string endless = archive.substr(0, archive.size() - 1024);
  ExpectDamage(tar, endless, Reason::kTruncatedHeader, 3 * 2048, 3);
  EXPECT_THAT(std::string(Read(tar, endless).status().message()), HasSubstr("record 3 at offset"));
  ExpectDamage(tar, archive + "x", Reason::kUnknown, 3 * 2048, 3);
}

}  // namespace
}  // namespace millrace::readers
