#include <archive.h>
#include <archive_entry.h>

#include <array>
#include <cstdio>

#include "readers/text/tar_sample.h"
#include "tests/messages.h"
#include "tests/readers/text/parse_fields_fixture.h"

namespace millrace::readers {
namespace {

using testing::ElementsAre;

using Members = std::vector<std::pair<std::string, std::string>>;

// The blocks that libarchive writes, without the two empty ones at the end.
std::string Tar(const Members& members, int format = ARCHIVE_FORMAT_TAR_USTAR,
                mode_t type = AE_IFREG) {
  std::string blocks(size_t{64} << 10, '\0');
  size_t used = 0;
  archive* const tar = archive_write_new();
  archive_write_set_format(tar, format);
  archive_write_set_bytes_per_block(tar, 0);
  archive_write_open_memory(tar, blocks.data(), blocks.size(), &used);
  for (const auto& [name, bytes] : members) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<int64_t>(bytes.size()));
    archive_entry_set_filetype(entry, type);
    archive_entry_set_perm(entry, 0644);
    EXPECT_EQ(archive_write_header(tar, entry), ARCHIVE_OK) << archive_error_string(tar);
    archive_write_data(tar, bytes.data(), bytes.size());
    archive_entry_free(entry);
  }
  archive_write_close(tar);
  archive_write_free(tar);
  blocks.resize(used - 1024);
  return blocks;
}

class ParseTarTest : public ParseFieldsTest {
 protected:
  void ParseAs(std::vector<FeatureSpec> features, std::vector<std::string> records) {
    Parse({.format = RecordFormat::kTar, .features = std::move(features), .columns = {}},
          std::move(records));
  }
};

// S-PARSE-5.
TEST_F(ParseTarTest, MembersBecomeColumnsByWhatFollowsTheFirstDot) {
  const std::string blocks = Tar({{"dir.x/000.jpg", "image"},
                                  {"dir.x/000.SEG.png", "mask"},
                                  {"dir.x/000.cls", " 17\n"},
                                  {"dir.x/000.json", "{}"},
                                  {"dir.x/000.w", "0.25"}});
  ParseAs({Want("jpg", DType::kBytes), Want("seg.png", DType::kBytes), Want("cls", DType::kI64),
           Want("w", DType::kF32)},
          {blocks, blocks + std::string(1024, '\0'), blocks.substr(0, blocks.size() - 500)});
  ASSERT_TRUE(run_->all_ok()) << run_->status(0) << run_->status(1) << run_->status(2);
  for (int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(Bytes("jpg", row), "image");
    EXPECT_EQ(Bytes("seg.png", row), "mask");
    EXPECT_THAT(Ints("cls", row), ElementsAre(17));
    EXPECT_THAT(Floats("w", row), ElementsAre(0.25f));
  }
  const char* const image = run_->Get("jpg").bytes(0).data();
  EXPECT_TRUE(image >= records_[0].data() && image < records_[0].data() + records_[0].size());
}

TEST_F(ParseTarTest, TheFirstAlternativeThatIsThereCounts) {
  ParseAs({Want("jpg;jpeg;png", DType::kBytes)},
          {Tar({{"a.png", "p"}}), Tar({{"a.png", "p"}, {"a.jpeg", "j"}}), Tar({{"a.gif", "g"}})});
  EXPECT_EQ(Bytes("jpg;jpeg;png", 0), "p");
  EXPECT_EQ(Bytes("jpg;jpeg;png", 1), "j");
  EXPECT_MESSAGE(Failure(2, RecordErrorReason::kFeature));
}

TEST_F(ParseTarTest, AMissingMemberIsToldWithThoseThatAreThere) {
  ParseAs({Want("jpg", DType::kBytes)}, {Tar({{"d/7.png", "p"}, {"d/7.cls", "1"}})});
  EXPECT_MESSAGE(Failure(0, RecordErrorReason::kFeature));
  FeatureSpec cls = Want("cls", DType::kI64);
  cls.has_default = true;
  cls.default_int = 3;
  ParseAs({cls}, {Tar({{"d/7.png", "p"}})});
  EXPECT_THAT(Ints("cls"), ElementsAre(3));
}

TEST_F(ParseTarTest, LongNamesOfEveryFormatAreRead) {
  const std::string folder(150, 'd');
  const std::string name = folder + "/" + std::string(120, 'n') + ".cls";
  for (const int format : {ARCHIVE_FORMAT_TAR_GNUTAR, ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE,
                           ARCHIVE_FORMAT_TAR_PAX_RESTRICTED}) {
    ParseAs({Want("cls", DType::kI64), Want("jpg", DType::kBytes)},
            {Tar({{name, "5"}, {"short.jpg", "x"}}, format)});
    ASSERT_TRUE(run_->ok(0)) << format << run_->status(0);
    EXPECT_THAT(Ints("cls"), ElementsAre(5));
    EXPECT_EQ(Bytes("jpg"), "x");
  }
}

TEST_F(ParseTarTest, FoldersAndLinksArePassedOver) {
  ParseAs({Want("cls", DType::kI64)},
          {Tar({{"a.cls", ""}}, ARCHIVE_FORMAT_TAR_USTAR, AE_IFDIR) + Tar({{"a.cls", "4"}})});
  EXPECT_THAT(Ints("cls"), ElementsAre(4));
}

TEST_F(ParseTarTest, WhatIsNotAsDeclaredIsAFeatureError) {
  ParseAs(
      {Want("cls", DType::kI64)},
      {Tar({{"a.cls", "cat"}}), Tar({{"a.cls", "1"}, {"b.cls", "2"}}), Tar({{"a.cls", ""}}), ""});
  EXPECT_MESSAGE(Failure(0, RecordErrorReason::kFeature));
  EXPECT_MESSAGE(Failure(1, RecordErrorReason::kFeature));
  EXPECT_MESSAGE(Failure(2, RecordErrorReason::kFeature));
  EXPECT_MESSAGE(Failure(3, RecordErrorReason::kFeature));
}

// S-SOURCE-11.
TEST_F(ParseTarTest, ANumberThatAnEditorSavedIsReadOrNamed) {
  const std::string utf16(
      "\xff\xfe"
      "3\0\n\0",
      6);
  ParseAs({Want("cls", DType::kI64)}, {Tar({{"a.cls", "\xef\xbb\xbf 3\r\n"}}),
                                       Tar({{"a.cls", utf16}}), Tar({{"a.cls", utf16.substr(2)}})});
  EXPECT_THAT(Ints("cls"), ElementsAre(3));
  EXPECT_MESSAGE(Failure(1, RecordErrorReason::kFeature), "utf16");
  EXPECT_MESSAGE(Failure(2, RecordErrorReason::kFeature), "utf16");
}

TEST_F(ParseTarTest, CutsAndWrongSumsAreDamage) {
  const std::string blocks = Tar({{"a.jpg", std::string(600, 'x')}, {"a.cls", "1"}});
  std::string flipped = blocks;
  flipped[0] ^= 1;
  ParseAs({Want("cls", DType::kI64)},
          {flipped, blocks.substr(0, 300), blocks.substr(0, 512 + 599), blocks.substr(1)});
  EXPECT_MESSAGE(Failure(0, RecordErrorReason::kExample));
  EXPECT_MESSAGE(Failure(1, RecordErrorReason::kExample));
  EXPECT_MESSAGE(Failure(2, RecordErrorReason::kExample));
  EXPECT_MESSAGE(Failure(3, RecordErrorReason::kExample));
}

// Puts the right checksum into the header at `at`, so that damage gets past it.
void SumHeader(std::string& blocks, size_t at) {
  blocks.replace(at + 148, 8, 8, ' ');
  uint32_t sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<uint8_t>(blocks[at + i]);
  std::snprintf(&blocks[at + 148], 8, "%06o", sum);
}

TEST_F(ParseTarTest, DamagedSamplesAreAnErrorOrOtherValues) {
  std::mt19937_64 random(1);
  const Members members = {{std::string(130, 'n') + ".jpg", "some bytes"}, {"a.cls", "1"}};
  const std::array<std::string, 2> whole = {Tar(members, ARCHIVE_FORMAT_TAR_GNUTAR),
                                            Tar(members, ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE)};
  std::vector<std::string> records;
  for (size_t i = 0; i < 1500; ++i) {
    std::string blocks = whole[i % 2];
    for (uint64_t n = 1 + random() % 4; n > 0; --n) {
      const size_t block = random() % (blocks.size() / 512) * 512;
      const size_t field = std::vector<size_t>{0, 124, 135, 156, 157, 257, 345}[random() % 7];
      blocks[block + field + random() % 4] =
          static_cast<char>(random() % 2 == 0 ? random() : '0' + random() % 10);
      if (random() % 4 != 0) SumHeader(blocks, block);
    }
    if (random() % 4 == 0) blocks.resize(random() % blocks.size());
    records.push_back(std::move(blocks));
  }
  ParseAs({Want("jpg", DType::kBytes)}, records);
  int good = 0;
  for (int64_t row = 0; row < run_->num_rows(); ++row) {
    if (!run_->ok(row)) continue;
    ++good;
    EXPECT_LE(Bytes("jpg", row).size(), records_[static_cast<size_t>(row)].size());
  }
  EXPECT_GT(good, 50);
  EXPECT_LT(good, 1450);
}

}  // namespace
}  // namespace millrace::readers
